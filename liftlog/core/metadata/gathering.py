"""R29: a stream's sources are altered: which streams the names mean then, and which are remembered.

given       the stream that bears the name now: its id is written into the configuration (`origins`), as it
            may be younger than the copy. One of another cluster is named by its first answer, as ever
kept        it means what it has meant
taken away  what it meant stays written: given again, it goes on where it was. One that was removed since is
            forgotten, as its id is never given again (I1)
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from liftlog.core.metadata.elsewhere import identity, named_origin
from liftlog.core.metadata.limits import SOURCES_MAX
from liftlog.core.metadata.origins import origin_of, source_of, source_problem, sources_of
from liftlog.core.metadata.records import Records, StreamState
from liftlog.messages.copying import elsewhere
from liftlog.types import StreamConfig


def regathered(records: Records, stream: StreamState, config: StreamConfig) -> StreamConfig:
    """The configuration that it gets, with what its sources mean."""
    before, wanted = sources_of(stream.config), sources_of(config)
    if not wanted or wanted == before:
        return config
    known = () if stream.config.origins is UNSET else stream.config.origins
    far = [one for one in known if elsewhere(one[0]) is not None]
    near = dict.fromkeys([*(name for name, _ in known), *before, *wanted])
    said = [
        (name, meant)
        for name in near
        if elsewhere(name) is None and (meant := _meant(records, stream, name, wanted))
    ]
    return msgspec.structs.replace(config, origins=(*far, *said) or UNSET)


def _meant(records: Records, stream: StreamState, name: str, wanted: dict[str, str]) -> str:
    """What is to be written of a stream of this cluster; empty: nothing."""
    if name in wanted and name in sources_of(stream.config):
        return named_origin(stream.config, name)
    found = records.streams.get(name) if name in wanted else source_of(records, stream, name)
    return identity("", found.id) if found is not None else ""


def regathering_problem(records: Records, stream: StreamState, config: StreamConfig) -> str:
    """Why it cannot have these sources from now on; empty if it can."""
    before, wanted = sources_of(stream.config), sources_of(config)
    if not wanted or wanted == before:
        return ""
    for name in wanted:
        if name in before:
            continue
        if problem := source_problem(records, config, name):
            return problem
        found = records.streams.get(name)
        if found is not None and stream.id in _copied_by(records, found):
            return (
                f"source {name!r} copies {config.name!r}, itself or by way of others: messages would go "
                "round for ever; leave it out"
            )
    origins = () if config.origins is UNSET else config.origins
    if len({*wanted, *(name for name, _ in origins)}) > SOURCES_MAX:
        return (
            f"{SOURCES_MAX} sources at most, and those that were taken away count, as long as they are "
            "there: how far they were copied is remembered; create another stream"
        )
    return ""


def _copied_by(records: Records, copy: StreamState) -> set[int]:
    """The ids of all streams of which something comes to this one, and its own."""
    found, more = set[int](), [copy]
    while more:
        one = more.pop()
        if one.id not in found:
            found.add(one.id)
            more += _copied(records, one)
    return found


def _copied(records: Records, copy: StreamState) -> Iterator[StreamState]:
    """What it copies of this cluster."""
    names = sources_of(copy.config)
    origins = [origin_of(records, copy)] if copy.config.mirrors else []
    for one in (*origins, *(source_of(records, copy, name) for name in names)):
        if one is not None:
            yield one
