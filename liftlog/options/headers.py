r"""What the headers of a message from NATS ask for, and whether we can do that (L1, L4).

    Liftlog-Key: customer-17          the record's key; the last record of every key survives compaction
    Liftlog-Tombstone: 1              with a key, any value but an empty one: the record has no value, which
                                      deletes the key
    Liftlog-Ack: full                 the answer says more than JetStream's does
    Liftlog-Ack-Policy: leader        when it is sent: "all", as without this header; "leader", once the
                                      leader has it durably; "none", never (R4)
    Nats-Expected-Stream: orders      do not store it in any other stream
    Liftlog-Expected-Offset: 17       store it at this offset or not at all (L6)
    Nats-Expected-Last-Sequence: 17   the same: sequences are offsets plus one, and this is the last one's
    Liftlog-Expected-Last-Subject-Offset: 17
                                      store it if the last record of its subject has this offset, or, for
                                      `none`, if there is none (L9)
    Nats-Expected-Last-Subject-Sequence: 18
                                      the same, by sequence; 0 for none
    Nats-Expected-Last-Subject-Sequence-Subject: orders.17
                                      the subject that either is about, if not the message's own
    Nats-Rollup: sub                  once it is committed all older messages of its subject go, or, for
                                      `all`, of its partition (R23)
    Nats-TTL: 90                      it goes when it is so many seconds old, or as old as a duration of Go's
                                      says, such as 1h30m; `never`: it stays (R24)
    Nats-Msg-Id: order-4711           store it once, for as long as the stream remembers ids (L7)
    Nats-Expected-Last-Msg-Id: order-4710
                                      store it if the message before it has this id (L7)
    Liftlog-Producer: pump-7          with a run and a number: store it once, and behind those of its producer
    Liftlog-Run: 17                   that precede it, or not at all (L2)
    Liftlog-Sequence: 0
    Liftlog-Cursor: 17/0/120          beside those: how far a processor is with its input (L10)
    Liftlog-Open: 1                   beside that, with number 0: begin a run, and tell where it begins
    Nats-Batch-Id: 7f3a               with a number, and a word on the last one: messages that are stored
                                      together or not at all (L11, `liftlog.options.batches`)
    Liftlog-Batch: 1                  the payload is a parcel (`liftlog.parcel`): several records, which are
                                      stored together or not at all (L8)

Whoever sets a header that asks for something relies on it: a message id against doubles, a time to live, a
comparison before storing. While such a header does not work here, a message that carries it is refused and
not stored, with JetStream's error where it has one that fits. A publisher without a reply subject cannot be
told; its message is not stored either, since what is stored must not depend on who listens for the answer: a
message that was to vanish after a minute would stay for ever. Headers that ask
for nothing are stored as they are, and so are those that JetStream itself only reads.

A header block is `NATS/1.0`, perhaps a status, then `Name: value` lines, all ended by CR LF, and an empty
line. JetStream's names count as nats-server counts them: exactly as written, the first of several, and an
empty value is as good as none. Ours count whatever their case. White space around a value does not count. A
block that is not formed like this is stored as it came, unless something in it looks like one of these
headers.

Beside `Liftlog-Batch` stand only headers that say how the parcel is answered, where it is to lie, which one
of its producer it is, and its cursor: its own are stored nowhere, and those of its records are in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from liftlog.bounds import ID_BYTES_MAX
from liftlog.messages import (
    ERR_COUNTER_DISABLED,
    ERR_HEADER,
    ERR_ROLLUP_DISABLED,
    ERR_SCHEDULE_DISABLED,
    ERR_SOURCE_HEADER,
    ERR_TTL_DISABLED,
    ERR_TTL_INVALID,
    ERR_WRONG_STREAM,
)
from liftlog.options import batches, cursors, lifetime, numbered
from liftlog.options.wishes import ALL, NO_TERMS, NO_WISHES, POLICY_NAMES, Refusal, Terms, Wishes
from liftlog.types import NO_OFFSET

KEY, TOMBSTONE, ACK = b"liftlog-key", b"liftlog-tombstone", b"liftlog-ack"
POLICY = b"liftlog-ack-policy"
OURS = b"liftlog-"
THEIRS = b"Nats-"
EXPECTED_STREAM = b"Nats-Expected-Stream"
EXPECTED_OFFSET = b"liftlog-expected-offset"
LAST_SEQUENCE = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST = b"liftlog-expected-last-subject-offset"
NO_LAST = b"none"
LAST_OF_SUBJECT = b"Nats-Expected-Last-Subject-Sequence"
COMPARED_SUBJECT = b"Nats-Expected-Last-Subject-Sequence-Subject"
BATCH = b"liftlog-batch"
BATCH_VERSION = b"1"
OFFSET_DIGITS_MAX = 18
MESSAGE_ID = b"Nats-Msg-Id"
LAST_ID = b"Nats-Expected-Last-Msg-Id"
ID_LINE = MESSAGE_ID + b":"
"""How a line begins that has an id."""
ROLLUP_NAME = b"Nats-Rollup"
ROLLUP = ROLLUP_NAME + b":"
"""How a line begins that is a roll-up."""
SUBJECT_BEFORE, ALL_BEFORE = b"sub", b"all"
"""What it takes: its values, in any case of letters, as nats-server reads them."""
BLOCK_START = b"NATS/1.0"
BLOCK_END = b"\r\n\r\n"

NOT_HONOURED: tuple[tuple[bytes, str, str], ...] = (
    (b"Nats-Expected-", ERR_HEADER, "compared are the stream, last sequences and the last id, no more"),
    (b"Nats-Incr", ERR_COUNTER_DISABLED, "message counters are not supported"),
    (b"Nats-Schedule", ERR_SCHEDULE_DISABLED, "message schedules are not supported"),
    (b"Nats-Schedule-", ERR_SCHEDULE_DISABLED, "message schedules are not supported"),
    (b"Nats-Scheduler", ERR_SCHEDULE_DISABLED, "message schedules are not supported"),
    (b"Nats-Stream-Source", ERR_SOURCE_HEADER, "only a stream that copies another one may set it"),
)
"""JetStream's headers on which a publisher relies and that do not work here: name, or a beginning that ends
in "-", code, why.
"""

OURS_KNOWN = (
    frozenset((KEY, TOMBSTONE, ACK, POLICY, EXPECTED_OFFSET, EXPECTED_LAST, BATCH))
    | numbered.NAMES
    | cursors.NAMES
)
OF_A_PARCEL = (
    frozenset((ACK, POLICY, EXPECTED_OFFSET, EXPECTED_LAST, BATCH, cursors.CURSOR)) | numbered.NAMES
)
OF_A_PARCEL_TOO = frozenset((EXPECTED_STREAM, LAST_SEQUENCE, LAST_OF_SUBJECT, COMPARED_SUBJECT))
"""Which headers may stand on a parcel: ours in any case of letters, JetStream's as written."""

