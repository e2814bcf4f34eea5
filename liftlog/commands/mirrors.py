"""What commands say of copies: `liftlog stream lag`, how far a mirror is behind its origin (R28), or a stream
behind its sources (R29).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from liftlog.client.client import Client
from liftlog.client.reader import EARLIEST, NEW
from liftlog.commands.common import add_client_options, connect, print_json, print_table, run
from liftlog.core.metadata.elsewhere import place_key
from liftlog.core.metadata.origins import is_origin, is_source, source_standstill, sources_of, standstill
from liftlog.messages import MATCHING_SUBJECTS, StreamInfo, SubjectReply
from liftlog.messages.copying import elsewhere, start_in
from liftlog.options.copied import positions_in
from liftlog.types import LiftlogError, StreamConfig


class Lag(NamedTuple):
    """Of one partition: where its mirror ends, and where it ends itself; in this order they were asked. -1:
    it is of another cluster, and the mirror's leader hears nothing of it.
    """

    partition: int
    end: int
    origin_end: int

    @property
    def behind(self) -> int:
        """So many offsets the mirror has not, or had not when it was asked; -1: not known."""
        return max(0, self.origin_end - self.end) if self.origin_end >= 0 else -1


def add_mirror_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """What is about copies alone."""
    lag = actions.add_parser("lag", help="how many messages a mirror, or a stream with sources, is behind")
    lag.add_argument("name", metavar="NAME")
    add_client_options(lag)
    lag.set_defaults(run=lambda args: run(_lag(args)))


async def _end(client: Client, stream: StreamInfo, partition: int) -> int:
    return await client.reader(stream, partition).offset(NEW)


class Lags(NamedTuple):
    """Of a mirror; `problem`: why nothing comes, empty if it does."""

    origin: str
    partitions: list[Lag]
    problem: str


async def lags(client: Client, name: str) -> Lags:
    """How far a mirror is behind its origin, by partition. Raises LiftlogError."""
    mirror = await client.stream(name)
    if elsewhere(mirror.config.mirrors) is not None:
        return await _lags_elsewhere(client, mirror)
    if not mirror.config.mirrors:
        raise LiftlogError(f"stream '{name}' is no mirror, nor has it sources: liftlog stream info {name}")
    there = {info.config.name: info for info in await client.streams()}
    origin = there.get(mirror.config.mirrors)
    if origin is None or not is_origin(mirror.id, origin.id):
        raise LiftlogError(f"mirror '{name}': {standstill(mirror.config, None)}")
    found = []
    for partition in range(len(mirror.partitions)):
        end = await _end(client, mirror, partition)
        found.append(Lag(partition, end, await _end(client, origin, partition)))
    problem = standstill(mirror.config, origin.config) or left_out(mirror.config, origin.config)
    return Lags(origin.config.name, found, problem)


def left_out(copy: StreamConfig, origin: StreamConfig) -> str:
    """Of which partitions nothing is copied, since the origin got them later; empty: of none."""
    first, end = copy.partitions, origin.partitions
    if end <= first:
        return ""
    which = f"partition {first}" if end == first + 1 else f"partitions {first} to {end - 1}"
    remedy = f"liftlog stream alter {copy.name} --partitions {end}"
    return f"of {which}, which '{origin.name}' has got beside; to copy that too: {remedy}"


async def _lags_elsewhere(client: Client, mirror: StreamInfo) -> Lags:
    """The same of an origin in another cluster, of which only the mirror's leaders hear."""
    origin, found, problems = mirror.config.mirrors, [], list[str]()
    for partition in range(len(mirror.partitions)):
        told = await _told(client, mirror, partition)
        end = await _end(client, mirror, partition)
        behind = dict(told.behind).get(origin)
        found.append(Lag(partition, end, -1 if behind is None else max(end, told.hw + behind)))
        problems += [told.problem] if told.problem else []
    return Lags(origin, found, "; ".join(dict.fromkeys(problems)))


