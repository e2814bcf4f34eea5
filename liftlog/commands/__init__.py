"""The command groups of `liftlog`, one module each, imported only when the command is asked for."""
