"""`releases.toml`: what it says of each release is what that release's commit says, and it never changes."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

import pytest

from liftlog import format as batches
from liftlog.api import handshake
from liftlog.api.handshake import CLIENT, PEER, Answerer, Caller, HandshakeError, Party
from liftlog.core.metadata import image, levels
from liftlog.types import FEATURE_LEVEL, StreamConfig
from liftlog.version import VERSION
from tests.releases import Release, git, module, parse, releases, source

SECRET = b"s" * 32
RELEASES = releases()
each_release = pytest.mark.parametrize("release", RELEASES, ids=[release.version for release in RELEASES])


def constant(release: Release, path: str, name: str) -> str:
    """What a name stands for in a release's module; empty if it is not there."""
    found = re.search(rf"^{name}(?:: \w+)? = (.+)$", source(release, path), re.M)
    return found[1] if found else ""


@each_release
def test_u1_an_entry_says_what_its_commit_says(release: Release) -> None:
    assert git("cat-file", "-t", release.commit).strip() == b"commit"
    assert constant(release, "liftlog/version.py", "VERSION") == f'"{release.version}"'
    assert constant(release, "liftlog/format.py", "VERSION") == str(release.batch)
    assert constant(release, "liftlog/core/metadata/image.py", "VERSION") == str(release.snapshot)
    assert constant(release, "liftlog/api/handshake.py", "VERSION") == str(release.protocol[1])


@each_release
def test_u2_a_field_of_a_configuration_is_of_the_level_of_the_first_release_that_reads_it(
    release: Release,
) -> None:
    (read,) = (
        {ast.unparse(line.target) for line in one.body if isinstance(line, ast.AnnAssign)}
        for one in ast.parse(source(release, "liftlog/types.py")).body
        if isinstance(one, ast.ClassDef) and one.name == "StreamConfig"
    )
    since = dict.fromkeys(StreamConfig.__struct_fields__, levels.FIRST) | levels.CREATABLE_SINCE
    assert read == {name for name, level in since.items() if level <= release.level}


def test_u1_an_entry_never_changes_and_none_goes() -> None:
    """Against all versions of the file that history has."""
    now = {release.version: release for release in RELEASES}
    assert len(now) == len(RELEASES)
    for commit in git("log", "--format=%H", "--", "releases.toml").decode().split():
        for known in parse(git("show", f"{commit}:releases.toml").decode()):
            assert now.get(known.version) == known, f"{known.version} is another one in {commit[:12]}"


def test_numbers_of_releases_only_rise_and_the_present_code_is_none_that_was_released() -> None:
    rows = [(release.protocol[1], release.level, release.batch, release.snapshot) for release in RELEASES]
    present = (handshake.VERSION, FEATURE_LEVEL, batches.VERSION, image.VERSION)
    assert levels.NEWEST == FEATURE_LEVEL and levels.PROTOCOL[FEATURE_LEVEL] <= handshake.VERSION
    for before, after in pairwise([*rows, present]):
        assert all(earlier <= later for earlier, later in zip(before, after, strict=True))
    commit = git("rev-parse", "HEAD").decode().strip()
    for release in RELEASES:
        assert release.version != VERSION or commit == release.commit, "set liftlog/version.py"


@each_release
@pytest.mark.parametrize("role", [PEER, CLIENT])
@pytest.mark.parametrize("older", ["calls", "answers"])
def test_u1_a_release_and_the_present_code_get_to_know_each_other(
    release: Release, role: int, older: str
) -> None:
    """The release's own module at one end, with the secret and the tags of both."""
    old = module(release, "liftlog/api/handshake.py", f"handshake_{release.version}")
    node = 1 if role == PEER else 0
    calls, answers = (old, handshake) if older == "calls" else (handshake, old)
    one = calls.Caller(calls.Party("c", node, (SECRET,)), role, 2, b"a" * 32, 3)
    other = answers.Answerer(answers.Party("c", 2, (SECRET,)), role, lambda peer: True, lambda: b"b" * 32, 3)
    message = one.hello()
    while message:
        message = one.receive(other.receive(message))
    mine = one if older == "answers" else other
    assert mine.session.version == min(release.protocol[1], handshake.VERSION)
    for field in ("caller_key", "answerer_key", "tags"):
        assert getattr(one.session, field) == getattr(other.session, field)


@each_release
def test_u1_a_release_that_is_too_old_and_whom_it_calls_both_say_it_in_their_words(
    release: Release,
) -> None:
    """Where the feature level asks for a newer protocol."""
    old = module(release, "liftlog/api/handshake.py", f"handshake_{release.version}")
    floor = (release.protocol[1] + 1, release.protocol[1] + 1)
    one = old.Caller(old.Party("c", 1, (SECRET,)), PEER, 2, b"a" * 32)
    other = Answerer(Party("c", 2, (SECRET,)), PEER, lambda peer: True, lambda: b"b" * 32, versions=floor)
    with pytest.raises(HandshakeError, match="upgrade liftlog there") as ours:
        other.receive(one.hello())
    with pytest.raises(old.HandshakeError, match=f"protocol version {release.protocol[1]}"):
        one.receive(handshake.refusal(ours.value.code, ours.value.versions))
    new = Caller(Party("c", 1, (SECRET,)), PEER, 2, b"a" * 32, versions=floor)
    answerer = old.Answerer(old.Party("c", 2, (SECRET,)), PEER, lambda peer: True, lambda: b"b" * 32)
    with pytest.raises(old.HandshakeError, match="protocol version") as theirs:
        answerer.receive(new.hello())
    with pytest.raises(HandshakeError, match="upgrade liftlog on the older side"):
        new.receive(old.refusal(theirs.value.code))
