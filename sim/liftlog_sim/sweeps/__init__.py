"""Many seeds: on several processes, twice, and the record of the last whole sweep."""
