"""What is known of one copy, and what its roles know; and what all of them use of it."""
