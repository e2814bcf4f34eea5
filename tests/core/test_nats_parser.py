"""The NATS parser and the bytes we answer with: any chunking gives the same messages, every ack is exact
JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog import messages
from liftlog.messages import AckPublishes, RefusePublishes
from liftlog.options.envelope import COOKIE
from liftlog.options.reading import are_plain
from liftlog.real import nats_wire
from liftlog.real.nats_parser import CONTROL_LINE_MAX_BYTES, NatsParser, ProtocolError
from liftlog.types import LiftlogError, Message, PartitionId

TOKEN = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12).map(str.encode)
PAYLOAD = st.one_of(
    st.binary(max_size=64),
    st.sampled_from([b"", b"\r\n", b"MSG a 1 5\r\nhello\r\n", b"PING\r\n", COOKIE + b"\x00", COOKIE[:1]]),
)
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([b"1", b"2", b"17"]),
        st.builds(
            Message,
            subject=TOKEN,
            reply=st.one_of(st.just(b""), TOKEN),
            headers=st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n"]),
            value=PAYLOAD,
        ),
    ),
    max_size=20,
)


def wire(sid: bytes, message: Message) -> bytes:
    words = [message.subject, sid] + ([message.reply] if message.reply else [])
    header_size = [b"%d" % len(message.headers)] if message.headers else []
    words = [b"HMSG" if message.headers else b"MSG", *words, *header_size]
    words.append(b"%d" % (len(message.headers) + len(message.value)))
    return b" ".join(words) + b"\r\n" + message.headers + message.value + b"\r\n"


@given(MESSAGES, st.lists(st.integers(min_value=1, max_value=40), max_size=30))
def test_messages_survive_any_cut_of_the_byte_stream(
    sent: list[tuple[bytes, Message]], cuts: list[int]
) -> None:
    data = b"PING\r\n".join(wire(sid, message) for sid, message in sent) + b"PONG\r\n"
    parser = NatsParser()
    received: dict[bytes, list[Message]] = {}
    controls: list[bytes] = []
    pieces, position = [], 0
    for cut in cuts:
        pieces.append(data[position : position + cut])
        position += cut
    pieces.append(data[position:])
    largest = 0
    for piece in pieces:
        parsed = parser.feed(piece)
        largest = max(largest, parsed.largest)
        controls.extend(parsed.controls)
        assert not parsed.plain or all(map(are_plain, parsed.groups.values()))
        for sid, group in parsed.groups.items():
            received.setdefault(sid, []).extend(group)
    expected: dict[bytes, list[Message]] = {}
    for sid, message in sent:
        expected.setdefault(sid, []).append(message)
    assert received == expected
    assert controls == [b"PING"] * max(0, len(sent) - 1) + [b"PONG"]
    assert largest == max((len(m.headers) + len(m.value) for _, m in sent), default=0)


@pytest.mark.parametrize(
    ("headers", "value", "plain"),
    [
        (b"", b"hello", True),
        (b"", COOKIE[:1], True),
        (b"", COOKIE, False),
        (b"NATS/1.0\r\nA: b\r\n\r\n", b"hello", False),
    ],
)
def test_one_message_that_may_ask_for_something_has_all_looked_at(
    headers: bytes, value: bytes, plain: bool
) -> None:
    usual = wire(b"1", Message(b"s", b"", b"", b"hello"))
    parsed = NatsParser().feed(usual + wire(b"1", Message(b"s", b"", headers, value)) + usual)
    assert len(parsed.groups[b"1"]) == 3
    assert parsed.plain is plain


@pytest.mark.parametrize(
    "line", [b"MSG a b\r\n", b"MSG a 1 many\r\n", b"HMSG a 1 x 5\r\n", b"MSG a 1 r r 5\r\n"]
)
def test_a_malformed_message_line_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        NatsParser().feed(line)


def test_a_peer_that_never_ends_its_line_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        NatsParser().feed(b"x" * (CONTROL_LINE_MAX_BYTES + 1))


def parse_publishes(data: bytes) -> list[tuple[bytes, dict[str, object]]]:
    """Read PUBs strictly: the size must be exact."""
    found = []
    while data:
        line, _, rest = data.partition(b"\r\n")
        verb, subject, size = line.split(b" ")
        assert verb == b"PUB"
        payload, data = rest[: int(size)], rest[int(size) :]
        assert data.startswith(b"\r\n")
        data = data[2:]
        found.append((subject, json.loads(payload)))
    return found


@given(
    st.integers(min_value=0, max_value=12_000),
    st.lists(st.tuples(st.sampled_from([b"_INBOX.a", b"_INBOX.bc", b""]), st.booleans()), max_size=120),
    st.sampled_from(["orders", "100%d", 'q"uote', "50%%"]),
    st.sampled_from(["as drawn", "all", "none"]),
)
def test_R4_every_ack_has_jetstream_s_keys_or_all_of_them_and_its_own_offset(
    start: int, asked: list[tuple[bytes, bool]], name: str, who: str
) -> None:
    replies = [reply for reply, _ in asked]
    full = {"all": [True] * len(asked), "none": None}.get(who, [wants for _, wants in asked])
    acks = AckPublishes(PartitionId(5, 2), name, 7, 31, start, replies, full)
    expected = []
    for place, reply in enumerate(replies):
        offset = start + place
        body: dict[str, object] = {"stream": name, "seq": offset + 1}
        if full is not None and full[place]:
            body |= {"offset": offset, "partition": 2, "epoch": 7, "incarnation": 31}
        if reply:
            expected.append((reply, body))
    found = parse_publishes(nats_wire.acknowledgements(acks))
    assert sorted(found, key=lambda one: int(str(one[1]["seq"]))) == expected


def refused(code: str, full: list[bool] | None = None) -> list[tuple[bytes, dict[str, object]]]:
    refusal = RefusePublishes(
        PartitionId(5, 0), "orders", 3, code, "because", [b"_INBOX.a", b"", b"_INBOX.b"], full
    )
    return parse_publishes(nats_wire.refusals(refusal))


@pytest.mark.parametrize("code", sorted(nats_wire.ERROR_CODES))
def test_a_refusal_has_exactly_the_keys_of_jetstream_unless_more_was_asked_for(code: str) -> None:
    answers = refused(code, [False, True, True])
    assert [subject for subject, _ in answers] == [b"_INBOX.a", b"_INBOX.b"]
    for _, body in answers:
        error = body["error"]
        assert isinstance(error, dict)
        assert set(error) == {"code", "err_code", "description"}
        assert (body["stream"], body["seq"]) == ("orders", 0)
    assert set(answers[0][1]) == {"error", "stream", "seq"}
    assert set(answers[1][1]) == {"error", "stream", "seq", "partition", "epoch", "liftlog"}
    assert refused(code) == [(b"_INBOX.a", answers[0][1]), (b"_INBOX.b", answers[0][1])]


def test_only_refusals_that_follow_from_configuration_have_the_outcome_fail() -> None:
    def outcome(code: str) -> object:
        beside = refused(code, [True, True, True])[0][1]["liftlog"]
        assert isinstance(beside, dict)
        return beside["outcome"]

    assert outcome(messages.ERR_TOO_LARGE) == outcome(messages.ERR_TTL_DISABLED) == "fail"
    assert outcome(messages.ERR_TOO_FEW_INSYNC) == outcome(messages.ERR_OVERLOAD) == "info"


def test_urls_carry_user_password_token_and_tls() -> None:
    plain, secure, token, short = nats_wire.parse_url("nats://u:p%40@h1:1,tls://h2, nats://secret@h3:3,h4:4")
    assert (plain.host, plain.port, plain.tls, plain.user, plain.password) == ("h1", 1, False, "u", "p@")
    assert (secure.host, secure.port, secure.tls) == ("h2", 4222, True)
    assert (token.host, token.token, token.user) == ("h3", "secret", "")
    assert (short.host, short.port) == ("h4", 4)


@pytest.mark.parametrize("url", ["http://h:1", "nats://", "nats://h:x", "nats://u:geheim@h:99999999"])
def test_a_bad_url_is_named_without_its_password(url: str) -> None:
    with pytest.raises(LiftlogError) as caught:
        nats_wire.parse_url(url)
    assert "NATS URL" in str(caught.value)
    assert "geheim" not in str(caught.value)
