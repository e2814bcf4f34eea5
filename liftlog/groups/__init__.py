"""Consumer groups without IO: what a group is, who shall own what, and what one member knows (G1-G5)."""
