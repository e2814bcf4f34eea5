"""The format of a scenario file, and what makes one a good one.

The Structs below are the format: they read a file, check types and ranges, and give the JSON schema
(`liftlog sim scenario --schema`). What one field cannot know, that a stream exists or a node has a number, is
checked by `problems`. Every error names the file, the line or the field, and what to do.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from liftlog.core.guards import GUARDS
from liftlog.types import LiftlogError
from liftlog_sim.audit.required import MARKS
from liftlog_sim.chance.fault_plan import KINDS, TARGETS
from liftlog_sim.profiles.mutants import mutant_named

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"
DOCUMENT = "docs/simulator.md"

Ms = Annotated[int, Meta(ge=0, le=600_000, description="milliseconds of simulated time")]
NodeNumber = Annotated[int, Meta(ge=1, le=9)]
NodeName = Annotated[
    NodeNumber | Literal["any", "controller", "leader", "follower"],
    Meta(description="whom it strikes: a node's number, or who that is when it happens"),
]
Kind = Annotated[str, Meta(description="one of the faults of 'liftlog sim run --faults'")]
Text = Annotated[str, Meta(min_length=1, max_length=2000)]


class StreamPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream that exists before anything else happens."""

    name: Text
    subject: str = ""
    partitions: Annotated[int, Meta(ge=1, le=20)] = 1
    replicas: Annotated[int, Meta(ge=1, le=9)] = 3
    min_insync: Annotated[int, Meta(ge=0, le=9, description="0 = what liftlog chooses")] = 0


class PublishPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` messages every `every_ms`; `until_ms` 0 = until the fault phase ends."""

    stream: Text
    partition: Annotated[int, Meta(ge=0)] = 0
    from_ms: Ms = 3000
    every_ms: Annotated[int, Meta(ge=1, le=600_000)] = 500
    until_ms: Ms = 0
    count: Annotated[int, Meta(ge=1, le=1000)] = 3
    reply: bool = True


class ReadPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One reader. `ask_latest`: which share of its questions is for the latest offset."""

    every_ms: Annotated[int, Meta(ge=1, le=600_000, description="on average")] = 700
    ask_latest: Annotated[float, Meta(ge=0, le=1)] = 0.2


class FaultPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault. `links`: for "partition", exactly these directed links between nodes are cut."""

    at_ms: Ms
    kind: Kind
    node: NodeName = "any"
    for_ms: Ms = 1000
    links: tuple[tuple[NodeNumber, NodeNumber], ...] = ()


class RequestPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client asks `node` for something, and waits for `wait_ms`: to create or delete a stream, to move the
    copies of its first partition to the nodes `to`, or that the node `who` retires.
    """

    at_ms: Ms
    kind: Literal["create", "delete", "move", "retire"]
    stream: str = ""
    to: tuple[NodeNumber, ...] = ()
    who: Annotated[int, Meta(ge=0, le=9)] = 0
    node: NodeNumber = 1
    wait_ms: Ms = 8000


class ExpectPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must come of it, beside that no invariant is violated and the cluster is whole in the end.

    `acked`: least number of acknowledged messages; `at_least`: counters; `marks`: rule cases to be reached;
    `never`: those that must not be; `streams`: all that there are in the end, empty = whichever.
    """

    acked: Annotated[int, Meta(ge=0)] = 1
    at_least: dict[str, int] = {}
    marks: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()


class FailPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With this bug planted it fails: an invariant is violated, or what is expected does not come."""

    mutant: Text
    invariant: Annotated[str, Meta(description="empty = it only ends otherwise than expected")] = ""


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster, a load, faults at stated times, and what must come of it."""

    title: Text
    name: str = ""
    """The file's, if not stated."""
    story: str = ""
    """What it sets up, in words."""
    why: str = ""
    """Why what is expected must hold."""
    pitfall: str = ""
    """The mistake of the field that it guards against, and where that was met."""
    nodes: Annotated[int, Meta(ge=1, le=9)] = 3
    duration_ms: Annotated[int, Meta(ge=1000, le=600_000, description="the fault phase")] = 15_000
    tick_ms: Annotated[int, Meta(ge=10, le=1000)] = 100
    stream: tuple[StreamPart, ...] = (StreamPart("orders"),)
    publish: tuple[PublishPart, ...] = (PublishPart("orders"),)
    read: ReadPart = ReadPart()
    fault: tuple[FaultPart, ...] = ()
    request: tuple[RequestPart, ...] = ()
    expect: ExpectPart = ExpectPart()
    fails_with: tuple[FailPart, ...] = ()


def names() -> list[str]:
    """All scenarios that come with liftlog, by name."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Scenario:
    """Read a scenario by its name or path. Raises LiftlogError: where it is wrong, and what to do."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        raise LiftlogError(f"there is no scenario '{name}'; choose from {', '.join(names())}") from None
    except UnicodeDecodeError as error:
        raise LiftlogError(f"scenario {path} is not UTF-8 text ({error.reason}); write it anew") from None
    try:
        scenario = msgspec.convert({"name": path.stem, **tomllib.loads(text)}, Scenario)
    except tomllib.TOMLDecodeError as error:
        raise LiftlogError(f"scenario {path} is not TOML: {error}; mend that line") from None
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        place = where.strip("`").removeprefix("$").removeprefix(".")
        unknown = re.search(r"unknown field `(\w+)`", what)
        field = f"{place}.{unknown[1]}".strip(".") if unknown else place
        raise _wrong(path, text, field, what[:1].lower() + what[1:]) from None
    for field, problem in problems(scenario):
        raise _wrong(path, text, field, problem)
    return scenario


