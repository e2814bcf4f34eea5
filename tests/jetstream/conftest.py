"""The same test on nats-server and on liftlog: a parameter `server`, and a user's connection to it.

A server is started when the first test asks for it, once for a process. Tests are coroutines; all of them run
in one event loop. CI runs them on liftlog with one replica, and one in five on nats-server; `-m nightly` has
the rest.
"""

from __future__ import annotations

import asyncio
import inspect
import zlib
from collections.abc import Iterator
from contextlib import ExitStack

import nats
import nats.errors
import pytest
from nats.js import errors

from tests.jetstream.results import Recorder, Results, split
from tests.jetstream.servers import NAMES, Server, running
from tests.jetstream.table import proof
from tests.jetstream.user import User

SHARE = 5
"""Of so many tests one runs on nats-server in CI."""


class Stage:
    """The event loop of all tests here, and the servers that have been started."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.runner = asyncio.Runner()
        self._factory = factory
        self._started: dict[str, Server] = {}
        self._stack = ExitStack()

    def server(self, name: str) -> Server:
        if name not in self._started:
            folder = self._factory.mktemp(name)
            started = self._stack.enter_context(running(name, folder))
            self.runner.run(answers(started))
            self._started[name] = started
        return self._started[name]

    def start(self, *names: str) -> None:
        """Start these before the event loop runs, which waits for each."""
        for name in names:
            self.server(name)

    def close(self) -> None:
        self.runner.close()
        self._stack.close()


async def answers(server: Server) -> None:
    """Wait until somebody answers JetStream's calls; members of a cluster first choose a leader."""
    connection = await nats.connect(server.url)
    async with asyncio.timeout(20):
        while True:
            try:
                await connection.jetstream(timeout=1).account_info()
                break
            except (errors.APIError, nats.errors.TimeoutError):
                await asyncio.sleep(0.02)
    await connection.close()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory)
    yield made
    made.close()


@pytest.fixture
def server(request: pytest.FixtureRequest, stage: Stage) -> Server:
    return stage.server(request.param)


@pytest.fixture
def user(server: Server, stage: Stage) -> Iterator[User]:
    opened = User.of(server)
    made = stage.runner.run(opened.__aenter__())
    yield made
    stage.runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def refusal(request: pytest.FixtureRequest, server: Server) -> str:
    """Why liftlog refuses this case of a test; empty if it does not, or if this is nats-server."""
    found = split(request.node.nodeid)
    assert found is not None
    case = found[0].partition("[")[2].removesuffix("]")
    its = proof(request.function).cases.get(case)
    return its.refused if its is not None and server.liftlog else ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", NAMES, indirect=True)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--rewrite") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "jetstream-recorder")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    results = Results.read()
    for item in items:
        found = split(item.nodeid)
        if found is None:
            continue
        test, name = found
        item.add_marker(pytest.mark.real)
        chosen = zlib.crc32(test.encode()) % SHARE == 0
        if name != "liftlog" and not (name == "nats-server" and chosen):
            item.add_marker(pytest.mark.nightly)
        if results.of(test, name) == "-" and not config.getoption("--rewrite"):
            item.add_marker(pytest.mark.xfail(reason="recorded in tests/golden/jetstream.json", run=False))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def limited() -> None:
        async with asyncio.timeout(15):
            await pyfuncitem.obj(**wanted)

    stage: Stage = pyfuncitem.funcargs["stage"]
    stage.runner.run(limited())
    return True
