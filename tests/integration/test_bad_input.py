"""Wrong use and a broken environment: one clear line on stderr that names thing and remedy, exit code 2."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from liftlog.real.local_cluster import LocalCluster
from liftlog.real.nats_server import free_port
from tests.integration.cluster import liftlog

pytestmark = pytest.mark.real

CONFIG = """
[node]
id = 1
data = "{folder}/data"
listen = "127.0.0.1:{port}"
[nats]
url = "{nats}"
"""


@pytest.fixture(scope="module")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A one-node cluster with the streams `good` (limit 100 bytes); yields its NATS URL."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), 1) as cluster:
        code, _, error = liftlog(
            "stream", "create", "good", "good.>", "--max-payload", "100", "--nats", cluster.nats_url
        )
        assert (code, error) == (0, "")
        yield cluster.nats_url


def refused(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run, expect exit code 2 and exactly one line on stderr; return that line."""
    code, _, error = liftlog(*arguments, environment=environment)
    assert code == 2, error
    assert error.startswith("liftlog: ")
    assert error.count("\n") == 1, error
    return error


def write_config(folder: Path, nats: str, port: int = 0, extra: str = "") -> str:
    path = folder / "liftlog.toml"
    path.write_text(CONFIG.format(folder=folder, nats=nats, port=port or free_port()) + extra)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stream", "info", "nothing"], ["'nothing'", "stream create"]),
        (["stream", "rm", "nothing"], ["'nothing'"]),
        (["sub", "nothing"], ["'nothing'"]),
        (["sub", ""], ["''", "letters"]),
        (["stream", "info", ""], ["''", "letters"]),
        (["stream", "purge", "", "--before", "0"], ["''", "letters"]),
        (["sub", "good", "--from", "yesterday"], ["'yesterday'", "earliest"]),
        (["sub", "good", "--from", "0001-01-01"], ["'0001-01-01'", "earliest"]),
        (["sub", "good", "--raw", "--json"], ["--raw", "--json", "one of them"]),
        (["stream", "ls", "--cluster", "a.*"], ["'a.*'", "letters"]),
        (["cluster", "status", "--node", "127.0.0.1:1", "--timeout", "1"], ["the node at 127.0.0.1:1"]),
        (["sub", "good", "--partition", "7"], ["7", "partitions 0 to 0"]),
        (["sub", "good", "--replica", "9"], ["node 9", "replicas: 1"]),
        (["sub", "good", "--from", "99999", "--count", "0"], ["--count"]),
        (["stream", "create", "bad name", "x"], ["'bad name'", "letters"]),
        (["stream", "create", "x", "a..b"], ["'a..b'", "empty token"]),
        (["stream", "create", "x", "_INBOX.x"], ["_INBOX.>"]),
        (["stream", "create", "x", "a.>", "--partitions", "2"], ["a.>"]),
        (["stream", "create", "x", "y", "--replicas", "5"], ["5"]),
        (["stream", "create", "good", "other"], ["'good'", "subject is 'good.>'", "stream alter good"]),
        (["stream", "create", "x", "y", "--retention-bytes", "99999999TiB"], ["99999999TiB is too much"]),
        (["stream", "create", "x\udcff", "y"], ["UTF-8", r"\xff"]),
        (["stream", "purge", "good", "--before", "-1"], ["--before", "-1"]),
        (["stream", "alter", "good"], ["nothing to alter", "stream alter --help"]),
        (["stream", "create", "x", "y", "--replicas", "none"], ["--replicas"]),
        (["stream", "elect", "good", "0", "7"], ["7"]),
        (["pub", "good.x", "y" * 101], ["100 bytes"]),
        (["pub", "good.x"], ["nothing to publish", "--stdin"]),
        (["pub", "good.x", "--file", "/nowhere/file"], ["/nowhere/file"]),
        (["pub", "not listened to", "x"], ["not listened to"]),
        (["pub", "nobody.listens", "x"], ["nobody.listens", "no stream listens"]),
        (["pub", "good..x", "y"], ["good..x", "empty token"]),
        (["pub", "good.*", "y"], ["good.*", "wildcard"]),
        (["pub", "good.\udcff", "y"], [r"good.\udcff", "UTF-8"]),
        (["pub", "good.x", "y", "--stdin"], ["arguments", "one of them"]),
        (["pub", "good.x", "y", "--key", "k", "--tombstone"], ["--tombstone", "no value"]),
        (["pub", "good.x", "y", "--expected-offset", "9007199254740992"], ["9007199254740992"]),
        (["cluster", "transfer", "9"], ["9"]),
        (["cluster", "transfer", "1"], ["node 1 is the controller already"]),
        (["cluster", "add", "70000", "h:1"], ["70000", "1 to 65535"]),
        (["cluster", "explode"], ["explode"]),
    ],
)
def test_wrong_use_of_a_running_cluster_is_refused_in_one_line(
    nats_url: str, arguments: list[str], words: list[str]
) -> None:
    line = refused(*arguments, environment={"LIFTLOG_NATS": nats_url, "LIFTLOG_CLUSTER": "liftlog"})
    for word in words:
        assert word in line


