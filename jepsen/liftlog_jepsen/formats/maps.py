"""Histories that are maps, one for each event: Jepsen's EDN and elle-cli's JSON.

What an event cannot hold goes into `extra`, under the name it has in the map, so that `write_edn` loses
nothing. Two entries of `extra` are ours, with a space before their names, which no keyword has: `WITHOUT`
lists what the map does not say at all, `TAG` is the tag in front of a record, such as `jepsen.history.Op`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from liftlog_jepsen.events import FAIL, INFO, INVOKE, OK, BadHistory, Event
from liftlog_jepsen.formats import edn
from liftlog_jepsen.formats.edn import Keyword, Tagged, cut
from liftlog_jepsen.formats.options import Options

WITHOUT, TAG = " without", " tag"
TYPES = {kind: kind for kind in (INVOKE, OK, FAIL, INFO)}
TRANSACTION = Keyword("txn")
"""The function of an event that names none: only histories of transactions leave it out."""
_NOBODY = -1
_MISSING = object()


def read_edn(text: str, source: str, options: Options) -> list[Event]:
    """Events of maps on their own, or of one vector or list of maps."""
    values = edn.read_all(text, source)
    depth = 0
    if len(values) == 1 and isinstance(values[0], list | tuple) and not isinstance(values[0], Tagged):
        values, depth = list(values[0]), 1

    def where(number: int) -> str:
        return f"{source} line {edn.line_of(text, number, depth)}"

    events = []
    for number, value in enumerate(values):
        tag = None
        if isinstance(value, Tagged):
            tag, value = value
        try:
            if not isinstance(value, dict):
                _fail("a map {:type …, :process …}", value)
            if set(map(type, value)) - {Keyword}:
                odd = next(key for key in value if type(key) is not Keyword)
                _fail("keywords as the names of an event", odd)
            events.append(_event(value, tag))
        except _Wrong as wrong:
            raise BadHistory(f"{where(number)}: {wrong}") from None
    return seat(events, where)


def read_kv(text: str, source: str, options: Options) -> list[Event]:
    """Maps that each name a `:key`, as Porcupine's key-value histories do."""
    events = read_edn(text, source, options)
    for number, event in enumerate(events):
        if event.key is None and isinstance(event.process, int):
            raise BadHistory(
                f"{source}: expected a :key in each event, found none in event {number} ({event.f})"
            )
    return events


def read_json(text: str, source: str, options: Options) -> list[Event]:
    """Events of an array of objects, or of one object a line."""
    events = []
    lines: list[int] | None
    if text.lstrip().startswith("["):
        values, lines = _load(text, source, 0), None
    else:
        numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        values = [_load(line, source, number - 1) for number, line in numbered]
        lines = [number for number, _ in numbered]

    def where(number: int) -> str:
        return f"{source} line {lines[number] if lines else _json_line(text, number)}"

    for number, value in enumerate(values):
        try:
            if not isinstance(value, dict):
                raise _Wrong(
                    f'expected an object {{"type": …, "process": …}}, found {cut(json.dumps(value))}'
                )
            fields: dict[Any, Any] = {Keyword(name): _from_json(each) for name, each in value.items()}
            if isinstance(fields.get("type"), str):
                fields[Keyword("type")] = Keyword(fields["type"])
            events.append(_event(fields, None))
        except _Wrong as wrong:
            raise BadHistory(f"{where(number)}: {wrong}") from None
    return seat([_with_keywords(event) for event in events], where)


def write_edn(events: Iterable[Event], vector: bool = False) -> str:
    """The events as EDN, a map a line, or one vector of them. `read_edn` gives the same events back.

    Raises BadHistory for a value that EDN cannot say.
    """
    lines = [_write_event(event) for event in events]
    if vector:
        return f"[{chr(10).join(lines)}]\n".replace("\n", "\n ", max(0, len(lines) - 1))
    return "".join(f"{line}\n" for line in lines)


def seat(events: list[Event], where: Callable[[int], str]) -> list[Event]:
    """The events with a process for those that say none.

    An invocation takes the smallest number that is free. A completion belongs to the one open invocation that
    has its function and asks what it answers; if none does, to the only one that has its function. If several
    have, nobody can tell.
    """
    if not any(_nameless(event) for event in events):
        return events
    taken = {event.process for event in events if not _nameless(event)}
    open_ones: dict[int, Event] = {}
    seated = []
    for number, event in enumerate(events):
        if _nameless(event):
            if event.type == INVOKE:
                process = 0
                while process in taken or process in open_ones:
                    process += 1
                open_ones[process] = event
            else:
                alike = [process for process, asked in open_ones.items() if _alike(asked, event)]
                fitting = [process for process in alike if _fits(open_ones[process], event)] or alike
                if len(fitting) != 1:
                    raise BadHistory(
                        f"{where(number)}: expected one open {event.f} that this {event.type} may belong to, "
                        f"found {len(fitting)}; name the process of each event"
                    )
                process = fitting[0]
                del open_ones[process]
            event = event._replace(process=process)
        seated.append(event)
    return seated


