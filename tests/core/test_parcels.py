"""Several records in one message are stored as one batch or not at all; nothing in it is believed (L8)."""

from __future__ import annotations

import json
import struct
from unittest.mock import patch

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from liftlog import codec as codecs
from liftlog.core.guards import Guards
from liftlog.core.replica.publishing.parcels import open_parcel, stored
from liftlog.format import decode_records, read_header
from liftlog.messages import AckPublishes, Published
from liftlog.mutants import Mutants
from liftlog.options.reading import counted_bytes, wishes_of
from liftlog.options.wishes import Refusal
from liftlog.parcel import (
    HEAD_BYTES,
    MAGIC,
    RECORDS_MAX,
    BadParcel,
    ParcelRecord,
    checksum_matches,
    plain_of,
    seal_parcel,
    walk,
)
from liftlog.real import nats_wire
from liftlog.types import Batch, Message, PartitionId, Record, StreamConfig
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for, publish, split
from tests.core.test_expected_offsets import end, expecting
from tests.core.test_headers import block
from tests.core.test_replication import others, ready

BATCH = "Liftlog-Batch: 1"
RECORD = struct.Struct("<IiHHIii")


def batch(*values: bytes, reply: bytes = b"", lines: tuple[str, ...] = (), codec: str = "none") -> Message:
    payload = seal_parcel([ParcelRecord(value, subject=b"orders") for value in values], codec)
    return message(payload, reply, *lines)


def message(payload: bytes, reply: bytes = b"_INBOX.x", *lines: str) -> Message:
    return Message(b"orders", reply, block(BATCH, *lines), payload)


def resealed(body: bytes, magic: bytes = MAGIC) -> bytes:
    """A parcel of these bytes behind its checksum, which is right."""
    return magic + struct.pack("<I", crc32c(body)) + body


def of(content: bytes, count: int = 1, codec: int = 0, zero: int = 0) -> bytes:
    return resealed(struct.pack("<BBH", codec, zero, count) + content)


def record(
    value: bytes = b"x",
    *,
    extra: int = 0,
    delta: int = 0,
    subject: int = 0,
    reply: int = 0,
    headers: int = 0,
    key: int = -1,
    value_bytes: int | None = None,
) -> bytes:
    """A record as its head says it is, true or not."""
    size = len(value) if value_bytes is None else value_bytes
    return RECORD.pack(20 + len(value) + extra, delta, subject, reply, headers, key, size) + value


def batches(world: World, partition: PartitionId) -> list[Batch]:
    return world.disks[world.leader(partition)].logs[partition].batches


def refused(world: World, partition: PartitionId, payload: bytes, *lines: str) -> tuple[str, str]:
    """What the sender of this is told; and nothing is stored."""
    before = end(world, partition)
    world.refusals.clear()
    publish(world, partition, message(payload, b"_INBOX.x", *lines))
    assert end(world, partition) == before
    ((code, text, replies),) = [(one.code, one.description, one.replies) for one in world.refusals]
    assert replies == [b"_INBOX.x"]
    return code, text


def test_L8_one_message_becomes_one_batch_with_one_ack_in_the_order_of_nats() -> None:
    world, partition = ready()
    base = publish(
        world,
        partition,
        Message(b"orders", b"_INBOX.before", b"", b"before"),
        batch(b"a", b"b", b"c", reply=b"_INBOX.batch"),
        Message(b"orders", b"_INBOX.after", b"", b"after"),
        batch(b"d", reply=b"_INBOX.single"),
    )
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.single")))
    values = world.values(world.leader(partition), partition)
    assert values[base:] == [b"before", b"a", b"b", b"c", b"after", b"d"]
    assert [one.count for one in batches(world, partition)][-4:] == [1, 3, 1, 1]
    acks = [ack for ack in world.acks if ack.offsets_from >= base]
    told = {reply: (ack.offsets_from, ack.records) for ack in acks for reply in ack.replies}
    assert told == {
        b"_INBOX.before": (base, 0),
        b"_INBOX.batch": (base + 1, 3),
        b"_INBOX.after": (base + 4, 0),
        b"_INBOX.single": (base + 5, 1),
    }
    for node in others(world, partition):
        assert world.values(node, partition) == world.values(world.leader(partition), partition)


