"""Earlier releases, taken out of this repository's own history by `releases.toml`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path
from types import ModuleType

import msgspec

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "releases.toml"
PACKAGES = ("liftlog", "sim/liftlog_sim", "spec/liftlog_spec", "jepsen/liftlog_jepsen")


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file."""

    version: str
    commit: str
    protocol: tuple[int, int]
    level: int
    batch: int
    snapshot: int


def parse(text: str) -> list[Release]:
    return msgspec.convert(tomllib.loads(text)["release"], list[Release])


def releases() -> list[Release]:
    """All of them, the oldest first."""
    return parse(FILE.read_text())


def git(*arguments: str) -> bytes:
    """What git says of this repository. A history that lacks what is asked for fails the test."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        told = done.stderr.decode().strip()
        raise AssertionError(
            f"git {' '.join(arguments)}: {told}; tests of releases need this repository with its whole "
            "history: git fetch --unshallow"
        )
    return done.stdout


def source(release: Release, path: str) -> str:
    """A file as it was in a release."""
    return git("show", f"{release.commit}:{path}").decode()


def module(release: Release, path: str, name: str) -> ModuleType:
    """A module of a release that imports nothing of liftlog, beside the present one."""
    made = ModuleType(name)
    sys.modules[name] = made
    exec(compile(source(release, path), f"{release.version}:{path}", "exec"), made.__dict__)
    return made


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """All of an archive of our own. Debian 12 has Python 3.11.2, without filters; later ones want one."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
    else:
        archive.extractall(folder)


def check_out(release: Release, folder: Path) -> dict[str, str]:
    """The release's packages in `folder`; the environment in which Python imports those."""
    with tarfile.open(fileobj=BytesIO(git("archive", "--format=tar", release.commit, *PACKAGES))) as archive:
        unpack(archive, folder)
    roots = [folder, *(folder / package.split("/")[0] for package in PACKAGES[1:])]
    return {"PYTHONPATH": ":".join(map(str, roots)), "PYTHONSAFEPATH": "1"}
