"""examples/go, a publisher and a reader written from docs/wire.md, against real nodes."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import ROOT, Harness, Writer, child_environment, until, with_cluster
from tests.integration.nats_keys import Authority
from tests.integration.test_cold_reads import MESSAGES, destroy_record, fill, spans_sent
from tests.programs import GO, build_with_go, go

pytestmark = [pytest.mark.real, pytest.mark.slow]

EXAMPLE = ROOT / "examples" / "go"
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the two programs."""
    folder = tmp_path_factory.mktemp("go")
    build_with_go(EXAMPLE, f"{folder}/", "./publisher", "./reader")
    return folder


class Program:
    """A running publisher or reader, and the objects that it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.printed: list[dict[str, object]] = []
        self.complaint = ""
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._complain())]

    @classmethod
    async def start(cls, program: Path, *arguments: str) -> Program:
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(
                program,
                *arguments,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=child_environment(),
                limit=1 << 20,
            )
        )

    async def say(self, lines: Sequence[str]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        await self.process.stdin.drain()

    async def has_printed(self, count: int) -> None:
        async def reached() -> bool:
            return len(self.printed) >= count or self.process.returncode is not None

        await until(reached, f"{count} lines, beside {self.complaint!r}", DEADLINE_S)
        assert len(self.printed) >= count, self.complaint

    async def end(self) -> int:
        """Its exit code; nothing more comes from standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(DEADLINE_S):
            code = await self.process.wait()
            await asyncio.gather(*self._tasks)
        return code

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.printed.append(json.loads(line))

    async def _complain(self) -> None:
        assert self.process.stderr is not None
        self.complaint = (await self.process.stderr.read()).decode()


def values(printed: list[dict[str, object]]) -> dict[int, object]:
    """Offset -> value of what a reader has printed of one partition: without a gap, and nothing twice."""
    assert [record["offset"] for record in printed] == list(range(len(printed)))
    return {number: record["value"] for number, record in enumerate(printed)}


def test_the_page_s_examples_and_every_kind_of_batch(programs: Path) -> None:
    """The example's own tests."""
    done = go(EXAMPLE, "test", "./...")
    assert done.returncode == 0, done.stdout + done.stderr
    checked = go(EXAMPLE, "vet", "./...")
    assert checked.returncode == 0, checked.stderr
    gofmt = shutil.which("gofmt", path=Path(str(GO)).resolve().parent)
    assert gofmt is not None
    assert subprocess.run([gofmt, "-l", EXAMPLE], capture_output=True, text=True, check=True).stdout == ""


