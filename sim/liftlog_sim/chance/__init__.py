"""What chance decides: numbers by name, and plans that state them."""
