"""What all tests share: a folder of this run for secrets that local clusters make, and one Spark session."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from liftlog.types import LiftlogError
from liftlog_jepsen.spark.session import require_java, start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# How long an example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write anew what the golden scripts say")


NIGHTLY_S = 4 * 3600
"""Of a test with its fixtures, in place of `timeout` in pyproject.toml."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take minutes may take hours."""
    for item in items:
        if item.get_closest_marker("nightly") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(NIGHTLY_S))


def pytest_configure() -> None:
    """Who starts the tests in the background has them ignore Ctrl-C, and with them all that they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_secrets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Clients look for secrets in the user's own folder, which tests leave alone."""
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    yield
    if before is None:
        del os.environ["XDG_CONFIG_HOME"]
    else:
        os.environ["XDG_CONFIG_HOME"] = before


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One for all tests of a process: starting one takes longer than most of them."""
    try:
        require_java()
    except LiftlogError as error:
        pytest.skip(str(error))
    with warnings.catch_warnings():
        # Spark's launcher leaves pipes to its Java process for the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session = start_session("local[2]", "1g")
        yield session
        stop_session(session)


@pytest.fixture
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the session of the test run and leave it running."""
    monkeypatch.setattr("liftlog_jepsen.spark.run.start_session", lambda *_, **__: spark)
    monkeypatch.setattr("liftlog_jepsen.spark.run.stop_session", lambda session: None)
