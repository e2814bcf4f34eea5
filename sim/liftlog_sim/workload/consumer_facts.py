"""What the clients of durable consumers asked and were told, as the facts of docs/promises.md.

The same facts that `liftlog_jepsen.consuming` writes of a real run, so that the same promises judge both.
They are noted before anybody else judges the answer: one that breaks an invariant ends the run.
"""

from __future__ import annotations

from liftlog.format import decode_records, parse_batch
from liftlog.messages import (
    ACK,
    DELIVER_ALL,
    DELIVER_FROM,
    TERM,
    ClientMessage,
    ConsumersReply,
    ConsumersRequest,
    CreateConsumerRequest,
    ErrorReply,
    PullReply,
    PullRequest,
    ResetConsumerRequest,
    SettledReply,
    SettleRequest,
    offsets_of,
)
from liftlog_jepsen.history import Mop
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.targets import Target

PROCESSES = 100_000
"""From here on they are numbered; each operation is somebody new, since clients do several things at once."""


def begun(shared: Clientele, target: Target, request: ClientMessage) -> ClientOperation | None:
    """Note that this is asked now; None where nobody wants a history, or it is no fact of one."""
    kind = _kind(request)
    if not kind or not shared.keep_values:
        return None
    process = PROCESSES + shared.performed
    operation = ClientOperation(kind, process, target, shared.cluster.kernel.now_us)
    if isinstance(request, SettleRequest):
        number = request.consumer
        operation.facts = [Mop("settle", target.name, one, number) for one in offsets_of(request.runs)]
    shared.perform([operation])
    return operation


def ended(operation: ClientOperation | None, reply: object, now_us: int) -> None:
    """Note what was answered. A refusal says nothing: an ack may have been written before."""
    if operation is None or reply is None:
        return
    if isinstance(reply, ErrorReply):
        operation.end("info", now_us, error=reply.code)
        return
    key = operation.target.name
    if isinstance(reply, PullReply):
        operation.facts = _of_pull(operation.target, reply)
    elif isinstance(reply, SettledReply):
        number, asked = reply.consumer, [fact.offset for fact in operation.facts]
        operation.facts = [Mop("settle", key, one, number, reply.journal) for one in asked]
        operation.facts += [Mop("unknown-delivery", key, one, number) for one in offsets_of(reply.unknown)]
    elif isinstance(reply, ConsumersReply) and operation.kind == "create-consumer":
        for one in reply.consumers:
            config = one.config
            # One that was reset, or found, may have begun anywhere: from its floor on it is to be given all.
            gives_all = config.deliver in (DELIVER_ALL, DELIVER_FROM) and not config.patterns
            start = one.floor if gives_all else None
            operation.facts.append(Mop("consumer", key, start, one.number, config.max_deliver or None))
    elif isinstance(reply, ConsumersReply):
        operation.facts = [Mop("floor", key, one.floor, one.number) for one in reply.consumers]
    operation.end("ok", now_us)


def _kind(request: ClientMessage) -> str:
    match request:
        case CreateConsumerRequest() | ResetConsumerRequest():
            return "create-consumer"
        case ConsumersRequest():
            return "consumer-info"
        case PullRequest():
            return "pull"
        case SettleRequest():
            return {ACK: "ack", TERM: "term"}.get(request.how, "")
        case _:
            return ""


def _of_pull(target: Target, reply: PullReply) -> list[Mop]:
    if not reply.runs:
        return []
    found: dict[int, str] = {}
    for frame in reply.batches:
        for record in decode_records(parse_batch(target.partition, frame)):
            found[record.offset] = (record.value or b"").rstrip(b".").decode()
    facts = [Mop("pull", target.name, reply.recorded or None, reply.consumer, reply.epoch)]
    for first, length, count in reply.runs:
        for one in range(first, first + length):
            facts.append(Mop("deliver", target.name, one, found.get(one), count))
    return facts