READ_HERE = frozenset(
    (LAST_SEQUENCE, LAST_OF_SUBJECT, COMPARED_SUBJECT, MESSAGE_ID, LAST_ID, ROLLUP_NAME, lifetime.TTL)
) | batches.NAMES
"""JetStream's headers that are honoured, beside the stream's name."""

_POLICIES = {name.encode(): number for number, name in enumerate(POLICY_NAMES)}


@lru_cache(maxsize=256)
def read_block(headers: bytes, stream: str, terms: Terms = NO_TERMS) -> Wishes:
    """What a header block asks for, of a message for the stream of this name."""
    if THEIRS not in headers and OURS not in headers.lower():
        return NO_WISHES
    well_formed = headers.endswith(BLOCK_END)
    first, *lines = headers.removesuffix(BLOCK_END).split(b"\r\n")
    well_formed &= first.partition(b" ")[0] == BLOCK_START
    ours: dict[bytes, bytes] = {}
    theirs: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        well_formed &= bool(colon) and len(name.split()) == 1 and name == name.strip()
        if name.startswith(THEIRS) and colon:
            theirs.setdefault(name, value.strip())
        elif name.lower().startswith(OURS) and colon:
            ours.setdefault(name.lower(), value.strip())
    full_ack = ours.get(ACK) == b"full"
    expected = [found for found in (theirs.get(LAST_SEQUENCE), ours.get(EXPECTED_OFFSET)) if found]
    id, rollup = theirs.get(MESSAGE_ID), theirs.get(ROLLUP_NAME, b"").lower()
    after = theirs.get(LAST_ID)
    refusal = (
        _refusal_of_theirs(theirs, stream)
        or _refusal_of_batch(theirs, stream, terms.batches, well_formed)
        or (_refusal_of_id(MESSAGE_ID, id, stream, terms.remembers) if id else None)
        or (_refusal_of_id(LAST_ID, after, stream, terms.remembers) if after else None)
        or _refusal_of_ours(ours, well_formed)
        or _refusal_of_numbers(ours, bool(id), stream, terms.remembers)
        or _refusal_of_cursor(ours)
        or _refusal_of_offsets(expected)
        or _refusal_of_last(theirs, ours)
        or (_refusal_of_rollup(rollup, stream, terms.rolls_up, well_formed) if rollup else None)
        or (_refusal_of_ttl(theirs, stream, terms.ttl, well_formed) if theirs.get(lifetime.TTL) else None)
        or (_refusal_beside_parcel(lines) if BATCH in ours else None)
    )
    key = ours.get(KEY) if well_formed else None
    policy = _POLICIES.get(ours.get(POLICY, b"all"), ALL)
    opens = cursors.OPEN in ours and refusal is None
    return Wishes(
        key,
        key is not None and bool(ours.get(TOMBSTONE)),
        full_ack,
        refusal,
        policy,
        expected=int(expected[0]) if expected and refusal is None else None,
        expected_last=_expected_last(theirs, ours) if refusal is None else None,
        compared=theirs.get(COMPARED_SUBJECT, b"") if refusal is None else b"",
        in_parcel=BATCH in ours and well_formed,
        id=id if id and refusal is None else None,
        after=after if after and refusal is None else None,
        numbered=numbered.numbered_in(ours) if refusal is None else None,
        cursor=cursors.cursor_in(ours) if refusal is None else None,
        opens=opens,
        rolls_up=bool(rollup),
        headers=cursors.without_cursor(headers) if opens else None,
        part=batches.part_in(theirs) if terms.batches else None,
    )


