"""What publishers may ask of a message, by headers or in Liftbridge's envelope, and how it is answered."""
