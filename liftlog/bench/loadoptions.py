"""How much is published, as options of those benchmarks that do nothing else."""

from __future__ import annotations

import argparse

from liftlog.bench.load import Load

SIZE_MAX = 1_000_000
LOAD_RANGES = (
    ("size", 8, SIZE_MAX),
    ("window", 1, 1_000_000),
    ("count", 1, 100_000_000),
    ("seconds", 0.1, 3600),
)
"""What `check_ranges` is to look at."""


def add_load(parser: argparse.ArgumentParser, replicas: int) -> None:
    """`replicas`: how many there are if nobody says."""
    parser.add_argument("--replicas", type=int, choices=(1, 3), default=replicas)
    parser.add_argument("--size", type=int, default=128, help="payload bytes (default 128)")
    parser.add_argument("--window", type=int, default=5000, help="unacknowledged at once (default 5000)")
    parser.add_argument("--count", type=int, default=300_000, help="messages a round (default 300000)")
    parser.add_argument("--seconds", type=float, default=5.0, help="a round ends after this at the latest")


def load_of(options: argparse.Namespace, subject: str, stream: str, subjects: int = 0) -> Load:
    """What these options say, of which `subjects` is none."""
    return Load(
        port=0,
        subject=subject,
        stream=stream,
        size=options.size,
        window=options.window,
        messages=options.count,
        seconds_max=options.seconds,
        subjects=subjects,
    )