def _nameless(event: Event) -> bool:
    return event.process == _NOBODY and any(
        (name == WITHOUT and "process" in value) or name == "process" for name, value in event.extra
    )


def _alike(asked: Event, event: Event) -> bool:
    return asked.f == event.f and asked.key == event.key


def _fits(asked: Event, event: Event) -> bool:
    if event.type != OK and event.value is None:
        return True
    return _answers(asked.value, event.value)


def _answers(asked: Any, said: Any) -> bool:
    """Whether a value may answer another, which has nil where it asks: `[[:r x 1]]` to `[[:r x nil]]`."""
    if asked is None:
        return True
    if isinstance(asked, list | tuple) and isinstance(said, list | tuple):
        return len(asked) == len(said) and all(map(_answers, asked, said))
    return bool(asked == said)


class _Wrong(Exception):
    """What was expected of an event, and what it is."""


def _fail(expected: str, found: Any) -> NoReturn:
    if found is _MISSING:
        raise _Wrong(f"expected {expected}, found none")
    raise _Wrong(f"expected {expected}, found {cut(edn.write(found))}")


def _event(fields: dict[Any, Any], tag: str | None) -> Event:
    rest = dict(fields)
    extra: list[tuple[str, Any]] = []
    absent = [name for name in ("process", "f", "value") if name not in rest]
    if tag is not None:
        extra.append((TAG, tag))
    if absent:
        extra.append((WITHOUT, tuple(absent)))
    said = rest.pop("type", _MISSING)
    kind = TYPES.get(said) if isinstance(said, str) else None
    if kind is None or type(said) is not Keyword:  # a string "ok" is no :ok
        _fail("a :type of :invoke, :ok, :fail or :info", said)
    process = rest.pop("process", None)
    if process is None:
        if "process" not in absent:
            extra.append(("process", None))
        process = _NOBODY
    elif not isinstance(process, int | str) or isinstance(process, bool):
        _fail("a :process that is a number or a name such as :nemesis", process)
    f = rest.pop("f", TRANSACTION)
    if not isinstance(f, str):
        _fail("a function such as :f :read", f)
    value = rest.pop("value", None)
    places = []
    for name in ("time", "index"):
        place = rest.get(name, _MISSING)
        if type(place) is int and place >= 0:
            del rest[name]
            places.append(place)
        else:
            places.append(-1)
    key, error = (rest.pop(name) if rest.get(name) is not None else None for name in ("key", "error"))
    extra.extend(rest.items())
    return Event(process, kind, f, value, key, places[0], places[1], error, tuple(extra))


def _write_event(event: Event) -> str:
    extra = dict(event.extra)
    without: Sequence[str] = extra.pop(WITHOUT, ())
    tag = extra.pop(TAG, None)
    fields: dict[Any, Any] = {}
    if event.number >= 0:
        fields["index"] = event.number
    if event.time >= 0:
        fields["time"] = event.time
    fields["type"] = Keyword(event.type)
    if "process" not in without and "process" not in extra:
        fields["process"] = event.process
    if "f" not in without:
        fields["f"] = event.f
    if event.key is not None:
        fields["key"] = event.key
    if "value" not in without:
        fields["value"] = event.value
    if event.error is not None:
        fields["error"] = event.error
    fields.update(extra)
    text = edn.write({Keyword(name): value for name, value in fields.items()})
    return text if tag is None else f"#{tag}{text}"


def _load(text: str, source: str, lines_before: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadHistory(
            f"{source} line {lines_before + error.lineno}, column {error.colno}: expected JSON, "
            f"found {cut(text[error.pos : error.pos + 20]) or 'the end'} ({error.msg})"
        ) from None
    except (ValueError, RecursionError):
        found = "a number or brackets that are too long or too deep"
        raise BadHistory(f"{source} line {lines_before + 1}: expected JSON, found {found}") from None


def _json_line(text: str, number: int) -> int:
    """The line of element `number` of the array that is `text`."""
    decoder = json.JSONDecoder()
    position = text.index("[") + 1
    for _ in range(number + 1):
        while text[position] in " \t\r\n,":
            position += 1
        start = position
        position = decoder.raw_decode(text, position)[1]
    return text.count("\n", 0, start) + 1


def _from_json(value: Any) -> Any:
    """Numbers that JSON had to write as texts, because they are keys, become numbers again."""
    if isinstance(value, list):
        return [_from_json(each) for each in value]
    if isinstance(value, dict):
        return {_key(name): _from_json(each) for name, each in value.items()}
    return value


def _key(name: str) -> Any:
    try:
        return int(name) if str(int(name)) == name else name
    except ValueError:
        return name


def _with_keywords(event: Event) -> Event:
    """Names are keywords, so that the export is what Jepsen would have written."""
    value = event.value
    if event.f == TRANSACTION and isinstance(value, list):
        value = [_micro_operation(each) for each in value]
    process = Keyword(event.process) if isinstance(event.process, str) else event.process
    return event._replace(f=Keyword(event.f), process=process, value=value)


def _micro_operation(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [Keyword(value[0]), *value[1:]]
    return value
