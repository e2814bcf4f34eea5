"""Files of secrets: what is read, what is refused with which words; no secret gets into a message."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from liftlog.api.handshake import NO_SECRET
from liftlog.security import client_secrets, ensure_secret_file, own_client_secret_file, read_secrets
from liftlog.types import LiftlogError

ONE, TWO = bytes(range(32)), bytes(range(100, 164))


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_secret_a_line_in_digits_or_base64_the_present_one_first(tmp_path: Path) -> None:
    text = f"# since March\n{ONE.hex()}\n\n{base64.b64encode(TWO).decode()}  # the one before\n{ONE.hex()}\n"
    assert read_secrets(write(tmp_path / "s", text), "here") == (ONE, TWO)
    assert read_secrets(write(tmp_path / "s", ONE.hex(), 0o640), "here") == (ONE,)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("", 0o600, "holds no secret"),
        (ONE.hex(), 0o604, "chmod 600"),
        (ONE.hex(), 0o620, "chmod 600"),
        ("correct horse battery staple", 0o600, "line 1"),
        ("# x\n" + ONE[:31].hex(), 0o600, "line 2"),
        ("00" * 32, 0o600, "line 1"),
        (bytes(range(65)).hex(), 0o600, "32 to 64"),
        ("\n".join(bytes(range(n, n + 32)).hex() for n in range(5)), 0o600, "up to 4"),
        ("#" * 5000, 0o600, "too long"),
    ],
)
def test_what_is_no_good_secret_is_refused_without_being_shown(
    tmp_path: Path, text: str, mode: int, words: str
) -> None:
    path = write(tmp_path / "s", text, mode)
    with pytest.raises(LiftlogError) as caught:
        read_secrets(path, "[security] secret_file")
    said = str(caught.value)
    assert words in said and str(path) in said and said.startswith("[security] secret_file")
    assert "\n" not in said
    assert not any(line in said for line in text.split("\n") if len(line) > 8 and not line.startswith("#"))


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=f"openssl rand -hex 32 > {tmp_path}/s"):
        read_secrets(tmp_path / "s", "here")


def test_a_made_secret_is_its_owner_s_alone_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "s"
    ensure_secret_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    (secret,) = read_secrets(path, "here")
    ensure_secret_file(path)
    assert read_secrets(path, "here") == (secret,)
    assert [one.name for one in path.parent.iterdir()] == ["s"]


def test_a_secret_that_cannot_be_written_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LiftlogError, match=f"cannot write a secret to {tmp_path}/file/s: .*XDG_CONFIG_HOME"):
        ensure_secret_file(tmp_path / "file" / "s")


def test_a_client_s_secret_comes_from_the_option_the_environment_or_the_user_s_own_file(
    tmp_path: Path,
) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "own")}
    assert client_secrets("c", environment) == ((NO_SECRET,), "no secret")
    own = own_client_secret_file("c", environment)
    ensure_secret_file(own)
    found, source = client_secrets("c", environment)
    assert found != (NO_SECRET,) and str(own) in source
    assert client_secrets("other", environment)[0] == (NO_SECRET,)
    named = write(tmp_path / "named", ONE.hex())
    environment["LIFTLOG_CLIENT_SECRET_FILE"] = str(named)
    assert client_secrets("c", environment)[0] == (ONE,)
    given = write(tmp_path / "given", TWO.hex())
    assert client_secrets("c", environment, given)[0] == (TWO,)
    assert client_secrets("c", environment, "none")[0] == (NO_SECRET,)
    with pytest.raises(LiftlogError, match="LIFTLOG_CLIENT_SECRET_FILE"):
        client_secrets("c", environment | {"LIFTLOG_CLIENT_SECRET_FILE": str(tmp_path / "gone")})