def test_a_refused_comparison_says_what_to_do_and_blames_no_leader(nats_url: str) -> None:
    line = refused("pub", "good.x", "y", "--expected-offset", "7", "--nats", nats_url)
    assert "wrong last sequence" in line and "say --expected-offset" in line
    assert "try again" not in line


def test_a_value_is_published_byte_for_byte_whatever_the_terminal_s_encoding(nats_url: str) -> None:
    code, _, error = liftlog(
        "stream", "create", "bytes", "bytes", "--nats", nats_url
    )
    assert (code, error) == (0, "")
    code, _, error = liftlog("pub", "bytes", "--quiet", "a\udcff", "--nats", nats_url)
    assert (code, error) == (0, "")
    code, shown, error = liftlog("sub", "bytes", "--json", "--nats", nats_url)
    assert (code, error) == (0, "")
    assert json.loads(shown)["value_base64"] == "Yf8="


def test_acks_that_cannot_be_printed_end_the_publishing(nats_url: str) -> None:
    command = f"{sys.executable} -m liftlog pub good.x a b c --nats {nats_url} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left" in done.stderr


def test_a_payload_above_the_nats_server_s_limit_is_refused(nats_url: str, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * (1024 * 1024 + 1))
    line = refused("pub", "good.x", "--file", str(path), "--nats", nats_url)
    assert "1048577 bytes" in line
    assert "limit of 1048576" in line


def test_an_unreachable_nats_is_named_with_a_remedy() -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    line = refused("stream", "ls", "--nats", url)
    assert url in line
    assert "start a nats-server" in line


def test_a_cluster_that_does_not_run_is_named(nats_url: str) -> None:
    line = refused("stream", "ls", "--nats", nats_url, "--cluster", "absent", "--timeout", "0.5")
    assert "'absent'" in line
    assert "liftlog serve" in line


