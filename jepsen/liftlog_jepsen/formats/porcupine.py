"""Porcupine's `Operation` and `Event` as JSON: an array, or one object a line.

    {"ClientId": 0, "Input": {"op": "put", "key": "x", "value": 1}, "Call": 10, "Output": null, "Return": 20}
    {"ClientId": 0, "Kind": 0, "Value": {"op": "get", "key": "x"}, "Id": 7}      Kind 0 is a call, 1 a return

Go programs choose the fields of their inputs. Here the function is `f`, `op`, `Op`, `type` or `Type`, and
`key` and `value` (in either case) are what they say; an input without them is itself the value of the
function `op`.
"""

from __future__ import annotations

import json
from typing import Any

from liftlog_jepsen.events import INVOKE, OK, BadHistory, Event, order_intervals
from liftlog_jepsen.formats.edn import cut
from liftlog_jepsen.formats.lines import Processes, broken, numbered
from liftlog_jepsen.formats.options import Options

EXPECTED = "ClientId, Input, Call, Output and Return, or ClientId, Kind, Value and Id"
_FUNCTIONS = ("f", "op", "Op", "type", "Type")
_CALL, _RETURN = (0, "Call", "call", "CallEvent"), (1, "Return", "return", "ReturnEvent")


def read(text: str, source: str, options: Options) -> list[Event]:
    objects = _objects(text, source)
    processes = Processes()
    if all(each.keys() >= {"Input", "Call", "Output", "Return"} for _, each in objects):
        return _operations(objects, source, options, processes)
    waiting: dict[Any, tuple[int, str, Any]] = {}
    busy: set[int] = set()
    events = []
    for number, each in objects:
        kind = each.get("Kind")
        if "Id" not in each or "Value" not in each or kind not in (*_CALL, *_RETURN):
            raise broken(source, number, EXPECTED, json.dumps(each))
        if kind in _CALL:
            if each["Id"] in waiting:
                raise broken(source, number, "an Id that is not in use", json.dumps(each))
            f, key, value = _input(each["Value"])
            process = processes.number(str(each.get("ClientId", 0)))
            process = processes.fresh() if process in busy else process
            busy.add(process)
            waiting[each["Id"]] = (process, f, key)
            events.append(Event(process, INVOKE, f, value, key))
            continue
        if each["Id"] not in waiting:
            raise broken(source, number, "the Id of a call", json.dumps(each))
        process, f, key = waiting.pop(each["Id"])
        busy.discard(process)
        events.append(Event(process, OK, f, _output(each["Value"]), key))
    return events


def _operations(
    objects: list[tuple[int, dict[str, Any]]], source: str, options: Options, processes: Processes
) -> list[Event]:
    found = []
    for number, each in objects:
        begin, end = each["Call"], each["Return"]
        if type(begin) is not int or type(end) is not int or end < begin:
            raise broken(source, number, "a time Call and a Return that is not before it", json.dumps(each))
        f, key, value = _input(each["Input"])
        # Clients may overlap themselves, and with closed intervals they do so whenever two times are equal.
        process = processes.fresh()
        asked = Event(process, INVOKE, f, value, key, begin, extra=(("client", each.get("ClientId")),))
        found.append((asked, begin, Event(process, OK, f, _output(each["Output"]), key, end), end))
    return order_intervals(found, options.intervals)


def _objects(text: str, source: str) -> list[tuple[int, dict[str, Any]]]:
    """The objects, each with the number of its line (of an array: of its place)."""
    try:
        if text.lstrip().startswith("["):
            found = list(enumerate(json.loads(text), 1))
        else:
            found = []
            for number, line in numbered(text, "//"):
                try:
                    found.append((number, json.loads(line)))
                except (ValueError, RecursionError):
                    raise broken(source, number, EXPECTED, line) from None
    except (ValueError, RecursionError) as error:
        raise BadHistory(f"{source}: expected a JSON array of operations, found {cut(str(error))}") from None
    for number, each in found:
        if not isinstance(each, dict):
            raise broken(source, number, EXPECTED, json.dumps(each))
    return found


def _input(said: Any) -> tuple[str, Any, Any]:
    """Function, key and value."""
    if isinstance(said, dict):
        for name in _FUNCTIONS:
            if isinstance(said.get(name), str):
                rest = {key: each for key, each in said.items() if key != name}
                key = rest.pop("key", rest.pop("Key", None))
                value = rest.pop("value", rest.pop("Value", None))
                return said[name].lower(), key, {**rest, "value": value} if rest else value
    return "op", None, said


def _output(said: Any) -> Any:
    if isinstance(said, dict) and len(said) == 1:
        ((name, value),) = said.items()
        if name in ("value", "Value"):
            return value
    return said
