"""What processors stored and were told, as the facts of docs/promises.md: each message is a transaction.

A message of a processor says which positions of its input it deals with, what comes of them and how far it
then is; one that opens a run is told where that was. What the facts call a group is a processor as long as it
is remembered: of one that was forgotten, and began anew, nothing more is promised. The input is imagined, so
that no history has it.
`liftlog_jepsen.processing` writes the same of a real run, and the input too.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog_jepsen.history import Mop
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.consumer_facts import PROCESSES
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.targets import Target

INPUT = "the input/0"


def group_of(processor: bytes, life: int) -> str:
    """What the facts call a processor. `life`: as `StoredCursors` tells it; below 0: nobody knows yet."""
    return f"{processor.decode()} since {life}" if life >= 0 else f"{processor.decode()}, perhaps"


def of_outputs(group: str, run: int, positions: range) -> list[Mop]:
    """Of a message with what comes of these positions."""
    dealt = [Mop("source", INPUT, position, group) for position in positions]
    return [*dealt, Mop("commit", INPUT, positions.stop, group, run)]


def begun(shared: Clientele, target: Target, values: Sequence[bytes], facts: list[Mop]) -> ClientOperation:
    """The transaction that sends these values, and whose facts these are."""
    process = PROCESSES + shared.performed
    operation = ClientOperation("txn", process, target, shared.cluster.kernel.now_us)
    operation.facts = [Mop("send", target.name, None, value.decode()) for value in values] + facts
    return operation


def stored(operation: ClientOperation, offset: int) -> None:
    """The first of its values lies at this offset, the others behind it."""
    for at, fact in enumerate(operation.facts):
        if fact.f == "send":
            operation.facts[at] = fact._replace(offset=offset)
            offset += 1


class SentOpenings:
    """Of one processor: messages that open a run, and say where to begin if nothing is known of it. With one
    that comes again, late, a processor that was forgotten may begin anew. Nobody is told, and who hears
    of that beginning first hears a cursor that one of these may have said.
    """

    __slots__ = ("_groups", "_sent", "_shared")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._sent: list[tuple[ClientOperation, int, int]] = []
        self._groups: set[str] = set()

    def sent(self, operation: ClientOperation, run: int, begin: int) -> None:
        """`begin`: below 0: it does not say."""
        if operation.kind == "txn" and begin >= 0:
            self._sent.append((operation, run, begin))

    def answered(self, operation: ClientOperation, group: str, run: int, told: int, begins: bool) -> None:
        """The run goes on where it is told. `begins`: nothing was known of the processor."""
        began = [Mop("commit", INPUT, told, group, run)] if begins else []
        heard = [Mop("join", group, None, None, run), Mop("fetch-commit", INPUT, told, group)]
        operation.facts += [*began, *heard]
        if not begins and group not in self._groups:
            self._shared.perform([self._perhaps(*one, group) for one in self._sent])
        self._groups.add(group)

    def _perhaps(self, opening: ClientOperation, run: int, begin: int, group: str) -> ClientOperation:
        process = PROCESSES + self._shared.performed
        again = ClientOperation("txn", process, opening.target, opening.invoked_us)
        again.facts = [Mop("commit", INPUT, begin, group, run)]
        return again
