"""Certificates: files, what is wrong with them, and contexts for TLS (ADR 0100). No sockets."""
