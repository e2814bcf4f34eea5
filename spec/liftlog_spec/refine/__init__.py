"""Is every step of the program a step of the model? Reads protocol traces (liftlog/trace)."""
