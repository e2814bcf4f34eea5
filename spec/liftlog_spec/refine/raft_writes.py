"""Writes of the model and the jobs of the program that carry them out; and what a crash leaves of both."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from liftlog.trace.raft_lines import RaftJob, RaftState, RaftStep
from liftlog_spec.refine.raft_logs import expanded, log_of, may_end, runs_text


class UnlikeWrite(Exception):
    """The node writes another thing than the model. The text says what."""


class PendingWrite:
    """One of the model's writes under way: its number among those of the process, and its jobs' tickets."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


def writes_of(
    line: RaftStep, actions: Sequence[str], before: Any, images: Sequence[Any], nodes: Sequence[int]
) -> list[PendingWrite]:
    """For each new write of the model the jobs that carry it out. `actions`: what wrote; `before`: what the
    disk would hold without; `images`: what it will hold after each write; `nodes`: that of each server.
    Raises UnlikeWrite if they do not write the same.
    """
    states = [job for job in line.jobs if job.kind == "state"]
    logs = deque(job for job in line.jobs if job.kind not in ("state", "snapshot"))
    for job in states:
        if all(_state_of(job) != _kept(image, nodes) for image in (before, *images)):
            text = f"term {job.term}, vote {job.vote or 'none'}, withheld {job.withheld}"
            raise UnlikeWrite(f"it writes {text}, which no action of the model writes")
    found = []
    for action, image in zip(actions, images, strict=True):
        tickets = []
        if image[2] != before[2]:
            tickets += _log_jobs(action, before[2], image[2], logs)
        kept = _kept(image, nodes)
        if kept != _kept(before, nodes):
            # Once for all that a step does about them: what comes later has been written as well.
            fitting = [job.ticket for job in states if _state_of(job) == kept]
            last = _kept(images[-1], nodes)
            fitting = fitting or [job.ticket for job in states if _state_of(job) == last]
            if not fitting:
                raise UnlikeWrite(f"{action} writes its term and vote, but the node submits no such job")
            tickets.append(fitting[0])
        found.append(PendingWrite(min(tickets), max(tickets)))
        before = image
    if logs:
        raise UnlikeWrite(f"it submits a job ({logs[0].kind}) for its log that no action writes")
    return found


def _log_jobs(
    action: str, before: tuple[int, ...], after: tuple[int, ...], jobs: deque[RaftJob]
) -> list[int]:
    """Tickets of the jobs that make one log of the other."""
    log = before
    tickets = []
    while log != after:
        if not jobs:
            raise UnlikeWrite(f"{action} writes its log, but the node submits no such job")
        job = jobs.popleft()
        tickets.append(job.ticket)
        if job.kind == "append" and job.index != len(log):
            raise UnlikeWrite(f"it appends behind {job.index} to a log of {len(log)}")
        if job.kind == "install":
            if len(after) < job.index or after[job.index - 1] != job.term:
                raise UnlikeWrite(f"it installs what ends with an entry of term {job.term}")
            log = after[: job.index]
        log = log[: job.index] + expanded(job.terms)
    return tickets


def _state_of(job: RaftJob) -> tuple[int, int, bool]:
    """The same, of a job."""
    return job.term, job.vote, job.withheld


def _kept(image: Any, nodes: Sequence[int]) -> tuple[int, int, bool]:
    """Term, vote and whether it is barred, of one of the model's images."""
    return image[0], nodes[image[1]] if image[1] >= 0 else 0, image[3]


def crash_of(disks: list[Any], memory: RaftState, nodes: Sequence[int]) -> tuple[int, int, int, int] | None:
    """Parameters of Restart, but for the node, that leave what was found; None if there are none. `disks`:
    the model's disk and its writes under way, in order.
    """
    logs = [log_of(memory, image[2]) for image in disks]
    log = logs[-1]
    last_term = log[-1] if log else 0
    voted = logged = -1
    for number, image in enumerate(disks):
        term, vote, barred = _kept(image, nodes)
        found = (last_term, 0) if last_term > term else (term, vote)
        if found == (memory.term, memory.vote) and barred == memory.withheld:
            voted = number
    for number, image in enumerate(disks):
        if image[2][: len(log)] == logs[number] and may_end(disks, number, len(log)):
            logged = number
    return None if voted < 0 or logged < 0 else (voted, logged, len(log), memory.commit)


def unexplained(disks: list[Any], memory: RaftState, nodes: Sequence[int]) -> str:
    """Why no crash leaves what was found, for people."""
    term, vote, barred = _kept(disks[0], nodes)
    found = f"term {memory.term}, vote {memory.vote or 'none'}, {runs_text(log_of(memory))}"
    if memory.commit:
        found += f", the first {memory.commit} in a snapshot"
    known = f"term {term}, vote {vote or 'none'}, {runs_text(disks[0][2])}{', barred' if barred else ''}"
    return (
        f"no crash leaves what it found ({found}): synced was {known}, {len(disks) - 1} writes were under way"
    )
