"""What a cluster's state means, put together from what each node says of itself.

Nodes that do not answer say nothing, and without a quorum nobody can say what is, only what was last heard.
So everything told here is either from a node about itself, or "as of" a time. A *problem* is a reason why
messages cannot be taken; a *remark* is what an operator should know before the next thing fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from liftlog.commands.retirements import retirements
from liftlog.commands.rightsview import rights_remarks
from liftlog.commands.tlsview import tls_remarks
from liftlog.messages import ClusterStatusReply, NodeInfo, PartitionInfo, StreamInfo

LINES_MAX = 20
"""At most so many partitions are named one by one."""
SESSIONS = {"registered": "starting", "live": "live", "expired": "lost", "left": "stopped"}
NO_VOTE = {
    "withheld": "its disk was set back: its vote is withheld until it has started again, as a new voter",
    "wiped": "its disk is new here; it gets a vote once the session of the disk before is over",
    "learner": "it gets a vote when it has the log of commands",
    "fresh": "it has not heard from all voters yet: the cluster's birth needs every one of them",
    "signed": "it waits for the other voters to complete the cluster's birth",
}


@dataclass
class ClusterView:
    """The cluster as its nodes tell it. `streams`: of the group, or as `newest` knows them."""

    answers: Mapping[int, ClusterStatusReply]
    streams: Sequence[StreamInfo]
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    apart: Mapping[int, str] = field(default_factory=dict)
    """M5: nodes that have answered and are of another cluster, and what is to be said of each."""

    def __post_init__(self) -> None:
        self.answers, self.apart = _of_one_cluster(self.answers)
        self.newest = max(self.answers.values(), key=lambda answer: (answer.term, answer.applied))
        """Whoever has heard most."""
        led = [answer for answer in self.answers.values() if answer.contact.has_controller]
        self.controller = max(led, key=lambda answer: answer.term).controller if led else 0
        """0 = none that anybody hears."""
        self.voters = self.newest.contact.voters
        self.learners = self.newest.contact.learners
        self.needed = len(self.voters) // 2 + 1
        self.votes = [n for n in self.voters if n in self.answers and self.answers[n].contact.vote == "born"]
        self.problems += self.apart.values()
        self._judge_group()
        self._judge_partitions()
        self._remark()

    @property
    def takes_messages(self) -> bool:
        return not self.problems

    # -- for the tables --------------------------------------------------------------------------------------

    def headline(self) -> str:
        """Who is the controller, or who was the last one that is known, and when."""
        newest = self.newest
        told = f"term {newest.term}, {newest.applied} entries applied"
        if self.controller:
            return f"controller: node {self.controller}, {told}"
        heard = [answer for answer in self.answers.values() if answer.contact.controller_ms >= 0]
        if not heard:
            return f"controller: none, and no node that answers has heard of one since it started; {told}"
        latest = min(heard, key=lambda answer: answer.contact.controller_ms)
        contact = latest.contact
        who = (
            f"node {latest.answered_by} was it, with a quorum until"
            if contact.last_controller == latest.answered_by
            else f"node {contact.last_controller} was it, heard by node {latest.answered_by}"
        )
        return f"controller: none; {who} {ago(contact.controller_ms)}. What follows is as of then: {told}"

    def nodes(self) -> list[NodeInfo]:
        """Every node that has registered, and the voters that never did."""
        known = {info.node: info for info in self.newest.nodes}
        never = [NodeInfo(n, False, 0, "", True) for n in self.voters if n not in known]
        return sorted([*known.values(), *never], key=lambda info: info.node)

    def session(self, info: NodeInfo) -> str:
        """Without a controller sessions are what they were."""
        if not info.incarnation:
            return "never seen"
        state = SESSIONS.get(info.state, info.state)
        return state if self.controller else f"was {state}"

    def contact(self, node: int) -> str:
        """When the controller last answered this node, by the node's own word."""
        answer = self.answers.get(node)
        if answer is None or answer.contact.session_ms < 0:
            return "-"
        return ago(answer.contact.session_ms)

    def vote(self, info: NodeInfo) -> str:
        if info.node in self.learners:
            return "joining"
        if not info.voter:
            return "-"
        answer = self.answers.get(info.node)
        if answer is None:
            return "unknown"
        return {"born": "yes", "withheld": "withheld", "wiped": "withheld"}.get(
            answer.contact.vote, "not yet"
        )

    def release(self, info: NodeInfo) -> str:
        """What the node runs; release 0.1.0 does not say it."""
        answer = self.answers.get(info.node)
        if answer is None:
            return "-"
        number = answer.counters.get("release.number", 1000)
        return f"{number // 1000_000}.{number // 1000 % 1000}.{number % 1000}"

    @property
    def level(self) -> int:
        """U2: the cluster's feature level, by whoever has heard most."""
        return max(answer.counters.get("level.cluster", 1) for answer in self.answers.values())

    def can(self, info: NodeInfo) -> int:
        """Which level the node says that it can; 0: it does not answer."""
        answer = self.answers.get(info.node)
        return 0 if answer is None else answer.counters.get("level.can", 1)

    def snapshot(self, info: NodeInfo) -> str:
        """How much of the metadata the node has in a snapshot, or how far it is with one that it is sent."""
        answer = self.answers.get(info.node)
        if answer is None:
            return "-"
        if answer.installing is not None:
            entries, come, chunks = answer.installing
            return f"{come} of {chunks} chunks of {entries}"
        return str(answer.snapshot) if answer.snapshot else "none yet"

    def name(self, stream: int) -> str:
        return next((known.config.name for known in self.streams if known.id == stream), f"id {stream}")

    # -- judging ---------------------------------------------------------------------------------------------

    def _judge_group(self) -> None:
        if self.controller:
            return
        if len(self.votes) < self.needed:
            missing = [n for n in self.voters if n not in self.answers]
            why = f"{len(self.votes)} of {len(self.voters)} votes can be reached, {self.needed} are needed"
            start = f"; start {_nodes(missing)}" if missing else ""
            self.problems.append(f"no controller: {why}{start}")
        else:
            self.problems.append("no controller: an election is under way, or nodes do not reach each other")

    def _without_nats(self, node: int) -> bool:
        return node in self.answers and not self.answers[node].contact.nats

    def _judge_partitions(self) -> None:
        found = []
        if all(self._without_nats(node) for node in self.answers):
            self.problems.append("no node that answers is connected to NATS, so no message arrives: start it")
            return
        for stream in self.streams:
            for partition in stream.partitions:
                where = f"'{stream.config.name}' partition {partition.index}"
                present = ", ".join(map(str, partition.isr)) or "none"
                if not partition.leader:
                    rest = "; in sync: " + present
                    if partition.eligible:
                        rest += "; could lead: " + ", ".join(map(str, partition.eligible))
                    found.append(f"{where} has no leader{rest}; copies on {_nodes(partition.replicas)}")
                elif partition.refusal:
                    found.append(
                        f"{where} hears nothing: NATS refuses the subscription of its leader, node "
                        f"{partition.leader} ({partition.refusal}); allow it to the nodes' NATS user"
                    )
                elif self._without_nats(partition.leader):
                    found.append(
                        f"{where} hears nothing: its leader, node {partition.leader}, is not connected "
                        "to NATS"
                    )
                elif len(partition.isr) < partition.min_insync:
                    found.append(
                        f"{where} needs {partition.min_insync} copies in sync and has {len(partition.isr)} "
                        f"(node {present}); copies on {_nodes(partition.replicas)}"
                    )
                elif partition.leader in self.answers and self.answers[partition.leader].contact.fenced:
                    found.append(
                        f"{where} is led by node {partition.leader}, which has no session with the "
                        "controller and takes no messages; wait for an election"
                    )
        self.problems += found[:LINES_MAX]
        if len(found) > LINES_MAX:
            self.problems.append(f"and {len(found) - LINES_MAX} more partitions")

    def _remark_level(self) -> None:
        """U2: what keeps the cluster from what its nodes can."""
        can = {info.node: self.can(info) for info in self.nodes()}
        best = max(can.values())
        if best <= self.level:
            return
        older = [node for node, level in can.items() if 0 < level < best]
        if older:
            self.remarks.append(f"{_nodes(older)} run{'s' * (len(older) == 1)} an older liftlog than others")
        elif all(can.values()):
            self.remarks.append(
                f"every node can feature level {best}, the cluster is at {self.level}: until 'liftlog "
                "cluster level --raise' a node may go back to the release before"
            )

    def _remark(self) -> None:
        self._remark_level()
        self.remarks += rights_remarks(self.answers) + tls_remarks(self.answers)
        self.remarks += retirements(self.newest.counters, self.nodes(), self.streams)
        for stream in self.streams:
            if stream.config.paused:
                name = stream.config.name
                self.remarks.append(
                    f"stream '{name}' is paused, and takes no messages: liftlog stream resume {name}"
                )
        for node, answer in sorted(self.answers.items()):
            contact = answer.contact
            if contact.vote in NO_VOTE and (contact.vote != "learner" or node in self.learners):
                left = len(self.votes) - self.needed
                spare = f"{left} more may go" if left > 0 else "no other may go" if left == 0 else "too few"
                self.remarks.append(
                    f"node {node}: {NO_VOTE[contact.vote]}; it follows and serves all the same. "
                    f"{len(self.votes)} of {len(self.voters)} votes are left, {self.needed} needed: {spare}"
                )
            if contact.fenced and self.controller and not contact.leaving:
                self.remarks.append(f"node {node} has no session with the controller")
            if not contact.nats and any(other.contact.nats for other in self.answers.values()):
                self.remarks.append(f"node {node} is not connected to NATS; see its log")
            if contact.leaving:
                self.remarks.append(f"node {node} is stopping")
            for other, reason in contact.strangers:
                if other not in self.apart:
                    self.remarks.append(f"node {node} does not hear node {other}: {reason}")
            if contact.metadata_refused:
                self.remarks.append(
                    f"node {node}'s disk takes no metadata ({contact.metadata_refused}): it serves reads and "
                    "leads nothing new until there is space; make room on it"
                )
            for replica in answer.replicas:
                name = self.name(replica.partition.stream)
                where = f"node {node}'s copy of '{name}' partition {replica.partition.label}"
                if replica.damage:
                    ranges = ", ".join(replica.damage)
                    self.remarks.append(f"{where} has damage at offsets {ranges} and is being repaired")
                if replica.state == "failed":
                    self.remarks.append(f"{where} could not be written and is being opened again")
        for stream in self.streams:
            for partition in stream.partitions:
                where = f"'{stream.config.name}' partition {partition.index}"
                self.remarks += [f"{where}: {text}" for text in slow_nodes(partition)]
        absent = [info.node for info in self.nodes() if info.node not in self.answers]
        if absent:
            self.remarks.append(f"{_nodes(absent)} did not answer in time")


