"""V9: who may ask what, by a file of clients, against an oracle that is as plain as can be."""

from __future__ import annotations

import fnmatch
import itertools
import re
import typing
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from liftlog.groups.streams import register_stream
from liftlog.messages import (
    ERR_NOT_ALLOWED,
    ERR_NOT_READY,
    AddNodeRequest,
    AlterConsumerRequest,
    AlterStreamRequest,
    ClientMessage,
    ClusterStatusRequest,
    ConsumerConfig,
    CreateConsumerRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    ElectLeaderRequest,
    FilteredReadRequest,
    MoveReplicasRequest,
    OffsetRequest,
    PullRequest,
    PurgeRequest,
    ReadRequest,
    RebalanceRequest,
    SettleRequest,
    StreamChanges,
    StreamInfoRequest,
    SubjectRequest,
)
from liftlog.rights.book import read_book, shared_book
from liftlog.rights.client import BY_STREAM, EVERYTHING, ClientRights
from liftlog.rights.clientsfile import CLIENTS_MAX, KINDS, read_clients
from liftlog.rights.names import covers, name_matches, pattern_problem
from liftlog.rights.needs import NEEDS, refusal
from liftlog.security import ensure_secret_file
from liftlog.subjects.grammar import matches, subject_problem
from liftlog.types import LiftlogError, PartitionId, StreamConfig

STREAMS = {7: "orders", 8: "audit_eu", 9: "secret", 10: "__cursors", 11: "__groups"}
APPLIED = 40
SHARED, PEER = b"s" * 32, b"p" * 32


class Stream(typing.NamedTuple):
    config: StreamConfig


class Metadata:
    """Of a node that has applied so many commands."""

    applied = APPLIED
    by_id: Mapping[int, Stream] = {
        number: Stream(StreamConfig(name, f"{name}.>")) for number, name in STREAMS.items()
    }


def said(client: ClientRights, request: ClientMessage) -> str:
    """The code of the refusal; empty: there is none."""
    found = refusal(client, request, Metadata())
    return "" if found is None else found.code


def of(number: int) -> PartitionId:
    return PartitionId(number, 0)


# -- names ---------------------------------------------------------------------------------------------------

NAMES = st.text("ab_*", min_size=1, max_size=8)


@given(NAMES, st.text("ab_", min_size=1, max_size=8))
@example("*a*b", "ab_b")
@example("a*a", "a")
def test_a_pattern_means_what_the_shell_means(pattern: str, name: str) -> None:
    """V9: but for names that begin with two underscores."""
    wanted = re.fullmatch(fnmatch.translate(pattern), name) is not None
    if name.startswith("__") and not pattern.startswith("__"):
        wanted = False
    assert name_matches(pattern, name) == wanted


def test_what_is_elsewhere_needs_a_pattern_that_says_so() -> None:
    """V9: `*` is every stream here, and none of another cluster."""
    assert not name_matches("*", "orders@east")
    assert not name_matches("*@east", "orders")
    assert name_matches("*@east", "orders@east")
    assert name_matches("ord*@*", "orders@east")
    assert not name_matches("*", "__cursors")
    assert name_matches("__*", "__cursors")


TOKENS = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4)
PATTERNS = st.builds(lambda tokens, rest: ".".join(tokens + [">"] * rest), TOKENS, st.booleans())
SUBJECTS = [
    ".".join(tokens)
    for count in range(1, 7)
    for tokens in itertools.product("abc", repeat=count)
]


@given(PATTERNS, PATTERNS)
def test_a_subject_covers_another_if_no_message_is_outside(wide: str, narrow: str) -> None:
    """V9: compared with every subject of up to six tokens."""
    inside = all(matches(wide, subject) for subject in SUBJECTS if matches(narrow, subject))
    assert covers(wide, narrow) == inside


# -- requests ------------------------------------------------------------------------------------------------


def test_V9_every_request_that_a_client_can_send_needs_something() -> None:
    """A new request has to be put into the table, or nobody with a name may send it."""
    kinds = set(typing.get_args(ClientMessage))
    assert set(NEEDS) == kinds
    assert set(NEEDS.values()) == {"read", "consume", "administer", "operate", "see", "free"}


def test_V9_what_no_table_knows_is_refused() -> None:
    class Unheard:
        pass

    client = ClientRights("x", read=("*",), operate=True)
    assert said(client, typing.cast(ClientMessage, Unheard())) == ERR_NOT_ALLOWED


