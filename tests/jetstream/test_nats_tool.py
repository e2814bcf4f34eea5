"""The `nats` tool, as operators know it, on both servers: each command that they type of a day.

It is built from the sources that `nats_tool/go.sum` names, which takes a minute: run by night.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.jetstream.table import differs, proves, refused
from tests.jetstream.user import User
from tests.programs import build_with_go, finished

pytestmark = pytest.mark.nightly

X, TOOL = "Other clients", "the `nats` tool"
SOURCES = Path(__file__).parent / "nats_tool"


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("nats-tool") / "nats"
    build_with_go(SOURCES, str(built), "github.com/nats-io/natscli/nats")
    return built


class Tool:
    """Commands of an operator, who has no settings in files."""

    def __init__(self, binary: Path, user: User, home: Path) -> None:
        self._command = (str(binary), "--server", user.server.url)
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
        self.name = user.name
        self.replicas = ("--replicas", str(user.server.replicas))

    async def says(self, *words: str) -> tuple[int, str]:
        """The exit code, and what is printed on either stream."""
        code, out, error = await finished(*self._command, *words, environment=self._environment)
        return code, out + error

    async def run(self, *words: str) -> str:
        """What a command prints that succeeds."""
        code, said = await self.says(*words)
        assert code == 0, said
        return said

    async def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.run(*words, "--json"))
        return found

    async def fails(self, *words: str) -> str:
        """What a command complains of."""
        code, said = await self.says(*words)
        assert code == 1 and "error" in said, said
        return said

    async def stream(self, *more: str) -> None:
        """The stream of this test."""
        subjects = ("--subjects", f"{self.name}.>")
        await self.run("stream", "add", self.name, *subjects, "--defaults", *self.replicas, *more)

    async def publish(self, to: str, text: str, *more: str) -> str:
        return await self.run("pub", f"{self.name}.{to}", text, "--jetstream", *more)


@pytest.fixture
def tool(binary: Path, user: User, tmp_path: Path) -> Tool:
    return Tool(binary, user, tmp_path)


@proves(X, TOOL, "pub", "stream add, ls, info, edit, state, subjects, report, get, rmm, gaps, purge, rm")
async def test_streams(user: User, tool: Tool) -> None:
    name = tool.name
    await tool.stream()
    assert name in await tool.run("stream", "ls")
    overlaps = ("--subjects", f"{name}.a", "--defaults")
    assert "subjects overlap" in await tool.fails("stream", "add", f"{name}X", *overlaps)
    assert "Sequence: 5" in await tool.publish("a", "hello {{Count}}", "--count", "5")
    assert "Sequence: 6" in await tool.publish("b", "last", "-H", "Colour:blue")
    assert "hello 2" in await tool.run("stream", "get", name, "2")
    last = await tool.run("stream", "get", name, "--last-for", f"{name}.b")
    assert "Colour: blue" in last and "last" in last
    await tool.run("stream", "rmm", name, "3", "-f")
    assert "no message found" in await tool.fails("stream", "get", name, "3")
    assert "1 gap found" in await tool.run("stream", "gaps", name, "-f")
    await tool.run("stream", "edit", name, "--max-msgs", "100", "--description", "all of it", "-f")
    told = await tool.json("stream", "info", name)
    assert (told["config"]["max_msgs"], told["config"]["description"]) == (100, "all of it")
    state = told["state"]
    assert (state["messages"], state["last_seq"], state["num_deleted"]) == (5, 6, 1)
    assert "Deleted Messages: 1" in await tool.run("stream", "state", name)
    assert "2 Subjects" in await tool.run("stream", "subjects", name)
    assert name in await tool.run("stream", "report")
    assert "Purged 4 messages" in await tool.run("stream", "purge", name, "--subject", f"{name}.a", "-f")
    assert "Purged 1 messages" in await tool.run("stream", "purge", name, "-f")
    await tool.run("stream", "rm", name, "-f")
    assert "stream not found" in await tool.fails("stream", "rm", name, "-f")


@proves(X, TOOL, "pub with ids and a time to live", "sub --stream", "stream copy, seal")
async def test_publishing_and_reading(user: User, tool: Tool) -> None:
    name = tool.name
    await tool.stream("--allow-msg-ttl", "--dupe-window", "1m")
    for _ in range(2):
        assert "Sequence: 1" in await tool.publish("a", "once", "-H", "Nats-Msg-Id:1")
    assert "Sequence: 2" in await tool.publish("a", "soon gone", "-H", "Nats-TTL:1h")
    read = await tool.run("sub", "--stream", name, "--all", "--count", "2", "--raw")
    assert [line for line in read.splitlines() if line in ("once", "soon gone")] == ["once", "soon gone"]
    await tool.run("stream", "copy", name, f"{name}2", "--subjects", f"{name}2.>")
    assert (await tool.json("stream", "info", f"{name}2"))["config"]["allow_msg_ttl"] is True
    await tool.run("stream", "seal", name, "-f")
    assert "sealed" in await tool.fails("pub", f"{name}.a", "more", "--jetstream")
    await tool.run("stream", "rm", f"{name}2", "-f")


@proves(X, TOOL, "stream add --mirror, --source")
@differs("with --source say --dupe-window 0: messages that are copied are not told apart by their ids")
async def test_copies(user: User, tool: Tool) -> None:
    name = tool.name
    await tool.stream()
    await tool.publish("a", "{{Count}}", "--count", "20")
    made = ("--defaults", *tool.replicas)
    await tool.run("stream", "add", f"{name}M", "--mirror", name, *made)
    if user.liftlog:
        told = await tool.fails("stream", "add", f"{name}S", "--source", name, *made)
        assert "duplicate_window" in told and "leave it out, or say 0" in told
    await tool.run("stream", "add", f"{name}S", "--source", name, "--dupe-window", "0", *made)
    for copy in ("M", "S"):

        async def copied(copy: str = copy) -> bool:
            return (await tool.json("stream", "info", f"{name}{copy}"))["state"]["messages"] == 20

        await user.until(copied)
        await tool.run("stream", "rm", f"{name}{copy}", "-f")


@proves(X, TOOL, "consumer add, ls, info, next, edit, pause, resume, reset, report, copy, rm")
async def test_consumers(user: User, tool: Tool) -> None:
    name = tool.name
    await tool.stream()
    await tool.publish("a", "{{Count}}", "--count", "6")
    await tool.publish("b", "of another subject")
    pull = ("--pull", "--ack", "explicit", "--filter", f"{name}.a")
    await tool.run("consumer", "add", name, "C", "--defaults", *pull)
    push = ("--target", f"{name}-push", "--ack", "none", "--deliver", "all")
    await tool.run("consumer", "add", name, "P", "--defaults", *push)
    listed = await tool.run("consumer", "ls", name)
    assert "C" in listed and "P" in listed
    assert "Acknowledged message" in await tool.run("consumer", "next", name, "C", "--count", "2")
    await tool.run("consumer", "next", name, "C", "--nak")
    assert "tries: 2" in await tool.run("consumer", "next", name, "C", "--term")
    told = await tool.json("consumer", "info", name, "C")
    assert (told["num_pending"], told["num_ack_pending"], told["ack_floor"]["stream_seq"]) == (3, 0, 3)
    shown = await tool.run("consumer", "info", name, "C")
    assert "Last delivery" in shown and "Last Ack" in shown
    await tool.run("consumer", "edit", name, "C", "--max-pending", "50", "-f")
    assert (await tool.json("consumer", "info", name, "C"))["config"]["max_ack_pending"] == 50
    assert "Paused" in await tool.run("consumer", "pause", name, "C", "1h", "-f")
    assert "was resumed" in await tool.run("consumer", "resume", name, "C", "-f")
    await tool.run("consumer", "reset", name, "C", "-f")
    assert (await tool.json("consumer", "info", name, "C"))["delivered"]["consumer_seq"] == 0
    assert "Acknowledged message" in await tool.run("consumer", "next", name, "C")
    await tool.run("consumer", "copy", name, "C", "D")
    report = await tool.run("consumer", "report", name)
    assert "with 3 consumers" in report
    for one in ("C", "D", "P"):
        await tool.run("consumer", "rm", name, one, "-f")
    await tool.fails("consumer", "rm", name, "C", "-f")


@proves(X, TOOL, "kv add, put, get, create, update, history, ls, del, purge, compact, rm")
async def test_keys_and_values(user: User, tool: Tool) -> None:
    bucket = tool.name
    await tool.run("kv", "add", bucket, "--history", "5", "--marker-ttl", "1h", *tool.replicas)
    assert await tool.run("kv", "put", bucket, "a", "1") == "1\n"
    await tool.run("kv", "put", bucket, "a", "2")
    assert await tool.run("kv", "get", bucket, "a", "--raw") == "2"
    assert "key exists" in await tool.fails("kv", "create", bucket, "a", "3")
    await tool.run("kv", "create", bucket, "b", "3", "--ttl", "1h")
    assert await tool.run("kv", "update", bucket, "a", "4", "2") == "4\n"
    assert "revision mismatch" in await tool.fails("kv", "update", bucket, "a", "5", "2")
    history = await tool.run("kv", "history", bucket, "a")
    assert history.count("PUT") == 3
    assert sorted((await tool.run("kv", "ls", bucket)).split()) == ["a", "b"]
    await tool.run("kv", "del", bucket, "a", "-f")
    await tool.run("kv", "purge", bucket, "b", "-f")
    assert "not found" in await tool.fails("kv", "get", bucket, "a")
    await tool.run("kv", "compact", bucket, "-f")
    assert bucket in await tool.run("kv", "ls")
    await tool.run("kv", "rm", bucket, "-f")
    assert "bucket not found" in await tool.fails("kv", "get", bucket, "a")


@proves(X, TOOL, "object add, put, ls, info, get, rm, seal, del")
async def test_objects(user: User, tool: Tool, tmp_path: Path) -> None:
    bucket, sent, got = tool.name, tmp_path / "sent", tmp_path / "got"
    sent.write_bytes(os.urandom(300_000))
    await tool.run("object", "add", bucket, *tool.replicas)
    await tool.run("object", "put", bucket, str(sent), "--name", "file", "--no-progress", "-f")
    assert "file" in await tool.run("object", "ls", bucket)
    assert "293 KiB" in await tool.run("object", "info", bucket, "file")
    await tool.run("object", "get", bucket, "file", "--no-progress", "--output", str(got), "-f")
    assert got.read_bytes() == sent.read_bytes()
    await tool.run("object", "rm", bucket, "file", "-f")
    assert "not found" in await tool.fails("object", "info", bucket, "file")
    await tool.run("object", "seal", bucket, "-f")
    assert "Sealed: true" in await tool.run("object", "info", bucket)
    await tool.run("object", "del", bucket, "-f")


@proves(X, TOOL, "bench js pub, ordered, consume, fetch; bench kv")
async def test_benchmarks(user: User, tool: Tool) -> None:
    name = tool.name
    await tool.stream()
    quiet = ("--stream", name, "--no-progress")
    await tool.run("bench", "js", "pub", "sync", f"{name}.a", "--msgs", "20", *quiet)
    await tool.run("bench", "js", "pub", "async", f"{name}.a", "--msgs", "480", *quiet)
    for way in ("ordered", "consume", "fetch"):
        assert "stats" in await tool.run("bench", "js", way, "--msgs", "200", *quiet)
    await tool.run("kv", "add", f"{name}B", *tool.replicas)
    bucket = ("--bucket", f"{name}B", "--msgs", "20", "--no-progress")
    for command in ("put", "get"):
        assert "stats" in await tool.run("bench", "kv", command, *bucket)
    await tool.run("kv", "del", f"{name}B", "-f")


@proves(X, TOOL, "account info; server check jetstream, stream, consumer, message")
async def test_looking_after_it(user: User, tool: Tool) -> None:
    name = tool.name
    await tool.stream()
    await tool.publish("a", "text")
    await tool.run("consumer", "add", name, "C", "--defaults", "--pull")
    told = await tool.run("account", "info")
    assert "JetStream Account Information" in told
    replicas = user.server.replicas
    for words in (
        ("jetstream",),
        ("stream", "--stream", name, *(("--peer-expect", str(replicas)) if replicas > 1 else ())),
        ("consumer", "--stream", name, "--consumer", "C"),
        ("message", "--stream", name, "--subject", f"{name}.a"),
    ):
        assert (await tool.run("server", "check", *words)).startswith("OK")


@proves(X, TOOL, "backup stream", "stream add --allow-batch", "bench js pub --create")
@refused("there is no such call here, or the tool asks for an API level above 1")
async def test_what_is_refused(user: User, tool: Tool, tmp_path: Path) -> None:
    name = tool.name
    await tool.stream()
    await tool.publish("a", "text")
    await tool.run("consumer", "add", name, "C", "--defaults", "--pull")
    subject = f"{name}B.a"
    made = ("--stream", f"{name}B", "--msgs", "10", "--no-progress", *tool.replicas)
    for words, said in (
        (("backup", "stream", name, str(tmp_path / "backup")), "STREAM.SNAPSHOT is not supported"),
        (
            ("stream", "add", f"{name}A", "--subjects", f"{name}A", "--defaults", "--allow-batch"),
            "requires NATS Server 2.12",
        ),
        (("bench", "js", "pub", "sync", subject, "--create", *made), "minimum api level required"),
    ):
        code, told = await tool.says(*words)
        assert (code, said in told) == ((1, True) if user.liftlog else (0, False)), told