def _of_one_cluster(
    answers: Mapping[int, ClusterStatusReply],
) -> tuple[Mapping[int, ClusterStatusReply], dict[int, str]]:
    """M5: the answers of one cluster, the one that has a controller or else most of the nodes, and what is to
    be said of the others. Who has not heard the name of its cluster is taken for one of it.
    """
    named = [answer for answer in answers.values() if not answer.contact.cluster.endswith("-")]
    clusters = sorted({answer.contact.cluster for answer in named} - {""})
    if len(clusters) < 2:
        return answers, {}
    sizes = {
        name: (
            any(answer.contact.has_controller for answer in named if answer.contact.cluster == name),
            sum(answer.contact.cluster == name for answer in named),
        )
        for name in clusters
    }
    ours = max(clusters, key=lambda name: sizes[name])
    apart = {answer.answered_by: answer.contact.cluster for answer in named}
    apart = {node: name for node, name in apart.items() if name not in ("", ours)}
    told = {
        node: f"node {node} runs on a data folder of another cluster or of another epoch of this one "
        f"({name}, here {ours}): nobody hears it and it keeps what it holds; stop it, and start it with its "
        "own data folder or with an empty one; or it is of another cluster that has this one's name and NATS"
        for node, name in sorted(apart.items())
    }
    return {node: answer for node, answer in answers.items() if node not in apart}, told


def ago(milliseconds: int) -> str:
    """A time span before now, for people."""
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.1f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"


def _nodes(numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"node{'s' * (len(numbers) != 1)} {listed}"


def slow_nodes(partition: PartitionInfo) -> list[str]:
    """R17, R18: a line for each replica for which the others had to wait."""
    lines = []
    for slow in partition.slow:
        node, times = slow.node, f" ({slow.removals} times)" if slow.removals > 1 else ""
        if node in partition.isr:
            lines.append(f"everybody waited for node {node}{times}; it is in sync again, and elected last")
        else:
            lines.append(
                f"everybody waited for node {node}{times}: it is out of sync until it has kept up for a "
                "while; look at its disk, its load and its network"
            )
    return lines
