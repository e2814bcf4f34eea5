"""R28, R29: what a copy's leader hears of an origin in another cluster, and of which stream it hears it.

    asked      by an effect (`AskOrigin`): the driver finds who leads the origin's partition there, and gets
               what every reader gets
    named      by the first answer: an alteration says in the copy's own configuration which stream that
               is. Nothing of an answer is copied before
    believed   if the one that is named has given the answer (guard R28.other-origin)

Within a cluster an id says which stream was there first. Here any answer may be another stream's, that bears
the name since the one that was named was removed, or another cluster's, which is called at the same address.
"""

from __future__ import annotations

from liftlog.core.metadata.commands import UNSENT, AlterStream
from liftlog.core.metadata.elsewhere import another, identity, named_origin, naming, unfit
from liftlog.core.metadata.origins import compacted, sources_of
from liftlog.core.metadata.records import StreamState
from liftlog.core.replica.state.log import LogState
from liftlog.messages import AskOrigin, MirrorReply, OriginAnswered, StreamChanges
from liftlog.messages.copying import elsewhere
from liftlog.types import PartitionId, StreamConfig

UNHEARD = "the other cluster has not answered this leader yet"


class OriginElsewhere:
    """Of one leader of a copy's partition, and one stream that it copies."""

    __slots__ = ("_ctx", "_found", "_log", "_remembered", "_source", "problem")

    def __init__(self, log: LogState, source: str = "") -> None:
        """`source`: what the copy calls it; empty: it is what it is a mirror of."""
        self._source = source
        self._ctx = log.ctx
        self._log = log
        self._found = ""
        """The identity that is to be named."""
        self._remembered = ""
        """Of a planted bug."""
        self.problem = UNHEARD
        """Why nothing comes; empty: it does."""

    def tick(self) -> None:
        """What is to be named is wanted until the configuration says it."""
        stream = self._stream()
        called = self._called(stream)
        wanted = stream is not None and called and not named_origin(stream.config, called)
        if stream is None or not wanted or not self._found or self._ctx.fenced:
            self._found = ""
            return
        config = stream.config
        changes = StreamChanges(origins=naming(config, called, self._found))
        self._ctx.want(AlterStream(UNSENT, stream.id, config.name, stream.revision, changes))

    def ask(self, offset: int, max_bytes: int) -> bool:
        """For what follows. Whether that is asked of another cluster."""
        stream = self._stream()
        called = self._called(stream)
        place = elsewhere(called)
        if place is None:
            return False
        question = AskOrigin(self._log.id, called, place.cluster, place.stream, offset, max_bytes)
        self._ctx.effects.append(question)
        return True

    def hears(self, event: OriginAnswered) -> MirrorReply | None:
        """What the one that is named has answered; None: nothing to be copied."""
        ctx, stream = self._ctx, self._stream()
        called = self._called(stream)
        if stream is None or not called or event.origin != called:
            return None
        copy, origin = stream.config, event.config
        if event.problem or origin is None:
            ctx.mark("R28.unheard")
            self.problem = event.problem or UNHEARD
            return None
        found = identity(event.cluster, event.stream)
        named = named_origin(copy, called)
        if ctx.mutants.origin_named_in_memory:
            named = self._remembered = self._remembered or found
        if not named_origin(copy, called) and not ctx.mutants.origin_unnamed:
            self._name(copy, called, found, origin)
            return None
        if not ctx.decides(("R28.other-origin", named == found or ctx.mutants.origin_unnamed)):
            self.problem = another(copy, called, found)
            return None
        self.problem = compacted(origin) or ("" if event.reply is not None else unfit(copy, called, origin))
        return event.reply if not self.problem else None

    def _name(self, copy: StreamConfig, called: str, found: str, origin: StreamConfig) -> None:
        problem = compacted(origin) or unfit(copy, called, origin)
        if problem and not self._ctx.mutants.origin_unfit:
            self._ctx.mark("R28.unfit")
            self.problem = problem
            return
        self._ctx.mark("R28.named")
        self.problem = ""
        self._found = found
        self.tick()

    def refuse(self, reason: str) -> None:
        """An answer contradicts itself, or was damaged on its way."""
        self._ctx.mark("R28.refused")
        self.problem = f"what the other cluster has answered is refused: {reason}"

    def log_of(self, reply: MirrorReply) -> PartitionId:
        """The log there that an answer is of."""
        return PartitionId(reply.origin, self._log.id.index)

    def _called(self, stream: StreamState | None) -> str:
        """What the copy calls it; empty: it copies nothing of another cluster any more."""
        config = stream.config if stream is not None else None
        if config is None:
            return ""
        if self._source:
            return self._source if self._source in sources_of(config) else ""
        return config.mirrors if elsewhere(config.mirrors) is not None else ""

    def _stream(self) -> StreamState | None:
        return self._ctx.metadata.by_id.get(self._log.id.stream)
