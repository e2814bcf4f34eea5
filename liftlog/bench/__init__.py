"""`liftlog bench`: measures liftlog and, with the same load generator, JetStream on the same machine."""
