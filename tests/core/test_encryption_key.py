"""Where the key of encryption at rest comes from, and refusals that name the place and never the key."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from liftlog import config
from liftlog.cli import main
from liftlog.diskkey import encryption_key
from liftlog.types import LiftlogError

KEY = bytes(range(100, 132))
NODE = '[node]\nid = 1\ndata = "/tmp/n1"\nlisten = "127.0.0.1:4701"\n'


def key_file(tmp_path: Path, content: bytes, mode: int = 0o600) -> Path:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "content",
    [KEY, KEY.hex().encode(), KEY.hex().upper().encode() + b"\n", base64.b64encode(KEY) + b"\n"],
    ids=["raw", "hex", "hex with newline", "base64"],
)
def test_a_key_file_may_be_raw_hex_or_base64(tmp_path: Path, content: bytes) -> None:
    path = key_file(tmp_path, content)
    assert encryption_key(path, {}) == KEY
    if content != KEY:
        assert encryption_key(None, {"LIFTLOG_ENCRYPTION_KEY": content.decode()}) == KEY


def test_a_raw_key_may_begin_or_end_with_anything(tmp_path: Path) -> None:
    for key in (b"\n" + KEY[1:], KEY[1:] + b"\n", b" " * 3 + KEY[3:]):
        assert encryption_key(key_file(tmp_path, key), {}) == key


def test_without_a_key_nothing_is_encrypted() -> None:
    assert encryption_key(None, {}) is None


def test_the_file_is_named_in_the_configuration_and_comes_back_from_it(tmp_path: Path) -> None:
    path = tmp_path / "liftlog.toml"
    path.write_text(NODE + '[storage]\nencryption_key_file = "/etc/liftlog/key"\n')
    first = config.load(path, {})
    assert first.encryption_key_file == Path("/etc/liftlog/key")
    path.write_text(first.to_toml())
    assert config.load(path, {}) == first
    path.write_text(NODE)
    assert config.load(path, {}).encryption_key_file is None
    environment = {"LIFTLOG_SERVE_STORAGE_ENCRYPTION_KEY_FILE": "/run/key", "LIFTLOG_ENCRYPTION_KEY": "x"}
    assert config.load(path, environment).encryption_key_file == Path("/run/key")


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o620, 0o666])
def test_a_key_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, KEY, mode)
    with pytest.raises(LiftlogError, match=f"chmod 600 {path}"):
        encryption_key(path, {})


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_owner_and_group_may_read_it(tmp_path: Path, mode: int) -> None:
    assert encryption_key(key_file(tmp_path, KEY, mode), {}) == KEY


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a key of 32 bytes"),
        (KEY[:31], "not a key of 32 bytes"),
        (KEY + b"x", "not a key of 32 bytes"),
        (KEY.hex()[:-1].encode(), "not a key of 32 bytes"),
        (b"passphrase", "not a key of 32 bytes"),
        (b"0123456789abcdef0123456789abcdef", "no random key"),
        (b"x" * 100_000, "not a key of 32 bytes"),
    ],
)
def test_a_bad_key_is_refused_with_the_way_to_make_a_good_one(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = key_file(tmp_path, content)
    with pytest.raises(LiftlogError) as caught:
        encryption_key(path, {})
    text = str(caught.value)
    assert words in text and str(path) in text and "openssl rand -hex 32" in text and "\n" not in text
    assert not content or content[:10].decode("latin-1") not in text, "the key must not end up in a log"


def test_a_bad_key_in_the_environment_is_named_by_its_variable() -> None:
    with pytest.raises(LiftlogError, match="LIFTLOG_ENCRYPTION_KEY: not a key") as caught:
        encryption_key(None, {"LIFTLOG_ENCRYPTION_KEY": "secret"})
    assert "secret" not in str(caught.value)


def test_two_keys_are_one_too_many(tmp_path: Path) -> None:
    path = key_file(tmp_path, KEY)
    with pytest.raises(LiftlogError, match="both set; keep one"):
        encryption_key(path, {"LIFTLOG_ENCRYPTION_KEY": KEY.hex()})


def test_a_missing_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=r"cannot read it: No such file.*openssl rand -hex 32 > "):
        encryption_key(tmp_path / "none", {})
    with pytest.raises(LiftlogError, match="cannot read it: Is a directory"):
        encryption_key(tmp_path, {})


def test_config_check_looks_at_the_key_and_does_not_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIFTLOG_ENCRYPTION_KEY", raising=False)
    path, key = tmp_path / "liftlog.toml", key_file(tmp_path, KEY.hex().encode())
    path.write_text(NODE + f'[storage]\nencryption_key_file = "{key}"\n')
    assert main(["config", "check", str(path), "--json"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["encrypted"] is True and KEY.hex() not in shown
    assert json.loads(shown)["encryption_key_file"] == str(key)
    key.chmod(0o644)
    assert main(["config", "check", str(path)]) == 2
    assert "chmod 600" in capsys.readouterr().err