def _wrong(path: Path, text: str, field: str, problem: str) -> LiftlogError:
    line = line_of(text, field)
    where = f"line {line}, " if line else ""
    subject = f"{field}: " if field else ""
    return LiftlogError(
        f"scenario {path}, {where}{subject}{problem}; the format is told by 'liftlog sim scenario --schema' "
        f"and in {DOCUMENT}"
    )


def problems(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """(field, what is wrong with it and what may stand there) of what no single type can say."""
    streams = {part.name: part for part in scenario.stream}
    for place, stream in enumerate(scenario.stream):
        if stream.replicas > scenario.nodes:
            text = f"{stream.replicas} replicas on {scenario.nodes} nodes; ask for less"
            yield f"stream[{place}].replicas", text
    for place, publish in enumerate(scenario.publish):
        target = streams.get(publish.stream)
        if target is None:
            text = f"there is no stream '{publish.stream}'; choose from {', '.join(streams)}"
            yield f"publish[{place}].stream", text
        elif publish.partition >= target.partitions:
            text = f"stream '{target.name}' has partitions 0 to {target.partitions - 1}"
            yield f"publish[{place}].partition", text
    for place, fault in enumerate(scenario.fault):
        yield from _fault_problems(scenario, fault, f"fault[{place}]")
    for place, request in enumerate(scenario.request):
        yield from _request_problems(scenario, request, f"request[{place}]")
    known = {*MARKS, *GUARDS}
    for field, marks in (("marks", scenario.expect.marks), ("never", scenario.expect.never)):
        for mark in marks:
            if mark not in known:
                text = f"there is no rule case '{mark}'; 'liftlog sim sweep' prints those there are"
                yield f"expect.{field}", text
    for place, fails in enumerate(scenario.fails_with):
        try:
            mutant_named(fails.mutant)
        except LiftlogError as error:
            yield f"fails_with[{place}].mutant", str(error)


def _fault_problems(scenario: Scenario, fault: FaultPart, place: str) -> Iterator[tuple[str, str]]:
    if fault.kind not in KINDS:
        yield f"{place}.kind", f"there is no fault '{fault.kind}'; choose from {', '.join(KINDS)}"
    numbers = [fault.node] if isinstance(fault.node, int) else []
    numbers += [number for link in fault.links for number in link]
    for number in numbers:
        if number > scenario.nodes:
            named = ", ".join(f"'{name}'" for name, _ in TARGETS)
            text = f"there is no node {number}; choose from 1 to {scenario.nodes}, or {named}"
            yield f"{place}.node", text
    if fault.at_ms >= scenario.duration_ms:
        text = f"the fault phase ends at {scenario.duration_ms} ms; strike before, or lengthen it"
        yield f"{place}.at_ms", text


def _request_problems(scenario: Scenario, request: RequestPart, place: str) -> Iterator[tuple[str, str]]:
    named = {"stream": bool(request.stream), "to": bool(request.to), "who": bool(request.who)}
    wanted = {"move": ("stream", "to"), "retire": ("who",)}.get(request.kind, ("stream",))
    for field, stated in named.items():
        if stated and field not in wanted:
            yield f"{place}.{field}", f"it means nothing to '{request.kind}'; leave it out"
        if not stated and field in wanted:
            yield f"{place}.kind", f"'{request.kind}' needs {' and '.join(f'`{name}`' for name in wanted)}"
    streams = [stream.name for stream in scenario.stream]
    if request.kind == "move" and request.stream and request.stream not in streams:
        text = f"no stream '{request.stream}' is there from the beginning; choose from {', '.join(streams)}"
        yield f"{place}.stream", text
    numbers = {"node": (request.node,), "to": request.to, "who": (request.who,)}
    for field, those in numbers.items():
        for number in those:
            if number > scenario.nodes:
                what = f"node {number}{' to ask' if field == 'node' else ''}"
                yield f"{place}.{field}", f"there is no {what}; choose from 1 to {scenario.nodes}"
    if len(set(request.to)) < len(request.to):
        yield f"{place}.to", "a node is named twice; each has one copy"


def line_of(text: str, field: str) -> int:
    """The line of a field such as `fault[1].kind`, from 1 on; of its table if it is not there; 0: unknown."""
    found = re.match(r"(\w+)(?:\[(\d+)\])?\.?(\w*)", field)
    if not found:
        return 0
    table, ordinal, key = found[1], found[2], found[3]
    lines = text.splitlines()
    if ordinal is None and not key:
        table, key = "", table
    start = 0
    if table:
        heads = [place for place, line in enumerate(lines) if re.match(rf"\s*\[\[?\s*{table}\s*\]", line)]
        if len(heads) <= int(ordinal or 0):
            return 0
        start = heads[int(ordinal or 0)] + 1
    for place in range(start, len(lines)):
        if re.match(r"\s*\[", lines[place]):
            break
        if key and re.match(rf"\s*{key}\s*=", lines[place]):
            return place + 1
    return start


def schema() -> dict[str, Any]:
    """The JSON schema of a scenario, as an editor reads it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A liftlog scenario",
        **msgspec.json.schema(Scenario),
    }
