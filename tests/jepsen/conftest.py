"""One Spark session for all tests of the run: starting one takes longer than most of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.spark.session import require_java, start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
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