def test_serve_refuses_a_taken_port(tmp_path: Path, nats_url: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        line = refused("serve", "--config", write_config(tmp_path, nats_url, port))
    assert f"127.0.0.1:{port}" in line
    assert "listen" in line


def test_serve_refuses_a_broken_configuration(tmp_path: Path, nats_url: str) -> None:
    path = write_config(tmp_path, nats_url, extra="\n[protocol]\ntick_ms = 1\n")
    line = refused("serve", "--config", path)
    assert "tick_ms" in line
    assert "10 to 10000" in line
    assert path in line


SEVERAL = """
[peers]
1 = "127.0.0.1:{one}"
2 = "127.0.0.1:{two}"
"""


def test_serve_refuses_several_nodes_without_secrets_and_says_how_to_make_them(
    tmp_path: Path, nats_url: str
) -> None:
    several = SEVERAL.format(one=free_port(), two=free_port())
    line = refused("serve", "--config", write_config(tmp_path, nats_url, extra=several))
    for word in ("[security] secret_file and client_secret_file", "openssl rand", "insecure = true"):
        assert word in line


def test_serve_refuses_secrets_that_others_can_read(tmp_path: Path, nats_url: str) -> None:
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef" * 4)
    path.chmod(0o644)
    extra = f'[security]\nclient_secret_file = "{path}"\n'
    line = refused("serve", "--config", write_config(tmp_path, nats_url, extra=extra))
    assert f"chmod 600 {path}" in line


IMPATIENT = """
import os, signal, sys
from liftlog import cli
from liftlog.commands import serve
from liftlog.real.storage_runner import GroupRunner

close = GroupRunner.close

async def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    await close(*arguments)

GroupRunner.close = interrupted
serve.print_json = lambda line: os.kill(os.getpid(), signal.SIGTERM)
sys.exit(cli.main(sys.argv[1:]))
"""


def test_serve_stops_in_order_when_asked_with_its_ready_line_and_again_at_its_last_sync(
    tmp_path: Path, nats_url: str
) -> None:
    path = write_config(tmp_path, nats_url)
    for before in ("no earlier run", "after a clean stop"):
        command = [sys.executable, "-c", IMPATIENT, "serve", "--json", "--config", path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert before in done.stderr and "asked to stop by SIGTERM" in done.stderr


def test_serve_refuses_a_data_folder_in_use(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        other = tmp_path / "second"
        other.mkdir()
        path = write_config(other, cluster.nats_url)
        line = refused("serve", "--config", path, "--data", str(tmp_path / "node-1" / "data"))
    assert "node-1" in line


def test_serve_refuses_a_data_folder_of_another_node(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.nodes[1].terminate()
        assert cluster.nodes[1].wait() == 0
        path = write_config(tmp_path, cluster.nats_url)
        line = refused("serve", "--config", path, "--id", "7", "--data", str(tmp_path / "node-1" / "data"))
    assert "node 1" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nodes", "12"], ["--nodes 12", "1 to 9"]),
        (["--port", "70000"], ["--port 70000", "65527"]),
        (["--nats-port", "-1"], ["--nats-port -1"]),
        (["--data", "/dev/null"], ["/dev/null"]),
    ],
)
def test_dev_refuses_what_it_cannot_run(arguments: list[str], words: list[str]) -> None:
    line = refused("dev", *arguments)
    for word in words:
        assert word in line


def test_dev_refuses_to_be_a_second_cluster_of_one_name(nats_url: str) -> None:
    line = refused("dev", "--nodes", "1", "--port", "0", "--nats", nats_url)
    assert "'liftlog' answers" in line and nats_url in line and "--cluster" in line


def test_serve_refuses_the_data_folder_of_another_cluster(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.nodes[1].terminate()
        assert cluster.nodes[1].wait() == 0
        path = write_config(tmp_path, cluster.nats_url)
        data = str(tmp_path / "node-1" / "data")
        line = refused("serve", "--config", path, "--data", data, "--cluster", "another")
    assert "belongs to cluster 'liftlog', not to 'another'" in line


def test_dev_refuses_a_taken_nats_port(nats_url: str) -> None:
    port = nats_url.rpartition(":")[2]
    line = refused("dev", "--nodes", "1", "--port", "0", "--nats-port", port)
    assert port in line
    assert "taken" in line


def test_a_cluster_that_was_left_holds_no_ports(tmp_path: Path) -> None:
    """A process that ran hundreds of tests had more descriptors open than `select` knows."""
    gc.collect()  # what earlier tests left is closed now, and not in between
    before = len(os.listdir("/proc/self/fd"))
    with LocalCluster(tmp_path, 1):
        assert len(os.listdir("/proc/self/fd")) > before
    assert len(os.listdir("/proc/self/fd")) == before
