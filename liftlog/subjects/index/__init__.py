"""The subject index of a partition: which offsets have which subject, and how many.

    interface   what an index answers, the port that keeps its chunks, and what it refuses
    plain       a dictionary and a list: the definition, which the other is held against
    table       subjects to small numbers, by a hash table whose columns are numpy's
    filters     which subjects of a table a filter matches, all at once
    chunk       65,536 offsets, sealed: how they are encoded, and what is checked before they are believed
    chunks      which subject lies at which offset: open columns, sealed chunks, what is removed
    columns     the index itself

The room is pure: what an index answers depends on the calls alone. It is derived from the log, and whatever
is wrong with it is made again from there. docs/subject-index.md says what it answers, and what that costs.
"""
