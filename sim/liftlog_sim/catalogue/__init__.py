"""The planted bugs as a history of the field: where each was met, what it teaches, how it is caught here."""
