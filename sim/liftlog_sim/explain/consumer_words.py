"""What clients ask about consumers, and are told, in words, from the plain data of a trace (`runs/trace.py`).

Each comes with whom it is about: the number of a consumer, or its name where no number is said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fields = dict[str, Any]
Who = tuple[str, ...]

FEW_RUNS = 3


def asked(name: str, request: Fields) -> tuple[str, Who] | None:
    """What a client wants, as the end of "is asked by a client to"; None if it is not about consumers."""
    say = _ASKED.get(name)
    if say is None:
        return None
    who = str(request["consumer"]) if "consumer" in request else request.get("name", "")
    return say(request), (who,) if who else ()


def told(name: str, reply: Fields) -> list[tuple[str, Who]]:
    """What a client is told, each as the end of "tells a client"; empty if it is not about consumers."""
    if name == "PullReply":
        who = str(reply["consumer"])
        if not reply["runs"]:
            return [(f"that nothing came for consumer {who} in time", (who,))]
        how = f", as {reply['recorded']} of the journal says" if reply["recorded"] else " without a record"
        return [(f"to take {_runs(reply['runs'])} for consumer {who}{how}", (who,))]
    if name == "SettledReply":
        who = str(reply["consumer"])
        unknown = f"; of {_runs(reply['unknown'])} it knows no delivery" if reply["unknown"] else ""
        return [(f"that what it said to consumer {who} stands below {reply['journal']}{unknown}", (who,))]
    if name == "ConsumersReply":
        return [_one(fields) for _, fields in reply["consumers"]]
    return []


def _one(info: Fields) -> tuple[str, Who]:
    to_come = "nobody knows how many" if info["num_pending"] < 0 else info["num_pending"]
    text = (
        f"of consumer {info['number']} ({info['name']!r}, {_patterns(info['config'][1])}): position "
        f"{info['position']}, floor {info['floor']}, {info['ack_pending']} pending, {to_come} to come"
    )
    return text, (str(info["number"]), info["name"])


def _patterns(config: Fields) -> str:
    patterns = [each for each in (config["filter"], *config["filters"]) if each]
    return f"filtered by {', '.join(patterns)}" if patterns else "not filtered"


def _runs(runs: list[Any]) -> str:
    spans = [f"{run[0]}" if run[1] == 1 else f"{run[0]}..{run[0] + run[1] - 1}" for run in runs[:FEW_RUNS]]
    more = f" and {len(runs) - FEW_RUNS} more" if len(runs) > FEW_RUNS else ""
    noun = "offset" if spans == [f"{runs[0][0]}"] and not more else "offsets"
    return f"{noun} {', '.join(spans)}{more}"


def _creates(request: Fields) -> str:
    config = request["config"][1]
    return f"create the consumer {request['name']!r}, {_patterns(config)}, from {config['deliver']!r}"


def _resets(request: Fields) -> str:
    where = f"offset {request['offset']}" if request["offset"] >= 0 else "its floor"
    return f"reset the consumer {request['name']!r} to {where}"


_ASKED: dict[str, Callable[[Fields], str]] = {
    "CreateConsumerRequest": _creates,
    "AlterConsumerRequest": lambda f: f"have consumer {f['consumer']} {_patterns(f['config'][1])}",
    "DeleteConsumerRequest": lambda f: f"delete the consumer {f['name']!r}",
    "ResetConsumerRequest": _resets,
    "PullRequest": lambda f: f"give consumer {f['consumer']} up to {f['messages']} messages",
    "SettleRequest": lambda f: f"take {_runs(f['runs'])} of consumer {f['consumer']} for {f['how']}",
    "UnpinRequest": lambda f: f"unpin whoever consumer {f['consumer']} is pinned to",
}
