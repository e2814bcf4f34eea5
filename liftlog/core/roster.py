"""Which nodes there are, and where the others call them (I3).

At first those of the configuration. From the first word of an operator on (`AdmitNode`, `RemoveNode`) the
metadata say it: the founders, whom that command has named, and who was admitted, without who was removed.

The metadata come from whoever leads, and a node lets in, and answers, those whom it knows. One that joins
knows some members only, by its configuration; one that was away, or has just started, may not know who was
admitted meanwhile and leads now. So a node that hears no leader asks those whom it knows, and believes what
is newer than what it has. Who is not admitted is not answered: to the others it is a stranger.

A node that starts does not know yet what of its log is committed, and finding out takes a leader; to elect
one may take nodes that only the log names. So it goes by admissions in its log, too, until it has applied
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.core.context import Context
from liftlog.core.foreign import command_in
from liftlog.core.metadata.commands import AdmitNode
from liftlog.core.raft.raft import Raft
from liftlog.messages import JoinQuery, JoinReply, KnowPeers, Send
from liftlog.types import Entry

ASK_AFTER = 3
"""A node of the cluster asks after so many election timeouts without a leader."""
ASK_EVERY = 5
"""Ticks."""


class Roster:
    """See the module."""

    __slots__ = (
        "_admitted_at",
        "_ctx",
        "_known",
        "_raft",
        "_recalled",
        "_silent_ticks",
        "_told_at",
        "other_nodes",
    )

    def __init__(self, ctx: Context, raft: Raft) -> None:
        self._ctx = ctx
        self._raft = raft
        self._known = dict(ctx.config.peers)
        """Where nodes are called."""
        self._admitted_at = 0
        """Index of the last word of an operator that was applied here."""
        self._told_at = 0
        """The same, of what others have told."""
        self._recalled: list[tuple[int, AdmitNode]] = []
        """Admissions that were in the log at the start, by index."""
        self._silent_ticks = 0
        self.other_nodes = frozenset((*ctx.config.voters, *ctx.config.learners)) - {ctx.node}
        """The other nodes of the cluster."""

    @property
    def count(self) -> int:
        """How many nodes there are, this one included."""
        return len(self.other_nodes) + 1

    @property
    def founders(self) -> list[tuple[int, str]]:
        """The voters of the configuration, and where they are called by it."""
        told = self._ctx.metadata.founders
        return list(told) or [(node, self._known.get(node, "")) for node in sorted(self._ctx.config.voters)]

    def address(self, node: int) -> str:
        """Where a node is called, as far as this one knows; empty: nowhere."""
        return self._known.get(node, "")

    def recall(self, entries: Iterable[Entry]) -> None:
        """What a start has found in its snapshot and in its log, committed or not. To be told once."""
        for entry in entries if not self._ctx.mutants.log_names_nobody else ():
            command = command_in(entry)
            if isinstance(command, AdmitNode):
                self._recalled.append((entry.index, command))
        if self._recalled or self._ctx.metadata.admitted_at:
            self._follow()

    def follow(self) -> None:
        """Commands were applied, or a snapshot was installed."""
        if self._ctx.metadata.admitted_at != self._admitted_at:
            self._follow()

    def _follow(self) -> None:
        ctx, metadata = self._ctx, self._ctx.metadata
        self._admitted_at = metadata.admitted_at
        if ctx.config.joins and metadata.founders:
            self._raft.told_founders([node for node, _ in metadata.founders])
        if metadata.admitted_at < self._told_at:
            # Others have told more than what was applied here so far.
            return
        known = {**self._known, **dict(metadata.founders)}
        nodes = {*ctx.config.learners, *(node for node, _ in self.founders)}
        for admission in metadata.admissions.values():
            if admission.removed:
                nodes.discard(admission.node)
            else:
                known[admission.node] = admission.address
                nodes.add(admission.node)
        self._go_by(nodes, {node: known[node] for node in sorted(nodes) if node in known})

    def _go_by(self, nodes: set[int], known: dict[int, str]) -> None:
        """And by what the log says beyond what was applied: to let in one too many costs nothing."""
        for index, command in self._recalled:
            if index > self._ctx.metadata.applied:
                known = {**dict(command.founders), **known, command.node: command.address}
                nodes |= {command.node, *(node for node, _ in command.founders)}
        self.other_nodes = frozenset(nodes) - {self._ctx.node}
        self._known = known
        self._raft.follow_nodes(sorted(nodes))
        self._ctx.effects.append(
            KnowPeers({node: at for node, at in known.items() if node != self._ctx.node})
        )

    # -- a node that hears no leader ----------------------------------------------------------------------

    def tick(self) -> None:
        """Without a leader, ask those who are known: at once if this node has to join, else after a while."""
        ctx, raft = self._ctx, self._raft
        self._silent_ticks = 0 if self._hears_leader else self._silent_ticks + 1
        patience = 0 if ctx.config.joins else ASK_AFTER * raft.election_max_ticks
        if self._silent_ticks > patience and self._silent_ticks % ASK_EVERY == 1:
            for node in sorted(self.other_nodes):
                ctx.effects.append(Send(node, JoinQuery()))

    @property
    def _hears_leader(self) -> bool:
        """Whether there is one that was not silent for longer than anybody waits who votes. Who does not vote
        never ends to follow it, and its successor may be one that this node does not let in yet.
        """
        age_ms = self._raft.quorum_age_ms()
        silent = age_ms is not None and age_ms > self._ctx.config.election_max_ms
        silent = silent and not self._ctx.mutants.leader_heard_for_ever
        return bool(self._raft.leader) and not silent

    def on_query(self, sender: int, query: JoinQuery) -> None:
        """A node of the cluster, as this one knows: who else there is."""
        at = max(self._admitted_at, self._told_at)
        if at:
            told = [(node, address) for node, address in sorted(self._known.items()) if node != sender]
            self._ctx.effects.append(Send(sender, JoinReply(told, at)))

    def on_reply(self, sender: int, reply: JoinReply) -> None:
        """Believed while no leader is heard, if it is newer than what this node knows: the metadata, which
        say it for good, come from whoever leads, and it may be one that this node does not know yet.
        """
        ctx = self._ctx
        if self._hears_leader or reply.at <= max(self._admitted_at, self._told_at):
            return
        ctx.mark("I3.told")
        self._told_at = reply.at
        told = dict(reply.peers)
        mine = {ctx.node: self._known[ctx.node]} if ctx.node in self._known else {}
        self._go_by({*told, sender, *ctx.config.learners}, {sender: self.address(sender), **told, **mine})
