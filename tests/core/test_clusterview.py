"""What `liftlog cluster status` makes of the nodes' answers."""

from __future__ import annotations

from liftlog.commands.clusterview import LINES_MAX, ClusterView, ago
from liftlog.commands.rightsview import rights_line
from liftlog.commands.tlsview import tls_line
from liftlog.messages import ClusterStatusReply, Contact, NodeInfo, PartitionInfo, ReplicaInfo, StreamInfo
from liftlog.types import PartitionId, StreamConfig

VOTERS = (1, 2, 3)


def contact(vote: str = "born", controller: int = 1, **changes: object) -> Contact:
    known: dict[str, object] = {
        "vote": vote,
        "has_controller": True,
        "last_controller": controller,
        "controller_ms": 100,
        "session_ms": 100,
        "nats": True,
        "voters": VOTERS,
    }
    return Contact(**(known | changes))  # type: ignore[arg-type]


def answer(
    node: int,
    told: Contact,
    states: tuple[str, ...] = ("live", "live", "live"),
    replicas: list[ReplicaInfo] | None = None,
) -> ClusterStatusReply:
    nodes = [
        NodeInfo(number, state == "live", 10 + number, f"h:{number}", True, state)
        for number, state in zip(VOTERS, states, strict=False)
    ]
    return ClusterStatusReply(node, told.last_controller, 4, 90, nodes, replicas or [], {}, told)


def stream(leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), eligible: tuple[int, ...] = ()) -> StreamInfo:
    partition = PartitionInfo(0, leader, 3, 7, [1, 2, 3], list(isr), list(eligible), True, 2)
    return StreamInfo(8, StreamConfig("orders", "orders.>", 1, 3), [partition])


def test_D5_a_disk_that_takes_no_metadata_is_said_with_what_to_do() -> None:
    full = answer(2, contact(metadata_refused="No space left on device"))
    view = ClusterView({1: answer(1, contact()), 2: full, 3: answer(3, contact())}, [stream()])
    assert view.takes_messages
    assert [remark for remark in view.remarks if "make room" in remark] == [
        "node 2's disk takes no metadata (No space left on device): it serves reads and leads nothing new "
        "until there is space; make room on it"
    ]


def test_V9_nodes_with_other_rights_are_named_and_so_is_a_mistake() -> None:
    def told(*digests: int) -> ClusterView:
        answers = {node: answer(node, contact()) for node in VOTERS}
        for node, digest in zip(VOTERS, digests, strict=True):
            if digest:
                answers[node].counters.update({"rights.digest": digest, "rights.clients": 2})
        answers[3].counters["rights.mistaken"] = int(len(set(digests)) > 1)
        return ClusterView(answers, [stream()])

    none, same, others = told(0, 0, 0), told(10, 10, 10), told(10, 10, 0)
    assert rights_line(none.answers) == ""
    assert rights_line(same.answers) == "rights: 2 named clients, digest 00000000000a, on nodes 1, 2, 3"
    assert not any("rights" in remark for remark in none.remarks + same.remarks)
    assert rights_line(others.answers).endswith("on nodes 1, 2; none on node 3")
    assert [remark for remark in others.remarks if "rights" in remark] == [
        "clients' rights, or their secrets, are not the same on all nodes: a client may do here what it may "
        "not do there; give all nodes the same files, and send each SIGHUP",
        "node 3 keeps the rights of clients that it had: its files have a mistake, which its log names, and "
        "'liftlog config check FILE' on it",
    ]


def test_certificates_that_end_and_connections_without_tls_are_told() -> None:
    def told(*left_days: float, plain: int = 0, mistaken: int = 0) -> ClusterView:
        answers = {node: answer(node, contact()) for node in VOTERS}
        for node, days in zip(VOTERS, left_days, strict=False):
            left = {"tls.left_s": int(days * 86_400), "tls.mistaken": mistaken}
            answers[node].counters.update(left | {"tls.plain_peers": plain, "tls.plain_clients": 1})
        return ClusterView(answers, [stream()])

    assert tls_line(told().answers) == ""
    some = told(200.5, 100.2, plain=2)
    assert tls_line(some.answers) == (
        "TLS: the first certificate to end is that of node 2, in 100 days; node 3 without; "
        "6 connections without TLS"
    )
    assert not any("certificate" in remark for remark in some.remarks)
    ending = told(200, 29.5, 0, mistaken=1)
    assert "1 connections" not in tls_line(ending.answers) and "node 3, in 0 days" in tls_line(ending.answers)
    assert [remark.partition(":")[0] for remark in ending.remarks if "certificate" in remark] == [
        "node 1 shows the certificate that it had",
        "the certificate of node 2 is valid for 29 more days",
        "node 2 shows the certificate that it had",
        "the certificate of node 3 has expired",
        "node 3 shows the certificate that it had",
    ]


def test_N5_a_leader_that_is_not_connected_to_nats_takes_nothing() -> None:
    alone = answer(2, contact(nats=False))
    others = {1: answer(1, contact()), 3: answer(3, contact())}
    view = ClusterView({**others, 2: alone}, [stream(leader=2)])
    assert view.problems == [
        "'orders' partition 0 hears nothing: its leader, node 2, is not connected to NATS"
    ]
    assert "node 2 is not connected to NATS; see its log" in view.remarks
    assert ClusterView({**others, 2: alone}, [stream(leader=1)]).takes_messages
    nobody = {node: answer(node, contact(nats=False)) for node in VOTERS}
    view = ClusterView(nobody, [stream()])
    assert view.problems == ["no node that answers is connected to NATS, so no message arrives: start it"]
    assert not [remark for remark in view.remarks if "NATS" in remark]