def test_L8_records_keep_their_subjects_headers_keys_and_tombstones_and_get_the_leaders_time() -> None:
    world, partition = ready()
    records = [
        ParcelRecord(b"plain"),
        ParcelRecord(b"kept", b"k", block("Kind: a"), b"orders"),
        ParcelRecord(None, b"k"),
        ParcelRecord(b"", b""),
    ]
    leader, epoch = world.subscriptions[partition]
    base = end(world, partition)
    sent = Message(b"orders", b"", block(BATCH), seal_parcel(records))
    world.step(leader, Published(partition, epoch, [sent], 777))
    (stored,) = [one for one in batches(world, partition) if one.base_offset == base]
    assert decode_records(stored) == [
        Record(base, 777, b"orders", b"", b"", None, b"plain"),
        Record(base + 1, 777, b"orders", b"", block("Kind: a"), b"k", b"kept"),
        Record(base + 2, 777, b"orders", b"", b"", b"k", None),
        Record(base + 3, 777, b"orders", b"", b"", b"", b""),
    ]


@pytest.mark.parametrize("sent", codecs.CODECS)
@pytest.mark.parametrize("kept", codecs.CODECS)
def test_L8_a_batch_is_stored_in_the_streams_codec_whatever_it_came_in(sent: str, kept: str) -> None:
    world = World()
    partition = world.create(codec=kept)
    values = [b"%d" % number * 30 for number in range(20)]
    base = publish(world, partition, batch(*values, codec=sent))
    (stored,) = [one for one in batches(world, partition) if one.base_offset == base]
    assert read_header(stored.data).codec == kept
    assert [one.value for one in decode_records(stored)] == values


GOOD = seal_parcel([ParcelRecord(b"a"), ParcelRecord(b"b")])


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"", "too few"),
        (GOOD[: HEAD_BYTES - 1], "too few"),
        (resealed(GOOD[8:], b"LLP2"), "begins with b'LLP2'"),
        (of(record(), codec=3), "has codec 3"),
        (of(record(), zero=1), "1 behind it"),
        (of(b"", 0), "has 0 records"),
        (of(record() * (RECORDS_MAX + 1), RECORDS_MAX + 1), "accepted are 1 to 1000"),
        (GOOD[:-1] + b"c", "checksum is wrong"),
        (GOOD[:-1], "checksum is wrong"),
        (of(record(), 2), "record 1 of 2 lies outside"),
        (of(record()[:-1]), "record 0 of 1 lies outside"),
        (of(record() + b"more"), "4 bytes follow its 1 records"),
        (of(record(extra=1)), "does not fill"),
        (of(record(value_bytes=9)), "does not fill"),
        (of(record(subject=0xFFFF)), "does not fill"),
        (of(record(delta=1)), "a time or a reply subject"),
        (of(record(reply=1, value_bytes=0)), "a time or a reply subject"),
        (of(record(b"", value_bytes=-1)), "neither a value nor a key"),
        (of(record(value_bytes=-2)), "below -1"),
        (of(record(key=-2)), "below -1"),
        (of(b"abc", codec=1), "too few for compressed"),
        (of(struct.pack("<I", 30) + b"no frame", codec=1), "compressed records are bad"),
        (of(struct.pack("<I", 0), codec=2), "compressed records are bad"),
        (seal_parcel([ParcelRecord(b"x", subject=b"payments")]), "'payments' is not within 'orders'"),
        (seal_parcel([ParcelRecord(b"x", subject=b"orders.*")]), "a wildcard"),
        (seal_parcel([ParcelRecord(b"x", subject=b"\xff")]), "not UTF-8"),
        (seal_parcel([ParcelRecord(b"x", subject=b"a..b")]), "an empty token"),
        (seal_parcel([ParcelRecord(b"x", headers=b"Kind: a")]), "not formed"),
        (seal_parcel([ParcelRecord(b"x", headers=block("Nats-Msg-Id: 1"))]), "'Nats-Msg-Id'"),
        (seal_parcel([ParcelRecord(b"a"), ParcelRecord(b"x", None, block("LIFTLOG-k: 1"))]), "record 1 has"),
    ],
)
def test_L8_what_is_wrong_with_one_record_refuses_them_all(payload: bytes, words: str) -> None:
    world, partition = ready()
    code, text = refused(world, partition, payload)
    assert code == "parcel-refused" and words in text
    assert nats_wire.ERROR_CODES[code] == (400, 10003) and code in nats_wire.FAILS


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("L8.damaged", GOOD[:-1] + b"c"),
        ("L8.count", of(record() + b"more")),
        ("L8.subject", seal_parcel([ParcelRecord(b"x", subject=b"payments")])),
        ("L8.options", seal_parcel([ParcelRecord(b"x", headers=block("Nats-TTL: 1"))])),
    ],
)
def test_L8_each_guard_decides_and_without_it_something_wrong_is_stored(name: str, payload: bytes) -> None:
    world, partition = ready()
    refused(world, partition, payload)
    marks = world.nodes[world.leader(partition)].marks
    assert marks[name] == 1 and marks["L8.refused"] == 1
    world = World(mutants=Mutants(without=name))
    partition = world.create()
    before = end(world, partition)
    publish(world, partition, message(payload))
    assert end(world, partition) > before