BY_KIND: dict[str, list[ClientMessage]] = {
    "read": [ReadRequest(of(7), 0), OffsetRequest(of(7), "new"), SubjectRequest(of(7), "last", "orders.a")],
    "consume": [
        CreateConsumerRequest(of(7), "c", ConsumerConfig()),
        PullRequest(of(7), 1),
        SettleRequest(of(7), 1, "ack", [(0, 1)]),
    ],
    "administer": [
        PurgeRequest(of(7), 5),
        DeleteStreamRequest("orders"),
        ElectLeaderRequest("orders", 0, 1),
        AlterStreamRequest("orders", StreamChanges(retention_ms=5)),
    ],
}


@pytest.mark.parametrize("right", BY_KIND)
def test_V9_each_right_allows_its_own_requests_and_no_others(right: str) -> None:
    client = ClientRights("x", **{right: ("ord*",)})
    for kind, requests in BY_KIND.items():
        for request in requests:
            assert said(client, request) == ("" if kind == right else ERR_NOT_ALLOWED), request
            assert said(EVERYTHING, request) == ""
    assert said(client, StreamInfoRequest("orders")) == ""
    assert said(client, StreamInfoRequest("secret")) == ERR_NOT_ALLOWED
    assert said(client, StreamInfoRequest()) == said(client, ClusterStatusRequest()) == ""
    for request in (RebalanceRequest(), AddNodeRequest(4, "h:1")):
        assert said(client, request) == ERR_NOT_ALLOWED
        assert said(ClientRights("x", operate=True), request) == ""
    assert said(ClientRights("x", operate=True), ReadRequest(of(7), 0)) == ERR_NOT_ALLOWED


def test_V9_a_refusal_does_not_tell_whether_there_is_a_stream() -> None:
    client = ClientRights("billing", read=("orders",))
    for name, number in (("secret", 9), ("nowhere", 12)):
        by_name = refusal(client, StreamInfoRequest(name), Metadata())
        by_number = refusal(client, ReadRequest(of(number), 0), Metadata())
        assert by_name is not None
        assert by_number is not None
        assert by_name.description.replace(name, "") == (
            "client 'billing' may not see stream '', or there is none; if it should, add its name, or a "
            "pattern of it, to read = [...] under [clients.billing] in each node's [security] clients_file, "
            "and have the nodes read it (SIGHUP)"
        )
        assert by_number.description.replace(str(number), "") == (
            "client 'billing' may not read the stream number , or there is none; if it should, add its name, "
            "or a pattern of it, to read = [...] under [clients.billing] in each node's [security] "
            "clients_file, and have the nodes read it (SIGHUP)"
        )
        assert not by_name.retryable
        assert not by_number.retryable


def test_V9_of_a_stream_that_a_node_cannot_know_yet_it_may_be_asked_again() -> None:
    client = ClientRights("x", read=("*",))
    found = refusal(client, ReadRequest(of(APPLIED + 1), 0), Metadata())
    assert found is not None
    assert (found.code, found.retryable) == (ERR_NOT_READY, True)
    assert said(client, ReadRequest(of(APPLIED), 0)) == ERR_NOT_ALLOWED


def test_V9_what_groups_and_cursors_keep_is_read_by_whose_they_are() -> None:
    client = ClientRights("x", read=("*",), consume=("*",), administer=("*",), groups=("billing", "b_*"))
    for number in (10, 11):
        name = STREAMS[number]
        assert said(client, StreamInfoRequest(name)) == ""
        for pattern in (f"{name}.billing", f"{name}.billing.>", f"{name}.b_1.orders.0"):
            assert said(client, SubjectRequest(of(number), "last", pattern)) == ""
            assert said(client, FilteredReadRequest(of(number), 0, subjects=[pattern])) == ""
        for pattern in (f"{name}.other", f"{name}.>", f"{name}.*", f"{name}", ">", "*.billing", ""):
            assert said(client, SubjectRequest(of(number), "last", pattern)) == ERR_NOT_ALLOWED
            asked = FilteredReadRequest(of(number), 0, subjects=[f"{name}.billing", pattern])
            assert said(client, asked) == ERR_NOT_ALLOWED
        assert said(client, FilteredReadRequest(of(number), 0, keys=[b"k"])) == ERR_NOT_ALLOWED
        assert said(client, ReadRequest(of(number), 0)) == ERR_NOT_ALLOWED
        assert said(client, PullRequest(of(number), 1)) == ERR_NOT_ALLOWED
        assert said(client, DeleteStreamRequest(name)) == ERR_NOT_ALLOWED
        everybody = ClientRights("x", groups=("*",))
        assert said(everybody, SubjectRequest(of(number), "subjects", f"{name}.>")) == ""
        assert said(ClientRights("x", read=("__*",)), ReadRequest(of(number), 0)) == ""


