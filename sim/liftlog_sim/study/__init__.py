"""What a researcher adds from outside: faults, clients and invariants of their own."""
