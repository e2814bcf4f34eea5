"""How fast the simulator is, where its time goes, and what memory it takes."""