async def _lag(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        config = (await client.stream(args.name)).config
        if config.sources is not UNSET:
            print_source_lags(args, await source_lags(client, args.name))
            return 0
        told = await lags(client, args.name)
    if args.json:
        partitions = [{**one._asdict(), "behind": one.behind} for one in told.partitions]
        print_json(
            {"mirror": args.name, "origin": told.origin, "partitions": partitions, "problem": told.problem}
        )
    else:
        rows: list[list[object]] = [
            [one.partition, one.end, _known(one.origin_end), _known(one.behind)] for one in told.partitions
        ]
        print_table(rows, ["PARTITION", "END", f"END OF {told.origin}", "BEHIND"])
        if told.problem:
            print(f"nothing is copied: {told.problem}")
    return 0


async def with_partitions(client: Client, config: StreamConfig) -> StreamConfig:
    """A copy has as many partitions as what it copies, if nothing else was said."""
    names = [config.mirrors] if config.mirrors else list(sources_of(config))
    names = [name for name in names if elsewhere(name) is None]
    if not names or config.partitions != 1:
        return config
    origin = (await client.stream(names[0])).config
    config = msgspec.structs.replace(config, partitions=origin.partitions)
    return msgspec.structs.replace(config, first_offset=origin.first_offset) if config.mirrors else config


def copies(config: StreamConfig) -> Iterator[str]:
    """What it copies, in lines for people."""
    lag = f"how far it is: liftlog stream lag {config.name}"
    if config.mirrors:
        filter = config.mirror_filter or ""
        that = f"'{config.mirrors}'{filter and f' ({filter})'}"
        yield f"mirror of {that}: it takes nothing else; {lag}"
    if sources := sources_of(config):
        those = ", ".join(f"'{name}'{filter and f' ({filter})'}" for name, filter in sources.items())
        yield f"sources {those}: it takes nothing else; {lag}"
    for name, start in config.starts or ():
        yield f"begins with '{name}' from {start}"


class SourceLag(NamedTuple):
    """Of one partition of a source. `next`: behind what the copy's last message says to be copied; -1: that
    one was deleted, so that only its leader knows. `problem`: why nothing comes.
    """

    source: str
    filter: str
    partition: int
    next: int
    end: int
    problem: str

    @property
    def behind(self) -> int:
        """So many offsets at most were not looked at; -1: not known."""
        return max(0, self.end - self.next) if self.next >= 0 else -1


async def source_lags(client: Client, name: str) -> list[SourceLag]:
    """How far a stream is behind its sources, by their partitions. Raises LiftlogError."""
    copy = await client.stream(name)
    there = {info.config.name: info for info in await client.streams()}
    found = []
    for partition in range(len(copy.partitions)):
        places = await _places(client, copy, partition)
        heard, why = await _heard(client, copy, partition)
        for source, filter in sources_of(copy.config).items():
            if elsewhere(source) is not None:
                behind, place = (
                    heard.get(source, -1),
                    (places or {}).get(place_key(copy.config, source) or 0, 0),
                )
                next = place if places is not None and behind >= 0 else -1
                told = why if behind < 0 else ""
                found.append(SourceLag(source, filter, partition, next, next + max(0, behind), told))
                continue
            info = there.get(source)
            if info is not None and not is_source(copy.id, copy.config, source, info.id):
                info = None
            problem = source_standstill(copy.config, source, info.config if info is not None else None)
            if info is not None and not problem:
                problem = left_out(copy.config, info.config)
            end = await _end(client, info, partition) if info is not None else 0
            place = -1 if places is None else places.get(info.id, 0) if info is not None else 0
            place = max(place, min(start_in(copy.config, source).offset, end)) if place >= 0 else place
            found.append(SourceLag(source, filter, partition, place, end, problem))
    return found


async def _heard(client: Client, copy: StreamInfo, partition: int) -> tuple[dict[str, int], str]:
    """By sources of which its leader hears, how far behind they it is, and why it does not hear of others;
    asked if any is of another cluster, of which nobody else hears.
    """
    if not any(elsewhere(name) is not None for name in sources_of(copy.config)):
        return {}, ""
    told = await _told(client, copy, partition)
    return dict(told.behind), told.problem


async def _told(client: Client, copy: StreamInfo, partition: int) -> SubjectReply:
    """What a copy's leader says, and with it what it hears of what is copied."""
    return await client.reader(copy, partition).ask_subjects(MATCHING_SUBJECTS, ">", limit=1)


async def _places(client: Client, copy: StreamInfo, partition: int) -> dict[int, int] | None:
    """What its last message says, of each source, to be next; None: it was deleted."""
    end, reader = await _end(client, copy, partition), client.reader(copy, partition)
    if end <= await reader.offset(EARLIEST):
        return {}  # Nothing was copied yet: the last message stays.
    records = await reader.fetch(end - 1)
    return positions_in(records[0].headers) if records else None


def print_source_lags(args: argparse.Namespace, lags: list[SourceLag]) -> None:
    """For programs, or for people."""
    if args.json:
        sources = [{**one._asdict(), "behind": one.behind} for one in lags]
        print_json({"stream": args.name, "sources": sources})
        return
    rows: list[list[object]] = [
        [one.source, one.filter or ">", one.partition, _known(one.next), _known(one.end), _known(one.behind)]
        for one in lags
    ]
    print_table(rows, ["SOURCE", "FILTER", "PARTITION", "NEXT", "END", "BEHIND"])
    for problem in dict.fromkeys(one.problem for one in lags if one.problem):
        print(f"nothing is copied: {problem}")


def _known(number: int) -> object:
    return number if number >= 0 else "?"
