"""How a follower takes in what its leader appends (M1f, M1g). Rules are numbered in `liftlog.core.raft`."""

from __future__ import annotations

import msgspec

from liftlog.core.raft.state import RaftState
from liftlog.messages import AppendReply, AppendRequest
from liftlog.types import NO_TICKET, Entry, Ticket


def take_append(state: RaftState, request: AppendRequest) -> tuple[AppendReply, Ticket]:
    """Take in a request of the term's leader; the answer, and the ticket that it has to wait for."""
    log = state.raft_log
    prev_index = request.prev_index
    if prev_index < log.start:
        return _take_below(state, request)
    # I2: the reply says whether this disk's word counts.
    if log.term_at(prev_index) != request.prev_term:
        state.mark("M1.mismatch")
        hint = log.retry_hint(prev_index, state.commit)
        return _reply(state, request, False, hint), NO_TICKET
    matched = prev_index + len(request.entries)
    if request.entries:
        _merge(state, request.entries)
        if state.mutants.raft_ack_whole_log:
            matched = log.last_index
        acknowledged = matched
    else:
        # A heartbeat is answered at once, even while the disk is slow, and claims only what is synced.
        acknowledged = min(matched, log.durable_index)
        if acknowledged < matched:
            state.mark("M1.ack-synced")
    # M1g: never above what will be durable when the reply leaves.
    after = log.ticket_for(acknowledged)
    if after != NO_TICKET:
        state.mark("M1.held-back")
    if state.mutants.raft_ack_before_sync:
        acknowledged, after = matched, NO_TICKET
    # Beyond `matched` this log may differ from the leader's, whatever the leader has committed.
    commit = min(request.commit, matched if not state.mutants.raft_commit_unclamped else log.last_index)
    if min(request.commit, log.last_index) > max(commit, state.commit):
        state.mark("M1.commit-beyond-match")
    if commit > state.commit:
        state.commit_to(commit)
    return _reply(state, request, True, acknowledged), after


def _reply(state: RaftState, request: AppendRequest, success: bool, match: int) -> AppendReply:
    return AppendReply(
        state.term,
        state.node,
        success,
        match,
        request.round,
        counts=state.may_vote,
        disk=state.disk_id,
    )


def _take_below(state: RaftState, request: AppendRequest) -> tuple[AppendReply, Ticket]:
    """M1q: the entry before lies in the snapshot. It cannot be compared, and need not be: what is committed
    is the same in every log of a leader. So what the request has up to the log's beginning is there.
    """
    log = state.raft_log
    state.mark("M1.append-below")
    end = request.prev_index + len(request.entries)
    if end > log.start:
        rest = request.entries[log.start - request.prev_index :]
        known = msgspec.structs.replace(request, prev_index=log.start, prev_term=log.start_term, entries=rest)
        return take_append(state, known)
    # As above: a heartbeat is answered at once.
    acknowledged = end if request.entries else min(end, log.durable_index)
    if state.mutants.append_below_answers_all:
        acknowledged = log.last_index
    return _reply(state, request, True, acknowledged), log.ticket_for(acknowledged)


def _merge(state: RaftState, entries: list[Entry]) -> None:
    """M1f: take entries whose predecessor matches; what is already there is left alone."""
    log = state.raft_log
    for position, entry in enumerate(entries):
        term = log.term_at(entry.index)
        if term == entry.term:
            continue
        if term >= 0:
            state.mark("M1.truncate")
            state.truncate(entry.index - 1)
        state.append(entries[position:])
        return
    if state.mutants.raft_cuts_what_matches and log.last_index > max(entries[-1].index, state.commit):
        state.truncate(max(entries[-1].index, state.commit))