@pytest.mark.parametrize(
    "line",
    ["Liftlog-Key: a", "Nats-Msg-Id: 1", "Kind: a", "traceparent: 00-1", "Nats-Msg-Size: 3"],
)
def test_L8_headers_that_would_be_lost_are_refused(line: str) -> None:
    world, partition = ready()
    code, _ = refused(world, partition, GOOD, line)
    assert code == "header-not-honoured"


@pytest.mark.parametrize("value", ["", "2", "yes"])
def test_L8_there_is_one_version(value: str) -> None:
    wish = wishes_of(Message(b"orders", b"", block(f"liftlog-batch: {value}"), GOOD), "orders")
    assert wish.refusal is not None and "the only value is '1'" in wish.refusal.text


def test_L8_a_record_may_be_as_large_as_a_message_and_all_of_them_as_a_batch() -> None:
    world = World()
    partition = world.create(max_payload_bytes=100)
    base = end(world, partition)
    fits = seal_parcel([ParcelRecord(b"x" * 100), ParcelRecord(b"x" * 88, headers=block())])
    publish(world, partition, message(fits, b""))
    assert end(world, partition) == base + 2, "together they are larger than one message may be"
    assert counted_bytes(message(fits)) == 0
    assert counted_bytes(Message(b"orders", b"", block("Kind: Liftlog-Batch"), b"12345")) > 5
    code, text = refused(world, partition, seal_parcel([ParcelRecord(b"a"), ParcelRecord(b"x" * 101)]))
    assert code == "too-large" and "record 1" in text and "100 bytes" in text
    small = World(batch_max_bytes=1024)
    partition = small.create()
    for payload in (
        seal_parcel([ParcelRecord(b"x" * 500)] * 2),
        seal_parcel([ParcelRecord(b"x" * 500)] * 2, "zstd"),
        seal_parcel([ParcelRecord(b"x" * 91)] * 8),
        of(struct.pack("<I", 0xFFFFFFFF) + b"bomb", codec=1),
    ):
        code, text = refused(small, partition, payload)
        assert code == "parcel-refused-here" and "1024 bytes" in text
    assert code not in nats_wire.FAILS, "another leader may take it, or have taken it"


def test_L8_who_lacks_the_codec_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world, partition = ready()
    payload = seal_parcel([ParcelRecord(b"x" * 500)] * 2, "zstd")

    def missing(codec: str, payload: bytes) -> bytes:
        raise codecs.MissingCodec(f"codec {codec} needs a library")

    monkeypatch.setattr(codecs, "decompress", missing)
    code, text = refused(world, partition, payload)
    assert code == "parcel-refused-here" and "send the batch uncompressed" in text


