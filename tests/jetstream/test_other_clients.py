"""Programs in Go and for Node, written with nats.go and nats.js alone, see on both servers the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.jetstream.results import ROOT
from tests.jetstream.table import proves
from tests.jetstream.user import User
from tests.programs import build_with_go, finished

pytestmark = pytest.mark.slow

X = "Other clients"
NPM = shutil.which("npm")
NODE = shutil.which("node")

SEEN: dict[str, Any] = {
    "sequences": [1, 2, 3, 4, 5],
    "fetched": ["1", "2", "3"],
    "iterated": ["4", "5", "6"],
    "left": [0, 0],
    "last": [5, "5"],
    "refused": True,
    "value": ["blue", 2],
    "keys": ["colour", "size"],
}


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("go") / "jetstream"
    build_with_go(ROOT / "examples" / "go", str(built), "./jetstream")
    return built


@pytest.fixture(scope="session")
def node_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if NPM is None or NODE is None:
        pytest.skip("there is no node here; install Node.js 20")
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "package-lock.json", "jetstream.mjs"):
        shutil.copy(ROOT / "examples" / "node" / name, folder)
    done = subprocess.run(
        [NPM, "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the packages of examples/node cannot be fetched: {done.stderr.strip()[-300:]}")
    return folder / "jetstream.mjs"


async def seen(*command: str) -> dict[str, Any]:
    """What a program printed: its objects by what they are of."""
    code, out, error = await finished(*command)
    assert code == 0, error
    return {told["what"]: told["value"] for told in map(json.loads, out.splitlines())}


@proves(X, "nats.go", "publish, Fetch, Messages, key-value")
async def test_a_program_in_go(user: User, go_program: Path) -> None:
    options = ("-nats", user.server.url, "-stream", user.name, "-replicas", str(user.server.replicas))
    assert await seen(str(go_program), *options) == SEEN


@proves(X, "nats.js", "publish, fetch, consume, key-value, objects")
async def test_a_program_for_node(user: User, node_program: Path) -> None:
    assert NODE is not None
    found = await seen(NODE, str(node_program), user.server.url, user.name, str(user.server.replicas))
    assert found == SEEN | {"object": 200_000}
