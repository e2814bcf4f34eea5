"""What a sweep has reached, and what it never did."""
