"""The command line against a real cluster, and `liftlog dev` from start to Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from liftlog.commands.breakdown import watch
from liftlog.local import ask as from_cluster
from liftlog.local import wait_in_sync
from liftlog.real.breakdown import FOLLOWER, LEADER, STAGES
from liftlog.real.local_cluster import LocalCluster
from tests.integration.cluster import child_environment, liftlog

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def environment(cluster: LocalCluster) -> dict[str, str]:
    return {"LIFTLOG_NATS": cluster.nats_url}


def ask(environment: dict[str, str], *arguments: str, stdin: bytes = b"") -> str:
    code, output, error = liftlog(*arguments, environment=environment, stdin=stdin)
    assert (code, error) == (0, "")
    return output


def ask_json(environment: dict[str, str], *arguments: str, stdin: bytes = b"") -> list[object]:
    output = ask(environment, *arguments, "--json", stdin=stdin)
    return [json.loads(line) for line in output.splitlines()]


def test_create_publish_read_and_remove(environment: dict[str, str]) -> None:
    (created,) = ask_json(environment, "stream", "create", "walk", "walk.>")
    assert isinstance(created, dict)
    assert created["config"]["replication_factor"] == 3
    acks = ask_json(environment, "pub", "walk.a", "one", "two")
    assert [ack["offset"] for ack in acks if isinstance(ack, dict)] == [0, 1]
    lines = b"".join(b"line %d\n" % number for number in range(500))
    assert "stored 500 messages" in ask(environment, "pub", "walk.b", "--stdin", "--quiet", stdin=lines)
    records = ask_json(environment, "sub", "walk", "--from", "earliest")
    assert [record["value"] for record in records if isinstance(record, dict)] == [
        "one",
        "two",
        *(f"line {number}" for number in range(500)),
    ]
    assert ask(environment, "sub", "walk", "--from", "latest", "--raw") == "line 499\n"
    assert ask(environment, "sub", "walk", "--from", "2", "--count", "2", "--raw") == "line 0\nline 1\n"
    first = records[0]
    assert isinstance(first, dict)
    assert len(ask_json(environment, "sub", "walk", "--from", "2000-01-01T00:00:00+00:00")) == 502
    assert ask(environment, "sub", "walk", "--from", "2100-01-01") == ""
    for replica in ("1", "2", "3"):
        assert len(ask_json(environment, "sub", "walk", "--replica", replica)) == 502
    (listed,) = ask_json(environment, "stream", "ls")
    assert isinstance(listed, list)
    assert [stream["config"]["name"] for stream in listed] == ["walk"]
    shown = ask(environment, "stream", "info", "walk")
    known = r"^as node [123] knows it, which heard a controller \d\.\d s ago; --linearizable asks"
    assert re.search(known, shown, re.M)
    sure = ask(environment, "stream", "info", "walk", "--linearizable")
    assert re.search(r"^as of now: node [123] asked a quorum$", sure, re.M)
    assert "walk.>" in shown and "replicas 3, of which 2 must be in sync" in shown
    assert ask(environment, "sub", "walk", "--from", "502") == "", "that is where the next one will be"
    code, output, error = liftlog("sub", "walk", "--from", "900", environment=environment)
    assert (code, output) == (2, "")
    assert "--from 900 is past the end: partition 0 of 'walk' ends at offset 502" in error
    ask(environment, "stream", "rm", "walk")
    assert ask_json(environment, "stream", "ls") == [[]]


def test_r19_a_stream_is_altered_while_it_is_used(environment: dict[str, str]) -> None:
    ask(environment, "stream", "create", "ledger", "ledger.>")
    ask(environment, "pub", "ledger.a", "one")
    told = ask(environment, "stream", "alter", "ledger", "--retention-ms", "7d", "--read-only")
    assert told == "stream 'ledger': retention_ms 0 -> 604800000, read_only false -> true\n"
    code, output, error = liftlog("pub", "ledger.a", "two", environment=environment)
    assert code == 2 and "read-only" in output + error
    shown = ask(environment, "stream", "info", "ledger", "--linearizable")
    assert "retention_ms 604800000" in shown and "read-only: messages are refused" in shown
    assert re.search(r"^altered last by command \d+$", shown, re.M)
    assert ask(environment, "sub", "ledger", "--from", "earliest", "--raw") == "one\n"
    assert "read_only true -> false" in ask(environment, "stream", "alter", "ledger", "--read-write")
    ask(environment, "pub", "ledger.a", "three")
    assert ask(environment, "sub", "ledger", "--from", "earliest", "--raw") == "one\nthree\n"
    code, _, error = liftlog("stream", "alter", "ledger", environment=environment)
    assert code == 2 and "nothing to alter is given; see 'liftlog stream alter --help'" in error
    code, _, error = liftlog("stream", "alter", "ledger", "--segment-bytes", "1", environment=environment)
    assert code == 2 and "segment_bytes = 1 is not accepted" in error
    ask(environment, "stream", "rm", "ledger")


def test_c6_a_full_partition_refuses_until_there_is_room(environment: dict[str, str]) -> None:
    ask(environment, "cluster", "level", "--raise")
    ask(environment, "stream", "create", "jobs", "jobs.>", "--messages-max", "2")
    ask(environment, "pub", "jobs.a", "one")
    ask(environment, "pub", "jobs.a", "two")
    code, output, error = liftlog("pub", "jobs.a", "three", "--timeout", "2", environment=environment)
    assert code != 0 and "this partition holds 2 of 2" in output + error
    assert "--messages-max N" in output + error and "stream purge jobs" in output + error
    assert error.rstrip().endswith("--messages-max N")  # What follows would be about another cause.
    assert "messages_max 2" in ask(environment, "stream", "info", "jobs")
    ask(environment, "stream", "purge", "jobs", "--before", "1")
    ask(environment, "pub", "jobs.a", "three")
    told = ask(environment, "stream", "alter", "jobs", "--messages-max", "0")
    assert told == "stream 'jobs': messages_max 2 -> none\n"
    ask(environment, "pub", "jobs.a", "four")
    assert ask(environment, "sub", "jobs", "--from", "earliest", "--raw") == "two\nthree\nfour\n"
    ask(environment, "stream", "rm", "jobs")


def test_a_file_is_one_message_byte_for_byte(environment: dict[str, str], tmp_path: Path) -> None:
    content = bytes(range(256)) * 10
    path = tmp_path / "bytes"
    path.write_bytes(content)
    ask(environment, "stream", "create", "files", "files")
    ask(environment, "pub", "files", "--file", str(path))
    done = subprocess.run(
        [sys.executable, "-m", "liftlog", "sub", "files", "--raw"],
        env=child_environment(environment),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == content + b"\n"
    ask(environment, "stream", "rm", "files")


def test_cluster_status_shows_every_node_and_replica(environment: dict[str, str]) -> None:
    ask(environment, "stream", "create", "state", "state", "--replicas", "3")
    (status,) = ask_json(environment, "cluster", "status")
    assert isinstance(status, dict)
    assert status["controller"] in (1, 2, 3)
    assert [(node["node"], node["live"], node["answers"]) for node in status["nodes"]] == [
        (number, True, True) for number in (1, 2, 3)
    ]
    roles = [replica["role"] for node in ("1", "2", "3") for replica in status["replicas"][node]]
    assert sorted(roles) == ["follower", "follower", "leader"]
    counters = [name for node in ("1", "2", "3") for name in status["counters"][node]]
    assert "storage.groups" in counters and not [name for name in counters if name.startswith("breakdown")]
    text = ask(environment, "cluster", "status")
    assert "controller: node" in text
    assert text.count("follower") == 2
    ask(environment, "stream", "rm", "state")


def test_every_node_tells_where_messages_waited(
    environment: dict[str, str], cluster: LocalCluster
) -> None:
    (created,) = ask_json(environment, "stream", "create", "timed", "timed", "--replicas", "3")
    assert isinstance(created, dict)
    leader = created["partitions"][0]["leader"]
    wait_in_sync(cluster, "timed")

    async def publish() -> None:
        await asyncio.to_thread(ask, environment, "pub", "timed", "one", "two", "three")

    view = from_cluster(cluster, lambda client: watch(client, publish))
    assert view.problems == [] and list(view.nodes) == [1, 2, 3]
    for node, roles in view.nodes.items():
        role = LEADER if node == leader else FOLLOWER
        assert list(roles) == [role]
        assert [stage.name for stage in roles[role]] == list(STAGES[role])
        took = {stage.name: stage for stage in roles[role]}
        assert 1 <= took["sync"].groups <= 3 and 0 < took["sync"].p99_ms <= took["whole"].p99_ms

    code, output, _ = liftlog("cluster", "breakdown", "--seconds", "0.1", environment=environment)
    assert code == 1
    assert output == "nothing was stored in these 0.1 s; publish meanwhile, or choose a longer --seconds\n"
    door = ("--node", cluster.nodes[leader].config.address)
    code, output, _ = liftlog(
        "cluster", "breakdown", "--seconds", "0.1", "--json", *door, environment=environment
    )
    told = json.loads(output)
    assert code == 1 and (told["nodes"], told["problems"]) == ({}, [])
    ask(environment, "stream", "rm", "timed")


def test_leaders_and_the_controller_move_on_request(environment: dict[str, str]) -> None:
    (created,) = ask_json(environment, "stream", "create", "moves", "moves", "--replicas", "3")
    assert isinstance(created, dict)
    record = created["partitions"][0]
    other = next(node for node in record["replicas"] if node != record["leader"])
    ask(environment, "stream", "elect", "moves", "0", str(other))
    (info,) = ask_json(environment, "stream", "info", "moves", "--linearizable")
    assert isinstance(info, dict)
    assert info["partitions"][0]["leader"] == other
    ask(environment, "cluster", "rebalance")
    (info,) = ask_json(environment, "stream", "info", "moves", "--linearizable")
    assert isinstance(info, dict)
    assert info["partitions"][0]["leader"] == record["replicas"][0]
    (status,) = ask_json(environment, "cluster", "status")
    assert isinstance(status, dict)
    ask(environment, "cluster", "transfer", str(status["controller"] % 3 + 1))
    ask(environment, "stream", "rm", "moves")


def test_status_draws_itself_on_a_terminal_until_it_is_interrupted(environment: dict[str, str]) -> None:
    ask(environment, "stream", "create", "drawn", "drawn")
    code, output, error = liftlog("cluster", "status", "--live", environment=environment)
    assert (code, output) == (2, "") and "--live draws on a terminal" in error
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "liftlog", "cluster", "status", "--live", "--every", "0.1"],
        env=child_environment(environment | {"TERM": "xterm"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while shown.count(b"every partition takes messages") < 2:
            assert select.select([ours], [], [], 30)[0] == [ours], shown
            shown += os.read(ours, 65536)
        for words in (b"controller: node", b"LEADS", b"COMMITTED/S", b"drawn"):
            assert words in shown
        process.send_signal(signal.SIGINT)
        while select.select([ours], [], [], 30)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:
                # The terminal is gone: nobody has it open any more.
                break
        assert process.wait(30) == 0 and b"Traceback" not in shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    ask(environment, "stream", "rm", "drawn")


def test_dev_says_when_it_is_ready_and_stops_everything_it_started(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "liftlog",
        "dev",
        "--nodes",
        "3",
        "--port",
        "0",
        "--nats-port",
        "0",
        "--json",
    ]
    process = subprocess.Popen(
        [*command, "--data", str(tmp_path)],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        pids = [node["pid"] for node in ready["nodes"]]
        assert len(pids) == 3
        os.kill(pids[1], signal.SIGKILL)
        ended = json.loads(process.stdout.readline())
        assert ended == {"event": "ended", "node": 2, "status": -signal.SIGKILL}
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=30)
        assert (process.returncode, error) == (0, b"")
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
    finally:
        process.kill()
        process.communicate()


def test_nodes_stop_by_themselves_when_dev_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "liftlog", "dev", "--nodes", "1", "--port", "0", "--json"]
    with LocalCluster(tmp_path / "other", 1) as cluster:
        process = subprocess.Popen(
            [*command, "--nats", cluster.nats_url, "--cluster", "second", "--data", str(tmp_path / "second")],
            env=child_environment(),
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        (node,) = json.loads(process.stdout.readline())["nodes"]
        watch = os.pidfd_open(node["pid"])
        process.kill()
        process.communicate()
        # The end of a process makes its pidfd readable: no polling, no reuse of the number.
        assert select.select([watch], [], [], 20)[0] == [watch]
        os.close(watch)