def stored_id(headers: bytes) -> bytes | None:
    """The message id in the headers of a record, as `read_block` has read it; None if it has none."""
    if ID_LINE not in headers:
        return None
    for line in headers.removesuffix(BLOCK_END).split(b"\r\n")[1:]:
        if line.startswith(ID_LINE):
            return line[len(ID_LINE) :].strip() or None
    return None


def rolled_up_by(headers: bytes) -> bytes:
    """What a record with these headers rolls up, as `read_block` has read it; empty if nothing."""
    for line in headers.removesuffix(BLOCK_END).split(b"\r\n")[1:]:
        if line.startswith(ROLLUP):
            return line[len(ROLLUP) :].strip().lower()
    return b""


def option_in(headers: bytes) -> bytes:
    """The first name in this block of ours or JetStream's; empty if there is none."""
    for line in headers.split(b"\r\n"):
        if line.startswith(THEIRS) or line[: len(OURS)].lower() == OURS:
            return line.partition(b":")[0]
    return b""


def names_ours(headers: bytes) -> bool:
    """Whether a header in this block is one of ours."""
    return any(line.startswith(OURS) for line in headers.lower().split(b"\r\n"))


def _refusal_of_theirs(found: dict[bytes, bytes], stream: str) -> Refusal | None:
    for name, value in found.items():
        if not value or name in READ_HERE:
            continue
        if name == EXPECTED_STREAM:
            if value != stream.encode():
                text = f"the message expects stream {_shown(value)}, this is {stream!r}; nothing was stored"
                return Refusal(ERR_WRONG_STREAM, text)
            continue
        for beginning, code, why in NOT_HONOURED:
            if name == beginning or (beginning.endswith(b"-") and name.startswith(beginning)):
                return Refusal(code, f"header {_shown(name)}: {why}; publish without it")
    return None


def _refusal_of_id(name: bytes, id: bytes, stream: str, remembers: bool) -> Refusal | None:
    shown = name.decode()
    if not remembers:
        text = (
            f"header {shown}: stream {stream!r} remembers no message ids; let it, with 'liftlog stream "
            f"alter {stream} --dedupe-window 2m', or publish without it"
        )
        return Refusal(ERR_HEADER, text)
    if len(id) > ID_BYTES_MAX:
        return Refusal(ERR_HEADER, f"header {shown}: {len(id)} bytes; it may have {ID_BYTES_MAX}")
    return None


