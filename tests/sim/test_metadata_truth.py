"""MetadataReads: answers about streams that were so at one moment since they were asked for, and others."""

from __future__ import annotations

import msgspec

from liftlog.core.describe import describe_partition
from liftlog.core.metadata.commands import (
    AlterStream,
    Command,
    ConfirmNode,
    CreateStream,
    DeleteStream,
    NodeLevel,
    RaiseLevel,
    RegisterNode,
    RequestId,
    encode_command,
)
from liftlog.messages import StreamChanges, StreamInfo
from liftlog.types import Entry, StreamConfig
from liftlog_sim.truth.metadata import MetadataTruth


class _Group:
    """Commits commands, and answers what was so after any of them."""

    def __init__(self) -> None:
        self.truth = MetadataTruth()
        self.answers: list[list[StreamInfo]] = [[]]
        self.commit(RegisterNode(self._request(), 1, 0, "disk", 0, 1, "", []))
        self.commit(ConfirmNode(self._request(), 1, 1, 1))

    def _request(self) -> RequestId:
        return RequestId(1, len(self.answers), 1000)

    def commit(self, command: Command) -> int:
        index = self.truth.committed + 1
        self.truth.commit(Entry(index, 1, encode_command(command)))
        state = self.truth._state
        self.answers.append(
            [
                StreamInfo(
                    stream.id,
                    stream.config,
                    [describe_partition(state.partitions[partition]) for partition in stream.partitions],
                )
                for stream in state.streams.values()
            ]
        )
        return index

    def create(self, name: str) -> int:
        return self.commit(
            CreateStream(self._request(), StreamConfig(name, name, 1, 1), self.truth.committed)
        )

    def delete(self, name: str) -> int:
        stream = self.truth._state.streams[name].id
        return self.commit(DeleteStream(self._request(), stream, name))


def test_what_was_so_at_any_moment_since_the_question_is_right() -> None:
    group = _Group()
    created = group.create("a")
    deleted = group.delete("a")
    again = group.create("a")
    for index in (created, deleted, again):
        assert group.truth.judge("a", group.answers[index], created) == ""
        assert group.truth.judge("", group.answers[index], created) == ""


def test_what_was_so_only_before_the_question_is_stale() -> None:
    group = _Group()
    created = group.create("a")
    deleted = group.delete("a")
    problem = group.truth.judge("a", group.answers[created], deleted)
    assert f"it was so at index {created}" in problem
    again = group.create("a")
    assert "made when index" in group.truth.judge("a", group.answers[created], again)
    assert group.truth.judge("a", [], again) != ""


def test_two_moments_in_one_answer_are_none() -> None:
    group = _Group()
    first = group.create("a")
    group.delete("a")
    second = group.create("b")
    mixed = [*group.answers[first], *group.answers[second]]
    assert "it was so at no index" in group.truth.judge("", mixed, first)
    assert group.truth.judge("", group.answers[second], first) == ""


def test_a_version_of_a_partition_that_never_was_is_found() -> None:
    group = _Group()
    created = group.create("a")
    answer = group.answers[created]
    answer[0].partitions[0].version += 1
    assert group.truth.judge("a", answer, created) != ""


def test_r19_an_answer_without_a_partition_that_was_added_is_stale() -> None:
    group = _Group()
    created = group.create("a")
    group.commit(RaiseLevel(group._request(), 2, [NodeLevel(1, 1, 2)]))
    grown = group.commit(
        AlterStream(group._request(), created, "a", 0, StreamChanges(partitions=2)),
    )
    assert group.truth.judge("a", group.answers[grown], grown) == ""
    assert group.truth.judge("a", group.answers[created], created) == ""
    assert f"it was so at index {grown - 1}" in group.truth.judge("a", group.answers[created], grown)
    partial = [msgspec.structs.replace(group.answers[grown][0], partitions=[])]
    assert group.truth.judge("a", partial, grown) != ""