def test_V9_a_stream_is_no_way_to_what_another_one_has() -> None:
    client = ClientRights("x", read=("orders", "*@east"), administer=("mine_*",), subjects=("mine.>",))

    def made(**fields: object) -> str:
        config = StreamConfig("mine_1", "mine.a")
        return said(client, CreateStreamRequest(msgspec.structs.replace(config, **fields)))

    assert made() == made(mirror="orders") == made(mirror="orders@east") == ""
    assert made(sources=(("orders", ""), ("orders@east", ""))) == ""
    for fields in (
        {"mirror": "secret"},
        {"mirror": "nowhere"},
        {"mirror": "orders@west"},
        {"sources": (("orders", ""), ("secret", ""))},
        {"subject": "orders.>"},
        {"subject": ">"},
        {"more_subjects": ("mine.b", "orders.new")},
        {"activity": True},
        {"name": "orders"},
    ):
        assert made(**fields) == ERR_NOT_ALLOWED, fields
    for changes in (
        StreamChanges(mirror="secret"),
        StreamChanges(sources=(("secret", ""),)),
        StreamChanges(subject="orders.a"),
        StreamChanges(more_subjects=("orders.a",)),
    ):
        assert said(client, AlterStreamRequest("mine_1", changes)) == ERR_NOT_ALLOWED
    assert said(client, AlterStreamRequest("mine_1", StreamChanges(subject="mine.>"))) == ""
    assert said(client, AlterStreamRequest("mine_1", StreamChanges(mirror=""))) == ""


def test_V9_dead_letters_go_to_ones_own_subjects() -> None:
    client = ClientRights("x", consume=("orders",), subjects=("dead.x.>",))
    for subject, code in (("dead.x.a", ""), ("", ""), ("orders.a", ERR_NOT_ALLOWED)):
        config = ConsumerConfig(dead_letter=subject)
        assert said(client, CreateConsumerRequest(of(7), "c", config)) == code
        assert said(client, AlterConsumerRequest(of(7), 1, ConsumerConfig(), config)) == code


def test_V9_what_is_nobodys_own_no_wildcard_gives() -> None:
    """Else a dead letter could be a group's state, or an answer to somebody."""
    client = ClientRights("x", consume=("orders",), administer=("*",), subjects=(">", "*.>"))
    for subject in ("__groups.other", "__cursors.a.b.0", "_INBOX.a", "$JS.API.STREAM.DELETE.X", "$LIFTLOG.x"):
        assert not client.has_subject(subject)
        config = ConsumerConfig(dead_letter=subject)
        assert said(client, CreateConsumerRequest(of(7), "c", config)) == ERR_NOT_ALLOWED
        made = CreateStreamRequest(StreamConfig("mine", subject))
        assert said(client, made) == ERR_NOT_ALLOWED
    assert client.has_subject("anything.else")


def test_V9_who_has_a_group_may_make_what_groups_are_kept_in_and_only_so() -> None:
    for name in ("__groups", "__cursors"):
        made = register_stream(name)
        assert said(ClientRights("x", groups=("a",)), CreateStreamRequest(made)) == ""
        assert said(ClientRights("x", administer=("*",)), CreateStreamRequest(made)) == ERR_NOT_ALLOWED
        for change in ({"replication_factor": 1}, {"compact": False}, {"mirror": "secret"}):
            other = msgspec.structs.replace(made, **change)  # type: ignore[arg-type]
            assert said(ClientRights("x", groups=("a",)), CreateStreamRequest(other)) == ERR_NOT_ALLOWED
    made = register_stream("__other")
    assert said(ClientRights("x", groups=("a",)), CreateStreamRequest(made)) == ERR_NOT_ALLOWED


ABOUT = {
    "partition": st.sampled_from([of(number) for number in (*STREAMS, 12, APPLIED + 1)]),
    "name": st.sampled_from([*STREAMS.values(), "nowhere"]),
}
WHAT = st.sampled_from(["orders", "ord*", "*", "audit_*", "secret", "__*", "*e*"])


Draw = typing.Callable[[st.SearchStrategy[typing.Any]], object]


