"""What a client makes of records that are to be stored together, and what it is answered (L8)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from liftlog.client import BatchRecord
from liftlog.client.batches import batch_message
from liftlog.client.publisher import result_of
from liftlog.core.guards import Guards
from liftlog.core.replica.publishing.parcels import open_parcel, stored
from liftlog.format import decode_records
from liftlog.parcel import Parcel
from liftlog.types import LiftlogError, Message, PartitionId, Record, StreamConfig
from tests.core.test_headers import block

LOG = PartitionId(5, 0)


def answer(**fields: object) -> Any:
    return SimpleNamespace(headers=None, data=json.dumps(fields).encode())


def test_L8_records_arrive_as_they_were_said() -> None:
    made = batch_message(
        [b"plain", BatchRecord(b"", key=b"k", headers={"Kind": "a", "More": "b c"}, subject="orders.x")],
        {"Liftlog-Expected-Offset": "7"},
    )
    assert made.headers == {"Liftlog-Batch": "1", "Liftlog-Expected-Offset": "7"}
    config, message = StreamConfig("orders", "orders.*"), Message(b"orders.own", b"", b"", made.value)
    parcel = open_parcel(Guards().decides, config, 0, message, 1 << 20)
    assert isinstance(parcel, Parcel)
    assert decode_records(stored(LOG, 7, 1, 9, parcel, "none")) == [
        Record(7, 9, b"orders.own", b"", b"", None, b"plain"),
        Record(8, 9, b"orders.x", b"", block("Kind: a", "More: b c"), b"k", b""),
    ]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "1 to 1000 records, not 0"),
        ([BatchRecord(None)], "record 0 has neither a value nor a key"),
        ([BatchRecord(b"", headers={"a b": "c"})], "header 'a b'"),
        ([BatchRecord(b"", headers={"a": "b\r\nNats-TTL: 1"})], "cannot be sent"),
        ([BatchRecord(b"", headers={"a": "\udcff"})], "no text that can be encoded"),
        ([BatchRecord(b"", subject="orders.\udcff")], "no text that can be encoded"),
    ],
)
def test_L8_what_cannot_be_sent_is_said_at_once(records: list[BatchRecord], words: str) -> None:
    with pytest.raises(LiftlogError, match=words):
        batch_message(records)
    with pytest.raises(LiftlogError, match="there is no codec 'gzip'"):
        batch_message([b"a"], codec="gzip")


def test_L8_R4_one_answer_tells_of_all_records() -> None:
    full = {"stream": "s", "seq": 44, "offset": 41, "count": 3, "partition": 2, "epoch": 7, "incarnation": 9}
    result = result_of(5, answer(**full))
    assert (result.tag, result.outcome, result.offset, result.records) == (5, "ok", 41, 3)
    assert result_of(5, answer(**full, policy="leader")).outcome == "leader"
    assert result_of(5, answer(**(full | {"count": "3"}))).outcome == "info"
    del full["count"]
    assert result_of(5, answer(**full)).records == 0
