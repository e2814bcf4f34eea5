"""Consumers, as their leader serves them (K1-K10); what they are is in liftlog/core/consumers."""
