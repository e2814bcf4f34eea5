"""What one message asks for, whether its headers say so or its envelope."""

from __future__ import annotations

from typing import NamedTuple

from liftlog.messages import EnvelopeAnswer
from liftlog.options import lifetime
from liftlog.options.batches import BatchPart, WholeBatch
from liftlog.options.cursors import InputCursor
from liftlog.options.envelope import Envelope
from liftlog.options.numbered import Numbered
from liftlog.parcel import Parcel
from liftlog.types import NO_OFFSET

LEADER, ALL, NONE = 0, 1, 2
"""When a message is answered (R4), numbered as Liftbridge's envelope does. Without a word: ALL."""
POLICY_NAMES = ("leader", "all", "none")
"""By number."""


class Terms(NamedTuple):
    """What a stream lets its messages ask for. `remembers`: it has a window of message ids and producers (L7,
    L2). `rolls_up`: they may roll up those before them (R23). `ttl`: which times to live it takes (R24), as
    `lifetime` names that. `batches`: they may be parts of batches (L11).
    """

    remembers: bool = False
    rolls_up: bool = False
    ttl: int = lifetime.NONE
    batches: bool = False


NO_TERMS = Terms()


class FastPart(NamedTuple):
    """Which message of which fast batch (L12). `flow`: an ack for so many at most. `kept`: it is stored;
    otherwise it ends the batch, or asks how far that is.
    """

    id: bytes
    number: int
    flow: int
    gap_ok: bool
    ends: bool
    kept: bool


class Refusal(NamedTuple):
    """Why a message is not stored: one of the ERR_* codes, and a sentence."""

    code: str
    text: str


class Wishes(NamedTuple):
    """What one message asks for."""

    key: bytes | None = None
    tombstone: bool = False
    full_ack: bool = False
    refusal: Refusal | None = None
    policy: int = ALL
    envelope: Envelope | None = None
    """What was in the payload, if that is an envelope: it is what is stored."""
    headers: bytes | None = None
    """The header block to be stored in place of the message's own; None: that one."""
    expected: int | None = None
    """The offset at which it is to be stored, or not at all (L6); None: wherever it comes to lie."""
    expected_last: int | None = None
    """The offset that the last record of its subject has to have, NO_OFFSET: there is to be none (L9); None:
    whichever."""
    compared: bytes = b""
    """The subject that this is about, if it is not the message's own."""
    id: bytes | None = None
    """Of a message that is to be stored once (L7); None: it has none."""
    after: bytes | None = None
    """The id that the message before it is to have (L7); None: whichever, or none."""

    numbered: Numbered | None = None
    """Which message of its producer it is (L2); None: nobody numbers it."""

    cursor: InputCursor | None = None
    """How far its processor is with its input (L10); None: it is not a processor's."""
    opens: bool = False
    """It opens a run: it is to be told where that begins. Its `headers` are to be completed by its leader."""
    granted: int = NO_OFFSET
    """Where the run begins that it opens, once its leader has taken it."""

    rolls_up: bool = False
    """Older messages go when it is committed (R23)."""

    in_parcel: bool = False
    """Its headers say that its payload is a parcel (L8)."""
    parcel: Parcel | None = None
    """What was in it, once it is opened; or the messages of a batch."""

    part: BatchPart | None = None
    """Of which batch it is, and its place there (L11); None: of none."""
    whole: WholeBatch | None = None
    """The batch that ends with this message, when it is to be stored."""
    fast: FastPart | None = None
    """Of which fast batch it is, and its place there (L12); None: of none."""

    @property
    def asks_ids(self) -> bool:
        """Whether it is about what is remembered (L7, L2)."""
        known = self.id is not None or self.numbered is not None or self.after is not None
        return known or (self.whole is not None and bool(self.whole.ids))

    @property
    def compares(self) -> bool:
        """Whether there is a place, or a last record, that it expects."""
        return self.expected is not None or self.expected_last is not None or self.whole is not None

    def lasts(self, subject: bytes) -> tuple[tuple[bytes, int], ...]:
        """Which subjects are to have which last records (L9); `subject`: the message's own."""
        if self.whole is not None:
            return self.whole.lasts
        return () if self.expected_last is None else ((self.compared or subject, self.expected_last),)

    @property
    def span(self) -> int:
        """How many offsets it takes."""
        return 1 if self.parcel is None else self.parcel.records

    def answered_at(self, reply: bytes) -> bytes:
        """Where an answer goes, for a message with this reply subject: an envelope says it itself."""
        envelope = self.envelope
        return reply if envelope is None or envelope.damaged else envelope.ack_inbox.encode()

    def enveloped(self, subject: bytes, attached_to: str, received_ms: int) -> EnvelopeAnswer | None:
        """What an answer in an envelope repeats, for a message that came in one."""
        envelope = self.envelope
        if envelope is None or envelope.damaged:
            return None
        return EnvelopeAnswer(envelope.correlation_id, self.policy, subject, attached_to, received_ms)


NO_WISHES = Wishes()
