"""The version, in a module of its own, so that building the package imports nothing else."""

VERSION = "0.2.0.dev0"