def request_of(kind: type[typing.Any], draw: Draw) -> ClientMessage:
    """A request of this kind with what it must have, about some stream."""
    plain: dict[str, object] = {
        **{"offset": 0, "what": "new", "pattern": ">", "before": 0, "below": 0, "node": 1, "to": 1},
        **{"replicas": [1], "votes": True, "drains": True, "retires": True, "address": "h:1", "group": "g"},
        **{"consumer": 1, "how": "ack", "runs": [(0, 1)], "was": ConsumerConfig()},
        "changes": StreamChanges(),
    }
    fields: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        if field.name == "config":
            config = StreamConfig(typing.cast(str, draw(ABOUT["name"])), "x")
            fields["config"] = config if kind is CreateStreamRequest else ConsumerConfig()
        elif field.name == "partition" and kind in (ElectLeaderRequest, MoveReplicasRequest):
            fields["partition"] = 0
        elif field.name in ABOUT and (field.required or kind is StreamInfoRequest):
            fields[field.name] = draw(ABOUT[field.name])
        elif field.required:
            fields[field.name] = plain[field.name]
    return typing.cast(ClientMessage, kind(**fields))


@given(
    st.sampled_from(sorted(NEEDS, key=lambda kind: kind.__name__)),
    st.dictionaries(st.sampled_from(BY_STREAM), st.lists(WHAT, max_size=2).map(tuple)),
    st.booleans(),
    st.data(),
)
def test_V9_no_request_passes_that_a_plain_look_at_the_lists_would_not_let(
    kind: type[typing.Any], lists: dict[str, tuple[str, ...]], operate: bool, data: st.DataObject
) -> None:
    request = request_of(kind, data.draw)
    client = ClientRights("x", **lists, operate=operate, subjects=("x",))
    about = getattr(request, "partition", None)
    name = getattr(getattr(request, "config", request), "name", "")
    if isinstance(about, PartitionId):
        name = STREAMS.get(about.stream, "")

    def listed(right: str) -> bool:
        patterns = lists.get(right, ())
        internal = name.startswith("__")
        return bool(name) and any(
            fnmatch.fnmatchcase(name, one) and (not internal or one.startswith("__")) for one in patterns
        )

    allowed = {
        "free": True,
        "operate": operate,
        "see": operate or any(map(listed, BY_STREAM)),
    }
    right = NEEDS[kind]
    assert (said(client, request) == "") == (allowed[right] if right in allowed else listed(right))


# -- files ---------------------------------------------------------------------------------------------------


def written(folder: Path, text: str, *secrets: str) -> Path:
    for name in secrets:
        ensure_secret_file(folder / f"{name}.secret")
    path = folder / "clients.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


GOOD = """
[clients.billing]
secret_file = "billing.secret"
read = ["orders", "audit_*"]
groups = ["billing"]
[clients.ops]
secret_file = "ops.secret"
administer = ["*"]
subjects = [">"]
operate = true
"""


def test_V9_a_file_gives_each_secret_its_rights(tmp_path: Path) -> None:
    book = read_book(written(tmp_path, GOOD, "billing", "ops"), (SHARED,), (PEER,))
    assert book.clients == 2
    assert book.holders[SHARED] is EVERYTHING
    by_name = {rights.name: rights for rights in book.holders.values()}
    assert by_name["billing"] == ClientRights("billing", read=("orders", "audit_*"), groups=("billing",))
    assert by_name["ops"].operate
    assert not by_name["ops"].everything
    assert all(secret.hex() not in repr(book) for secret in book.holders)
    assert shared_book((SHARED,)).digest == 0


