"""The page: one HTML file that shows what happened in a run, step by step (`liftlog sim report`)."""