def _refusal_of_batch(
    found: dict[bytes, bytes], stream: str, allowed: bool, well_formed: bool
) -> Refusal | None:
    """L11: why a message may not be part of a batch."""
    problem = batches.batch_problem(found, stream, allowed)
    if problem is not None:
        return Refusal(*problem)
    if found.get(batches.ID) and not well_formed:
        return Refusal(ERR_HEADER, "the header block is not formed as NATS headers are; correct it")
    return None


def _refusal_of_rollup(value: bytes, stream: str, rolls_up: bool, well_formed: bool) -> Refusal | None:
    """R23: why a message may not roll up those before it."""
    if not rolls_up:
        text = (
            f"header Nats-Rollup: messages of stream {stream!r} may not roll up others; let them, with "
            f"'liftlog stream alter {stream} --allow-rollup' if it was created with --removal, or publish "
            "without it"
        )
        return Refusal(ERR_ROLLUP_DISABLED, text)
    if value not in (SUBJECT_BEFORE, ALL_BEFORE):
        return Refusal(ERR_HEADER, f"header Nats-Rollup: {_shown(value)}: its values are 'sub' and 'all'")
    if not well_formed:
        return Refusal(ERR_HEADER, "the header block is not formed as NATS headers are; correct it")
    return None


def _refusal_of_ttl(found: dict[bytes, bytes], stream: str, ttl: int, well_formed: bool) -> Refusal | None:
    """R24: why a message may not say for how long it is to stay."""
    value = found[lifetime.TTL]
    if ttl == lifetime.NONE:
        text = (
            f"header Nats-TTL: messages of stream {stream!r} have no time to live of their own; let them, "
            f"with 'liftlog stream alter {stream} --allow-ttl' if it was created with --removal, or publish "
            "without it"
        )
        return Refusal(ERR_TTL_DISABLED, text)
    stays_ms = lifetime.lifetime_ms(value)
    if stays_ms is None:
        text = (
            f"header Nats-TTL: {_shown(value)}: it is whole seconds or a duration such as 1h30m, at least "
            "1 s, or 'never'"
        )
        return Refusal(ERR_TTL_INVALID, text)
    if stays_ms == lifetime.STAYS and ttl != lifetime.ANY:
        text = (
            f"header Nats-TTL: 'never': stream {stream!r} lets messages go by their age (retention_ms); "
            "publish without it, or to a stream that does not"
        )
        return Refusal(ERR_TTL_INVALID, text)
    if not well_formed:
        return Refusal(ERR_HEADER, "the header block is not formed as NATS headers are; correct it")
    return None


def _refusal_of_numbers(
    found: dict[bytes, bytes], has_id: bool, stream: str, remembers: bool
) -> Refusal | None:
    if numbered.NAMES.isdisjoint(found):
        return None
    problem = numbered.numbers_problem(found)
    if problem:
        return Refusal(ERR_HEADER, problem)
    if has_id:
        text = "a message has a number of its producer or an id (Nats-Msg-Id), not both: leave one out"
        return Refusal(ERR_HEADER, text)
    if not remembers:
        text = (
            f"header Liftlog-Producer: stream {stream!r} remembers no producers; let it, with 'liftlog "
            f"stream alter {stream} --dedupe-window 2m', or publish without it"
        )
        return Refusal(ERR_HEADER, text)
    return None


def _refusal_of_cursor(found: dict[bytes, bytes]) -> Refusal | None:
    """L10: what is wrong with a cursor, or with what opens a run."""
    if cursors.NAMES.isdisjoint(found):
        return None
    cursor, opens, number = cursors.cursor_in(found), cursors.OPEN in found, numbered.numbered_in(found)
    first = number is not None and number.sequence == 0
    facts = (
        (not opens or found[cursors.OPEN] == b"1", "Liftlog-Open has the value 1 and no other"),
        (cursors.CURSOR in found, "Liftlog-Open opens a run of an input: name that in Liftlog-Cursor"),
        (cursor is not None, "Liftlog-Cursor is stream id/partition/offset: numbers of up to 18 digits"),
        (number is not None, "Liftlog-Cursor stands beside Liftlog-Producer, Liftlog-Run, Liftlog-Sequence"),
        (first == opens, "a run with cursors begins with message 0, which has Liftlog-Open, as no other has"),
        (opens or cursor is None or cursor.position >= 0, "Liftlog-Cursor lacks the offset that is next"),
        (not opens or BATCH not in found, "Liftlog-Open stands on a message without Liftlog-Batch"),
        (
            not opens or found.get(POLICY, b"all") == b"all",
            "a run is open when that is committed: Liftlog-Open goes with no other ack policy than 'all'",
        ),
    )
    return next((Refusal(ERR_HEADER, why) for holds, why in facts if not holds), None)