def test_L8_L6_a_batch_may_expect_its_first_offset_and_counts_as_many_as_it_has() -> None:
    world, partition = ready()
    base = end(world, partition)
    publish(
        world,
        partition,
        batch(b"a", b"b", lines=(f"Liftlog-Expected-Offset: {base}",)),
        batch(b"lost", reply=b"_INBOX.late", lines=(f"Nats-Expected-Last-Sequence: {base + 1}",)),
        expecting(base + 2, b"", b"c"),
        batch(b"d", b"e", lines=(f"Liftlog-Expected-Offset: {base + 3}", "Nats-Expected-Stream: orders")),
    )
    assert world.values(world.leader(partition), partition)[base:] == [b"a", b"b", b"c", b"d", b"e"]
    assert world.run_until(lambda: bool(world.refusals))
    assert [(one.code, one.next_offset) for one in world.refusals] == [("expected-offset", base + 2)]
    code, _ = refused(world, partition, GOOD, "Nats-Expected-Stream: other")
    assert code == "wrong-stream"


def test_L8_R4_the_policy_is_that_of_the_message() -> None:
    world, partition = ready()
    for node in others(world, partition):
        world.hold_storage(node)
    base = publish(
        world,
        partition,
        batch(b"a", b"b", reply=b"_INBOX.leader", lines=("Liftlog-Ack-Policy: leader",)),
        batch(b"c", reply=b"service", lines=("Liftlog-Ack-Policy: none",)),
        batch(b"d", b"e", reply=b"_INBOX.all", lines=("Liftlog-Ack: full",)),
    )
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.leader")))
    (word,) = acks_for(world, b"_INBOX.leader")
    assert (word.by_leader, word.offsets_from, word.records) == (True, base, 2)
    world.run(0.2)
    assert not acks_for(world, b"_INBOX.all")
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.all")))
    (ack,) = acks_for(world, b"_INBOX.all")
    assert (ack.offsets_from, ack.records, ack.full) == (base + 3, 2, [True])
    assert not acks_for(world, b"service")


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("by_leader", [False, True])
def test_L8_R4_on_the_wire_an_ack_has_the_last_sequence(full: bool, by_leader: bool) -> None:
    ack = AckPublishes(PartitionId(5, 2), "s", 7, 9, 41, [b"a"], [full], None, by_leader, records=3)
    ((reply, payload),) = split(nats_wire.acknowledgements(ack))
    wanted: dict[str, object] = {"stream": "s", "seq": 44}
    if full:
        wanted |= {"offset": 41, "count": 3, "partition": 2, "epoch": 7, "incarnation": 9}
    if by_leader:
        wanted["policy"] = "leader"
    assert (reply, json.loads(payload)) == (b"a", wanted)


def test_L8_N6_its_bytes_count_while_they_wait() -> None:
    world = World(inflight_max_bytes=2_000)
    partition = world.create()
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, batch(b"x" * 1000, b"x" * 1000))
    role = world.nodes[world.leader(partition)].replicas[partition].roles.leader
    assert role.inflight_bytes > 2_000
    publish(world, partition, batch(b"x", reply=b"_INBOX.late"))
    assert [one.code for one in world.refusals] == ["overload"]
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: role.inflight_bytes == 0)


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_L8_no_part_of_a_batch_outlives_its_leader(max_bytes: int) -> None:
    world = World(fetch_max_bytes=max_bytes)
    partition = world.create()
    first, base = world.leader(partition), end(world, partition)
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, batch(b"a", b"b", b"c"), batch(b"d", b"e"))
    world.run(0.01)
    world.kill(first)
    for node in list(world.nodes):
        world.release_storage(node)
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    world.run(2.0)
    left = world.values(world.leader(partition), partition)[base:]
    assert left in ([], [b"a", b"b", b"c"], [b"a", b"b", b"c", b"d", b"e"])


def test_L8_a_planted_bug_cuts_what_was_sent_together() -> None:
    world = World(mutants=Mutants(parcel_halved=True))
    partition = world.create()
    publish(world, partition, batch(b"a", b"b", b"c"))
    assert [one.count for one in batches(world, partition)][-2:] == [1, 2]


