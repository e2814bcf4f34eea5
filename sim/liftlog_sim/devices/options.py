"""How the devices of a world behave: what may be set of the network, NATS and disks.

Apart from the devices themselves, which can be compiled (ADR 0064); a struct cannot be.
"""

from __future__ import annotations

import msgspec


class NetworkOptions(msgspec.Struct, frozen=True):
    """How the network treats messages: times in microseconds, probabilities per message."""

    latency_us: int = 500
    jitter_us: int = 500
    loss: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    """Probability of an extra delay, evenly drawn up to `delay_max_us`: this is what reorders."""
    delay_max_us: int = 0
    echo: float = 0.0
    """Probability that one of the last messages to a process arrives once more at the node's next one."""


class BusOptions(msgspec.Struct, frozen=True):
    """Times in microseconds, probabilities per message or group of acks."""

    latency_us: int = 300
    jitter_us: int = 300
    subscribe_us: int = 2_000
    """From the request of a subscription until the server has it; the confirmation takes as long again."""
    connect_us: int = 20_000
    notice_us: int = 200_000
    """How long a broken connection goes unnoticed."""
    ack_loss: float = 0.0


class StorageTimes(msgspec.Struct, frozen=True):
    """How long the phases of a group take, in microseconds."""

    write_us: int = 50
    sync_us: int = 300
    sync_jitter_us: int = 700
    completion_us: int = 0
    """Greatest delay between a finished sync and the node's learning of it."""
    stall: float = 0.0
    """Probability that a group's sync takes up to `stall_max_us` longer."""
    stall_max_us: int = 0
    journal_read_us: int = 0
    """How much longer the write phase takes of a group that has to read a journal."""
    index_read_us: int = 0
    """And of one that is asked about the last messages of subjects."""
    journals_apart: bool = False
    """Appends to journals wait for groups of journals only, and those to data for groups of data."""
