"""Directed scenarios: the format of their files, what they tell, their command."""