# -- the parser ---------------------------------------------------------------------------------------------

_texts = st.sampled_from([b"", b"a", b"orders", b"\xff\x00"]) | st.binary(max_size=30)
_records = st.builds(
    ParcelRecord,
    st.none() | st.binary(max_size=40),
    _texts,
    st.sampled_from([b"", block("Kind: a"), block("Kind: b", "More: c")]),
    st.sampled_from([b"", b"orders", b"orders.new"]),
)


def records_in(payload: bytes, own: bytes) -> list[Record] | str:
    config = StreamConfig("orders", "orders.>" if own != b"orders" else "orders")
    parcel = open_parcel(Guards().decides, config, 0, Message(own, b"", b"", payload), 1 << 20)
    if isinstance(parcel, Refusal):
        return parcel.text
    return decode_records(stored(PartitionId(5, 0), 7, 1, 9, parcel, "none"))


@given(st.lists(_records, min_size=1, max_size=12), st.sampled_from(codecs.CODECS))
def test_L8_what_was_sent_is_what_is_stored(records: list[ParcelRecord], codec: str) -> None:
    payload = seal_parcel(records, codec)
    wanted = [
        Record(7 + place, 9, one.subject or b"orders.own", b"", one.headers, one.key, one.value)
        for place, one in enumerate(records)
    ]
    known = [one._replace(subject=b"orders.own") if one.subject == b"orders" else one for one in wanted]
    if wanted == known:
        assert records_in(payload, b"orders.own") == wanted
    else:
        assert "not within" in str(records_in(payload, b"orders.own"))


@given(st.lists(_records, min_size=1, max_size=5), st.sampled_from(codecs.CODECS), st.data())
def test_L8_a_flipped_bit_and_a_missing_byte_are_seen(
    records: list[ParcelRecord], codec: str, data: st.DataObject
) -> None:
    payload = seal_parcel(records, codec)
    place = data.draw(st.integers(0, len(payload) * 8 - 1))
    flipped = bytearray(payload)
    flipped[place // 8] ^= 1 << place % 8
    assert isinstance(records_in(bytes(flipped), b"orders.own"), str)
    assert isinstance(records_in(payload[: place // 8], b"orders.own"), str)


def walked(plain: bytes, count: int) -> object:
    try:
        return walk(plain, count)
    except BadParcel as error:
        return str(error)


@given(st.lists(st.tuples(_records, st.integers(1, 5)), min_size=1, max_size=6), st.data())
def test_L8_records_that_are_alike_are_judged_as_all_others(
    records: list[tuple[ParcelRecord, int]], data: st.DataObject
) -> None:
    whole = [one for one, times in records for _ in range(times)]
    plain = bytearray(plain_of([one for one in whole if one.value is not None or one.key is not None]))
    if plain and data.draw(st.booleans()):
        plain[data.draw(st.integers(0, len(plain) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.integers(0, 3))
    found = walked(bytes(plain[: len(plain) - cut]), len(whole))
    with patch("liftlog.parcel.UNLIKE_MAX", -1):
        assert walked(bytes(plain[: len(plain) - cut]), len(whole)) == found


@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 20))
def test_L8_any_bytes_are_refused_or_can_be_read_again(content: bytes, codec: int, count: int) -> None:
    found = records_in(of(content, count, codec), b"orders.own")
    assert isinstance(found, str) or len(found) == count


def test_L8_a_client_is_told_what_cannot_be_sent() -> None:
    for records, words in (
        ([], "1 to 1000 records, not 0"),
        ([ParcelRecord(b"")] * (RECORDS_MAX + 1), "not 1001"),
        ([ParcelRecord(None)], "neither a value nor a key"),
        ([ParcelRecord(b"", subject=b"x" * 70_000)], "above 65535"),
    ):
        with pytest.raises(BadParcel, match=words):
            seal_parcel(records)
    assert checksum_matches(seal_parcel([ParcelRecord(b"")] * RECORDS_MAX))
