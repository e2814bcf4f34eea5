"""Running models: generated Python for exploring their states."""
