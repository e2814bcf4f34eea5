"""What a failed run says of itself: its bundle, the story of its causes, the shortest world that fails."""
