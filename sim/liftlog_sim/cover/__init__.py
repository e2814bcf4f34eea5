"""What a sweep has met: which operation came under which fault in which state, and what never came up."""