def test_V9_nodes_compare_a_digest_of_rights_and_secrets(tmp_path: Path) -> None:
    first = read_book(written(tmp_path, GOOD, "billing", "ops"), (SHARED,), (PEER,))
    turned = GOOD.replace('["orders", "audit_*"]', '["audit_*", "orders"]')
    assert read_book(written(tmp_path, turned), (SHARED,), (PEER,)).digest == first.digest
    more = read_book(written(tmp_path, GOOD.replace('"audit_*"', '"audit*"')), (SHARED,), (PEER,))
    assert more.digest not in (0, first.digest)
    assert read_book(written(tmp_path, GOOD), (PEER,), (SHARED,)).digest not in (0, first.digest)
    (tmp_path / "ops.secret").unlink()
    assert read_book(written(tmp_path, GOOD, "ops"), (SHARED,), (PEER,)).digest not in (0, first.digest)
    assert 0 < first.digest < 1 << 53


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clients = 1", "[clients.NAME]"),
        ("[client.a]", "unknown key or table 'client'"),
        ("", "0 clients; accepted: 1 to 256"),
        ("[clients.a]\nsecret_file = 1", "[clients.a] secret_file = 1; it must be a text"),
        ("[clients.a]", "[clients.a] lacks secret_file"),
        ("[clients.a]\nread = []", "openssl rand"),
        ("[clients.a]\nreed = []", "unknown key 'reed'; there are: secret_file, read"),
        ("[clients.'a b']", "a client's name"),
        ("[clients.a]\nsecret_file = 'a.secret'\nread = 'orders'", "read = 'orders'; it must be a list"),
        ("[clients.a]\nsecret_file = 'a.secret'\nread = [1]", "1 is no pattern"),
        ("[clients.a]\nsecret_file = 'a.secret'\nread = ['a.b']", "'a.b' is no pattern: use letters"),
        ("[clients.a]\nsecret_file = 'a.secret'\nread = ['']", "is no pattern"),
        ("[clients.a]\nsecret_file = 'a.secret'\nconsume = ['a@b']", "can be read only"),
        ("[clients.a]\nsecret_file = 'a.secret'\nsubjects = ['a..b']", "subjects: 'a..b' is no pattern"),
        ("[clients.a]\nsecret_file = 'a.secret'\nsubjects = ['__groups.>']", "of liftlog itself"),
        ("[clients.a]\nsecret_file = 'a.secret'\nsubjects = ['$JS.API.>']", "of NATS or of"),
        ("[clients.a]\nsecret_file = 'a.secret'\noperate = 'yes'", "it must be true or false"),
        ("[clients.a\n", "not valid TOML"),
        ("[clients.a]\nsecret_file = 'none.secret'", "[clients.a] secret_file: cannot read"),
        (
            "[clients.a]\nsecret_file = 'a.secret'\n[clients.b]\nsecret_file = 'a.secret'",
            "clients 'a' and 'b' have the same secret",
        ),
        (
            "".join(f"[clients.a{number}]\nsecret_file = 'a.secret'\n" for number in range(CLIENTS_MAX + 1)),
            "257 clients",
        ),
    ],
)
def test_V9_a_mistake_is_named_with_file_client_and_key(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text, "a")
    with pytest.raises(LiftlogError) as caught:
        read_book(path, (SHARED,), (PEER,))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_V9_a_client_has_no_secret_that_could_do_more(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD, "billing", "ops")
    secret = bytes.fromhex((tmp_path / "ops.secret").read_text())
    with pytest.raises(LiftlogError, match="could do everything"):
        read_book(path, (SHARED, secret), (PEER,))
    with pytest.raises(LiftlogError, match="could speak for a node"):
        read_book(path, (SHARED,), (secret,))


def test_V9_others_can_write_neither_the_rights_nor_the_secrets(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD, "billing", "ops")
    path.chmod(0o644)
    read_clients(path)
    path.chmod(0o664)
    with pytest.raises(LiftlogError, match="chmod go-w"):
        read_clients(path)
    path.chmod(0o600)
    (tmp_path / "ops.secret").chmod(0o604)
    with pytest.raises(LiftlogError, match="chmod 600"):
        read_book(path, (), ())


@given(st.data())
def test_V9_a_file_never_gives_more_than_it_says(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever a file says, a stream is read if one of the patterns means it as the shell does, and a
    pattern that is none is refused.
    """
    folder = tmp_path_factory.getbasetemp()
    lists = st.lists(st.text("ab_*@. ", max_size=5), max_size=3)
    patterns = data.draw(lists)
    name = data.draw(st.text("ab_", min_size=1, max_size=5))
    assume(not name.startswith("__"))
    text = f'[clients.x]\nsecret_file = "a.secret"\nread = {patterns!r}\n'
    path = written(folder, text, "a")
    good = all(re.fullmatch(r"[A-Za-z0-9_*-]{1,64}(@[A-Za-z0-9_*-]{1,64})?", one) for one in patterns)
    assert good == all(not pattern_problem(one) for one in patterns)
    try:
        (client,) = read_clients(path)
    except LiftlogError:
        assert not good
        return
    assert good
    oracle = any("@" not in one and fnmatch.fnmatchcase(name, one) for one in patterns)
    assert client.rights.may("read", name) == oracle
    assert not client.rights.may("consume", name)
    assert not client.rights.may("administer", name)


def test_every_key_of_a_client_is_a_right_or_its_secret() -> None:
    assert set(KINDS) == {*ClientRights.__struct_fields__, "secret_file"} - {"name", "everything"}
    assert subject_problem("billing.>") == ""
