"""What `liftlog cluster status --live` draws, and how `stream info` says how old it is."""

from __future__ import annotations

import msgspec

from liftlog.commands.clusterview import ClusterView
from liftlog.commands.liveview import BAD, GOOD, WARN, live_lines
from liftlog.commands.streamview import how_old
from liftlog.messages import PartitionInfo, ReplicaInfo, StreamInfo, StreamInfoReply
from liftlog.types import PartitionId, StreamConfig
from tests.core.test_clusterview import answer, contact


def stream(partitions: int, dead: int = -1, lacking: int = -1) -> StreamInfo:
    told = [
        PartitionInfo(
            index=index,
            leader=0 if index == dead else 1,
            epoch=3,
            version=7,
            replicas=[1, 2, 3],
            isr=[1, 2] if index == lacking else [1, 2, 3],
            eligible=[],
            ready=True,
            min_insync=2,
        )
        for index in range(partitions)
    ]
    return StreamInfo(8, StreamConfig("orders", "orders.*", partitions, 3), told)


def copies(role: str, leo: int, count: int) -> list[ReplicaInfo]:
    return [
        ReplicaInfo(PartitionId(8, index), role, 3, leo, leo, leo, 0, "clean", "ready")
        for index in range(count)
    ]


def look(leo: int, info: StreamInfo, behind: int = 0) -> ClusterView:
    count = len(info.partitions)
    answers = {
        1: answer(1, contact(), replicas=copies("leader", leo, count)),
        2: answer(2, contact(), replicas=copies("follower", leo - behind, count)),
    }
    return ClusterView(answers, [info])


def test_rates_come_of_two_looks_and_lag_of_the_worst_copy() -> None:
    info = stream(1)
    lines = live_lines(look(3000, info, behind=40), look(1000, info), 2.0, 40)
    (row,) = [line for line in lines if line.text.startswith("orders")]
    assert " ".join(row.text.split()) == "orders 0 1 3 1 2 3 of 1 2 3 3000 1000 40"
    assert lines[-1] == ("every partition takes messages", GOOD)
    first = [line.text for line in live_lines(look(3000, info), None, 0.0, 40) if "orders" in line.text]
    assert first[0].split()[-2:] == ["0", "0"]


def test_the_worst_come_first_and_the_terminal_is_not_overrun() -> None:
    info = stream(50, dead=30, lacking=20)
    lines = live_lines(look(10, info), None, 0.0, 24)
    rows = [line for line in lines if line.text.startswith("orders")]
    assert (rows[0].text.split()[1], rows[0].colour) == ("30", BAD)
    assert (rows[1].text.split()[1], rows[1].colour) == ("20", WARN)
    assert rows[2].colour == "" and len(lines) <= 24
    assert f"and {50 - len(rows)} more partitions" in [line.text for line in lines]
    (silent,) = [line for line in lines if line.text.startswith("   3") and line.colour == BAD]
    assert "unknown" in silent.text, "node 3 does not answer"
    assert any(line.colour == BAD and "has no leader" in line.text for line in lines)


def test_a_copy_with_a_journal_is_one_copy() -> None:
    info, two = stream(1), copies("leader", 10, 2)
    two[1] = msgspec.structs.replace(two[1], partition=PartitionId(8, 0).journal)
    view = ClusterView({1: answer(1, contact(), replicas=two)}, [info])
    (row,) = [line.text for line in live_lines(view, None, 0.0, 40) if line.text.strip().startswith("1 ")]
    head = next(line.text for line in live_lines(view, None, 0.0, 40) if "COPIES" in line.text)
    assert row[head.index("COPIES") : head.index("VOTE")].split() == ["1", "1"]


def test_what_is_told_says_of_when_it_is() -> None:
    assert how_old(StreamInfoReply([], 2, True, 0, 9)) == "as of now: node 2 asked a quorum"
    assert how_old(StreamInfoReply([], 2, False, 100, 9)) == (
        "as node 2 knows it, which heard a controller 0.1 s ago; --linearizable asks a quorum"
    )
    assert how_old(StreamInfoReply([], 2, False, -1, 9)) == (
        "as node 2 read it from its disk: it has heard no controller since it started"
    )