def test_R3_go_and_python_read_what_each_other_wrote_while_leaders_die(
    programs: Path, tmp_path: Path
) -> None:
    count, wave = 1200, 300

    async def story(harness: Harness) -> None:
        url = harness.cluster.nats_url
        await harness.client.create_stream(StreamConfig("orders", "orders", 1, 3))
        follower = await Program.start(
            programs / "reader", "-nats", url, "-follow", "-count", str(2 * count), "orders"
        )
        publisher = await Program.start(programs / "publisher", "-nats", url, "-subject", "orders", "-keyed")
        for at in range(0, count, wave):
            await publisher.say([f"k{tag % 7}\tgo-{tag}" for tag in range(at, at + wave)])
            await publisher.has_printed(at + wave // 2)
            if at == wave:
                dead = await harness.leader("orders")
                await harness.kill(dead)
        assert await publisher.end() == 0, publisher.complaint
        await harness.start(dead)
        await harness.in_sync("orders", 3)

        async with Writer(harness.client, "orders", "python") as writer:
            await writer.more_acks(50)
            again = await harness.leader("orders")
            await harness.kill(again)
            await writer.more_acks(count)
        await harness.start(again)
        await harness.in_sync("orders", 3)
        await harness.check_nothing_lost("orders", writer)

        acks = publisher.printed
        assert sorted(ack["line"] for ack in acks) == list(range(1, count + 1))  # type: ignore[type-var]
        assert {ack["outcome"] for ack in acks} == {"ok"}
        stored = await harness.read("orders")
        for ack in acks:
            assert stored[ack["offset"]] == f"go-{ack['line'] - 1}"  # type: ignore[index, operator]
        times = Counter(stored.values())
        once = [ack["line"] for ack in acks if ack["attempts"] == 1]
        assert once and {times[f"go-{line - 1}"] for line in once} == {1}  # type: ignore[operator]

        assert await follower.end() == 0, follower.complaint
        assert values(follower.printed).items() <= stored.items()
        reader = await Program.start(programs / "reader", "-nats", url, "orders")
        assert await reader.end() == 0, reader.complaint
        assert values(reader.printed) == stored
        python = harness.client.reader(await harness.client.stream("orders"))
        keys = {record.offset: record.key async for record in python.records("earliest")}
        assert {record["offset"]: record.get("key") for record in reader.printed} == {
            offset: None if key is None else key.decode() for offset, key in keys.items()
        }

    with_cluster(tmp_path, 3, story, refined=False)


def test_V6_go_reads_over_tls_and_says_what_is_wrong_with_it(programs: Path, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")

    async def story(harness: Harness) -> None:
        authority = harness.cluster.authority
        assert authority is not None
        await harness.client.create_stream(StreamConfig("orders", "orders", 1, 1))
        assert (await harness.client.publish("orders", b"x")).outcome == "ok"
        read = ("-nats", harness.cluster.nats_url)
        reader = await Program.start(programs / "reader", *read, "-tls-ca", str(authority.ca_file), "orders")
        assert await reader.end() == 0, reader.complaint
        assert values(reader.printed) == {0: "x"}
        for options, words in (
            ((), "it takes connections with TLS only: name the CA's file with -tls-ca"),
            (("-tls-ca", str(other.ca_file)), "certificate signed by unknown authority"),
            (("-tls-ca", "/none"), "the CA's certificate cannot be read"),
        ):
            started = await Program.start(programs / "reader", *read, *options, "orders")
            assert await started.end() == 2
            assert words in started.complaint and started.complaint.count("\n") == 1

    with_cluster(tmp_path / "cluster", 1, story, refined=False, tls=True)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_records_of_several_partitions_are_read_without_nats(
    codec: str, programs: Path, tmp_path: Path
) -> None:
    """One partition is filled message by message, the other one in batches (L8)."""

    async def story(harness: Harness) -> None:
        client, cluster = harness.client, harness.cluster
        await client.create_stream(StreamConfig("packed", "packed", 2, 3, codec=codec, segment_bytes=65536))
        padding = "much of the same " * 60
        acks: dict[str, dict[int, str]] = {}
        for subject, batch in (("packed", 1), ("packed.1", 50)):
            options = ["-nats", cluster.nats_url, "-subject", subject, "-batch", str(batch)]
            publisher = await Program.start(programs / "publisher", *options)
            lines = [f"{subject} {number} {padding}" for number in range(500)]
            await publisher.say(lines)
            assert await publisher.end() == 0, publisher.complaint
            told = {ack["offset"]: ack["line"] for ack in publisher.printed}
            assert sorted(told) == list(range(500)) and sorted(told.values()) == list(range(1, 501))
            acks[subject] = {offset: lines[line - 1] for offset, line in told.items()}
        assert cluster.nats is not None
        cluster.nats.stop()
        seeds = [word for address in cluster.addresses.values() for word in ("-node", address)]
        reader = await Program.start(programs / "reader", *seeds, "packed")
        assert await reader.end() == 0, reader.complaint
        for index, subject in enumerate(("packed", "packed.1")):
            found = values([record for record in reader.printed if record["partition"] == index])
            assert found == acks[subject]

    with_cluster(tmp_path, 3, story, refined=False)


def test_D2_old_records_come_out_of_files_and_a_damaged_one_from_another_replica(
    programs: Path, tmp_path: Path
) -> None:
    async def story(harness: Harness) -> None:
        await fill(harness, 3)
        await harness.in_sync("cold", 3)
        leader = await harness.leader("cold")
        destroy_record(harness, leader, 20)
        reader = await Program.start(programs / "reader", "-nats", harness.cluster.nats_url, "cold")
        assert await reader.end() == 0, reader.complaint
        found = values(reader.printed)
        assert [str(value)[:7] for value in found.values()] == [
            f"{number:06d} " for number in range(MESSAGES)
        ]
        assert await spans_sent(harness, leader) > 0

    with_cluster(tmp_path, 3, story, refined=False)


def test_V6_U1_whatever_is_wrong_is_one_clear_line(programs: Path, tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        url = harness.cluster.nats_url
        await harness.client.create_stream(StreamConfig("orders", "orders", 1, 1))
        assert (await harness.client.publish("orders", b"x")).outcome == "ok"
        other = tmp_path / "other.secret"
        other.write_text("ab" * 16 + "cd" * 16 + "\n")
        node = harness.cluster.addresses[1]
        reader, publisher = programs / "reader", programs / "publisher"
        for program, options, words in (
            (
                reader,
                ["-secret-file", str(other), "orders"],
                f"another one there; it used the secret in {other}",
            ),
            (
                reader,
                ["-secret-file", "none", "orders"],
                "it used no secret: pass another one with -secret-file",
            ),
            (
                reader,
                ["-versions", "9", "orders"],
                "it speaks protocol versions 2 to 3, this client protocol",
            ),
            (reader, ["order"], "stream 'order' does not exist: create it with"),
            (reader, ["-node", node, "order"], "stream 'order' does not exist: create it with"),
            (reader, ["-node", harness.cluster.peer_addresses[1], "orders"], "this port is for nodes"),
            (reader, ["-partition", "3", "orders"], "stream 'orders' has partitions 0 to 0, not 3"),
            (reader, ["-from", "yesterday", "orders"], "-from yesterday is not understood; use earliest"),
            (publisher, ["-subject", "nowhere", "-timeout", "1s"], "no stream listens on this subject"),
            (publisher, ["-subject", "orders", "-keyed"], "line 1 has no key"),
            (publisher, ["-subject", "orders", "-batch", "0"], "-batch 0 is out of range: use 1 to 1000"),
            (publisher, ["-subject", "orders", "-batch", "9", "-keyed"], "line 1 has no key"),
        ):
            started = await Program.start(program, "-nats", url, *options)
            if program == publisher and "0" not in options:  # which ends before it reads anything
                await started.say(["without a key"])
            assert await started.end() == 2, options
            assert words in started.complaint and started.complaint.count("\n") == 1, started.complaint
            assert started.complaint.startswith(f"{program.name}: ")

    with_cluster(tmp_path, 3, story, refined=False)
