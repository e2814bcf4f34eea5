"""Simulated publishers send parcels, and what is committed of one is all of it (L8)."""

from __future__ import annotations

import pytest

from liftlog.core.guards import Guards
from liftlog.core.replica.publishing.parcels import open_parcel
from liftlog.messages import AckPublishes
from liftlog.mutants import NO_MUTANTS
from liftlog.options.wishes import Refusal
from liftlog.parcel import Parcel
from liftlog.types import EpochStart, Message, PartitionId, Record, StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import Kernel
from liftlog_sim.profiles.settings import parcels_of
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.leader_acks import LeaderAcks
from liftlog_sim.truth.parcels import Parcels
from liftlog_sim.workload import parcelling
from tests.sim.test_invariants import batch

PARTITION = PartitionId(5, 0)
SENT = (b"1-2-0", b"1-2-1", b"1-2-2")


def records(*values: bytes, start: int = 0) -> list[Record]:
    return [
        Record(start + place, 1, b"s", b"", b"", None, value + b"..") for place, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "begin", "words"),
    [
        ((b"a", *SENT, b"b"), 0, ""),
        (SENT, 0, ""),
        ((b"a", b"b"), 0, ""),
        ((b"a", *SENT[:2]), 0, "3 values were sent together, from 1-2-0 on; committed at 1..2"),
        ((*SENT[1:], b"a"), 0, "committed at 0..2 is 1-2-1, 1-2-2, a"),
        ((SENT[0], b"a", *SENT[1:]), 0, "committed at 0..2 is 1-2-0, a, 1-2-1"),
        ((SENT[0], SENT[2], SENT[1]), 0, "committed at 0..2"),
        ((*SENT, *SENT), 3, ""),
        ((SENT[0], SENT[1], SENT[2]), 1, "from 1-2-0 on; committed at 1..2 is 1-2-1, 1-2-2"),
    ],
)
def test_L8_parcel_whole_sees_what_is_torn(values: tuple[bytes, ...], begin: int, words: str) -> None:
    parcels = Parcels()
    parcels.sent(SENT)
    found = parcels.problem([*records(*values)], begin)
    assert words in found and bool(words) == bool(found)


def test_L8_it_is_judged_when_more_is_committed() -> None:
    account = Account(Kernel(), NO_MUTANTS)
    account.parcels.sent(SENT)
    truth = account.truth(PARTITION)
    truth.led(1, 1, 1)
    truth.appended(1, batch(1, 0, 3, records(*SENT)))
    truth.claimed(1, 1, [EpochStart(1, 0)], 2, 3)
    with pytest.raises(Violation, match=r"ParcelWhole.*committed at 0\.\.1"):
        account.grown(truth, 0)
    assert account.checks.counts["ParcelWhole"] == 1


def test_L8_R4_a_leaders_word_for_a_parcel_is_for_all_of_it() -> None:
    acks = AckPublishes(PARTITION, "s", 1, 1, 4, [b"r"], by_leader=True, records=3)
    assert acks.end == 7
    assert LeaderAcks().given(acks, 1, 7) == ""
    assert "offset 6" in LeaderAcks().given(acks, 1, 6)


def test_L8_what_is_drawn_as_wrong_is_refused_and_all_else_is_not() -> None:
    config, kinds = StreamConfig("orders", "orders"), set()
    for seed in range(200):
        draws = Draws(seed)
        wrong, values = seed % 2 == 0, [b"v%d" % place for place in range(1 + seed % 5)]
        payload = parcelling.parcel(values, [None] * len(values), b"orders", wrong, draws)
        message = Message(b"orders", b"", b"", payload)
        found = open_parcel(Guards().decides, config, 0, message, 1 << 20)
        assert isinstance(found, Refusal if wrong else Parcel), (seed, found)
        if isinstance(found, Refusal):
            kinds.add(found.text.partition(": ")[2][:12])
    assert len(kinds) >= 4


def test_L8_groups_cover_all_values() -> None:
    for seed in range(50):
        sizes = parcelling.groups(17, Draws(seed))
        assert sum(max(1, size) for size in sizes) == 17 and max(sizes) <= parcelling.RECORDS_MAX


def test_L8_some_worlds_have_parcels_and_what_they_check_holds() -> None:
    share = sum(parcels_of(seed) > 0 for seed in range(400)) / 400
    assert 0.2 < share < 0.3
    result = run_seed(RunOptions(seed=8, profile="mixed", duration_s=15))
    assert not result.invariant and result.checks["ParcelWhole"] > 5


@pytest.mark.parametrize(
    ("mutant", "seed", "profile", "invariant"),
    [
        ("parcel_halved", 8, "mixed", "ParcelWhole"),
        ("parcel_acked_at_append", 8, "mixed", "ConsistentRead"),
        ("parcel_acked_from_end", 8, "mixed", "NoAckedRecordLost"),
        ("parcel_counts_once", 25, "partitions", "StoredAsExpected"),
        ("fetch_cut_to_size", 8, "mixed", "ParcelWhole"),
        ("L8.damaged", 8, "kills", "HeadersHeeded"),
        ("L8.count", 26, "kills", "ParcelWhole"),
        ("L8.subject", 13, "mixed", "HeadersHeeded"),
        ("L8.options", 8, "partitions", "HeadersHeeded"),
    ],
)
def test_L8_planted_bugs_are_seen(mutant: str, seed: int, profile: str, invariant: str) -> None:
    options = RunOptions(seed=seed, profile=profile, mutant=mutant, duration_s=20)
    assert run_seed(options).invariant == invariant
