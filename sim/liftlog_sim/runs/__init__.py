"""One run: its gears, its phases, its verdict, its trace."""
