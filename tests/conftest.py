"""What all tests share: the clients' secrets that local clusters make go into a folder of this run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write anew what the golden scripts say")


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
