"""From messages to batches and answers: what a message may ask for, and who remembers what was stored."""
