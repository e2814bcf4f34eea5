"""What goes wrong in a simulated world, when, and to whom."""