def _refusal_of_ours(found: dict[bytes, bytes], well_formed: bool) -> Refusal | None:
    if found and not well_formed:
        return Refusal(ERR_HEADER, "the header block is not formed as NATS headers are; correct it")
    for name, value in found.items():
        if name == ACK and value != b"full":
            return Refusal(ERR_HEADER, f"header Liftlog-Ack: {_shown(value)}: the only value is 'full'")
        if name == POLICY and value not in _POLICIES:
            text = f"header Liftlog-Ack-Policy: {_shown(value)}: its values are 'all', 'leader' and 'none'"
            return Refusal(ERR_HEADER, text)
        if name == TOMBSTONE and value and KEY not in found:
            return Refusal(ERR_HEADER, "header Liftlog-Tombstone deletes a key: name it in Liftlog-Key")
        if name == BATCH and value != BATCH_VERSION:
            return Refusal(ERR_HEADER, f"header Liftlog-Batch: {_shown(value)}: the only value is '1'")
        if name not in OURS_KNOWN:
            known = (
                "Liftlog-Key, Liftlog-Tombstone, Liftlog-Ack, Liftlog-Ack-Policy, Liftlog-Expected-Offset, "
                "Liftlog-Expected-Last-Subject-Offset, Liftlog-Producer, Liftlog-Run, Liftlog-Sequence, "
                "Liftlog-Batch, Liftlog-Cursor, Liftlog-Open"
            )
            return Refusal(ERR_HEADER, f"header {_shown(name)} is none of {known}")
    return None


def _refusal_beside_parcel(lines: Sequence[bytes]) -> Refusal | None:
    """L8: a parcel's own headers are stored nowhere."""
    for line in lines:
        name = line.partition(b":")[0]
        if name.lower() not in OF_A_PARCEL and name not in OF_A_PARCEL_TOO:
            text = f"header {_shown(name)} on a parcel would be lost: write it into the parcel's records"
            return Refusal(ERR_HEADER, text)
    return None


def _refusal_of_offsets(expected: Sequence[bytes]) -> Refusal | None:
    for value in expected:
        if not value.isdigit() or len(value) > OFFSET_DIGITS_MAX:
            text = f"an expected offset or last sequence is a number, not {_shown(value)}"
            return Refusal(ERR_HEADER, text)
    if len({int(value) for value in expected}) > 1:
        text = "its headers expect two offsets: the last sequence is the offset that comes next"
        return Refusal(ERR_HEADER, text)
    return None


def _expected_last(theirs: dict[bytes, bytes], ours: dict[bytes, bytes]) -> int | None:
    """L9: which offset the last record of the subject has to have, by headers that were found good."""
    if sequence := theirs.get(LAST_OF_SUBJECT):
        return int(sequence) - 1
    offset = ours.get(EXPECTED_LAST)
    return None if not offset else NO_OFFSET if offset == NO_LAST else int(offset)


def _refusal_of_last(theirs: dict[bytes, bytes], ours: dict[bytes, bytes]) -> Refusal | None:
    """L9: why what is expected of the last record of a subject cannot be compared."""
    sequence, offset = theirs.get(LAST_OF_SUBJECT), ours.get(EXPECTED_LAST)
    for value in filter(None, (sequence, b"" if offset == NO_LAST else offset)):
        if not value.isdigit() or len(value) > OFFSET_DIGITS_MAX:
            text = f"the offset or sequence of a subject's last record is a number, not {_shown(value)}"
            return Refusal(ERR_HEADER, text)
    if sequence and offset and int(sequence) - 1 != (NO_OFFSET if offset == NO_LAST else int(offset)):
        return Refusal(ERR_HEADER, "its headers expect two last records: a sequence is the offset plus one")
    compared = theirs.get(COMPARED_SUBJECT)
    if compared and not (sequence or offset):
        text = f"header {_shown(COMPARED_SUBJECT)} is about {_shown(LAST_OF_SUBJECT)}, which is not there"
        return Refusal(ERR_HEADER, text)
    return None


def _shown(text: bytes) -> str:
    """A name or value from outside, short and printable."""
    return repr(text[:64].decode("ascii", "backslashreplace"))