def test_a_whole_cluster_takes_messages() -> None:
    view = ClusterView({node: answer(node, contact()) for node in VOTERS}, [stream()])
    assert view.takes_messages and not view.remarks
    assert view.headline() == "controller: node 1, term 4, 90 entries applied"
    assert [view.session(info) for info in view.nodes()] == ["live"] * 3
    assert [view.vote(info) for info in view.nodes()] == ["yes"] * 3


def test_without_a_quorum_everything_is_as_of_the_last_controller() -> None:
    told = contact(has_controller=False, last_controller=2, controller_ms=14_200, session_ms=14_300)
    view = ClusterView({3: answer(3, told, ("expired", "live", "live"))}, [stream(leader=2, isr=(2, 3))])
    assert not view.takes_messages and view.controller == 0
    assert view.problems[0] == ("no controller: 1 of 3 votes can be reached, 2 are needed; start nodes 1, 2")
    assert "node 2 was it, heard by node 3 14.2 s ago. What follows is as of then" in view.headline()
    assert [view.session(info) for info in view.nodes()] == ["was lost", "was live", "was live"]
    assert view.contact(3) == "14.3 s ago" and view.contact(1) == "-"
    assert [view.vote(info) for info in view.nodes()] == ["unknown", "unknown", "yes"]


def test_a_controller_that_lost_its_quorum_is_said_to_have_been_it() -> None:
    told = contact(has_controller=False, last_controller=3, controller_ms=2000)
    assert "node 3 was it, with a quorum until 2.0 s ago" in ClusterView({3: answer(3, told)}, []).headline()


def test_votes_that_are_there_without_a_controller_are_an_election() -> None:
    told = contact(has_controller=False)
    view = ClusterView({node: answer(node, told) for node in VOTERS}, [])
    assert view.problems == ["no controller: an election is under way, or nodes do not reach each other"]


def test_a_partition_whose_leader_nats_refuses_is_a_problem() -> None:
    refused = stream()
    refused.partitions[0].ready = False
    refused.partitions[0].refusal = "Permissions Violation"
    (problem,) = ClusterView({node: answer(node, contact()) for node in VOTERS}, [refused]).problems
    assert "'orders' partition 0 hears nothing" in problem and "node 1 (Permissions Violation)" in problem


def test_a_partition_without_leader_or_below_its_minimum_is_a_problem() -> None:
    answers = {node: answer(node, contact()) for node in VOTERS}
    (problem,) = ClusterView(answers, [stream(leader=0, isr=(), eligible=(2,))]).problems
    assert problem == (
        "'orders' partition 0 has no leader; in sync: none; could lead: 2; copies on nodes 1, 2, 3"
    )
    (problem,) = ClusterView(answers, [stream(isr=(1,))]).problems
    assert problem == (
        "'orders' partition 0 needs 2 copies in sync and has 1 (node 1); copies on nodes 1, 2, 3"
    )
    many = [stream(leader=0, isr=())] * (LINES_MAX + 5)
    assert ClusterView(answers, many).problems[-1] == "and 5 more partitions"


def test_a_fenced_leader_takes_no_messages() -> None:
    answers = {node: answer(node, contact(fenced=node == 1, controller=2)) for node in VOTERS}
    view = ClusterView(answers, [stream()])
    assert "is led by node 1, which has no session with the controller" in view.problems[0]
    assert view.remarks == ["node 1 has no session with the controller"]


def test_a_withheld_vote_is_told_with_what_it_means() -> None:
    answers = {node: answer(node, contact("withheld" if node == 2 else "born")) for node in VOTERS}
    view = ClusterView(answers, [stream()])
    assert view.takes_messages, "it is a thing to know, not a failure"
    assert view.remarks == [
        "node 2: its disk was set back: its vote is withheld until it has started again, as a new voter; it "
        "follows and serves all the same. 2 of 3 votes are left, 2 needed: no other may go"
    ]
    assert [view.vote(info) for info in view.nodes()] == ["yes", "withheld", "yes"]


def test_damage_failed_copies_and_absent_nodes_are_told() -> None:
    bad = [
        ReplicaInfo(PartitionId(8, 0), "follower", 3, 9, 9, 9, 0, "clean", "ready", damage=("[3, 5)",)),
        ReplicaInfo(PartitionId(9, 0), "idle", 3, 9, 9, 9, 0, "clean", "failed"),
    ]
    view = ClusterView({1: answer(1, contact()), 2: answer(2, contact(), replicas=bad)}, [stream()])
    assert view.remarks == [
        "node 2's copy of 'orders' partition 0 has damage at offsets [3, 5) and is being repaired",
        "node 2's copy of 'id 9' partition 0 could not be written and is being opened again",
        "node 3 did not answer in time",
    ]


def test_a_voter_that_never_came_is_in_the_table() -> None:
    first = answer(1, contact(), ("live", "live"))
    view = ClusterView({1: first}, [])
    assert [(info.node, view.session(info)) for info in view.nodes()] == [
        (1, "live"),
        (2, "live"),
        (3, "never seen"),
    ]


def test_spans_are_told_in_units_that_people_read() -> None:
    assert [ago(ms) for ms in (100, 119_000, 600_000, 8 * 3_600_000)] == [
        "0.1 s ago",
        "119.0 s ago",
        "10 min ago",
        "8 h ago",
    ]
