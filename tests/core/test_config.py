"""Configuration: precedence, and refusals that name the key and what is accepted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from liftlog import config
from liftlog.types import LiftlogError, NodeConfig

GOOD = """
cluster = "test"
[node]
id = 2
data = "/tmp/n2"
listen = "127.0.0.1:4702"
[nats]
url = "nats://10.0.0.9:4222"
[peers]
1 = "127.0.0.1:4701"
2 = "127.0.0.1:4702"
[protocol]
tick_ms = 50
"""


def load(tmp_path: Path, text: str, environment: dict[str, str] | None = None) -> config.ServerConfig:
    path = tmp_path / "liftlog.toml"
    path.write_text(text)
    return config.load(path, environment or {})


def test_a_file_is_read_and_written_back_to_the_same(tmp_path: Path) -> None:
    first = load(tmp_path, GOOD)
    assert first.node_config().tick_ms == 50
    assert first.node_config().voters == (1, 2)
    assert load(tmp_path, first.to_toml()) == first


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    path = tmp_path / "liftlog.toml"
    path.write_text(GOOD)
    assert config.load(path, {}).nats_url == "nats://10.0.0.9:4222"
    environment = {"LIFTLOG_NATS": "nats://env:1", "LIFTLOG_PROTOCOL_TICK_MS": "70", "LIFTLOG_OTHER": "x"}
    assert config.load(path, environment).nats_url == "nats://env:1"
    assert config.load(path, environment).protocol["tick_ms"] == 70
    assert config.load(path, environment, {("nats", "url"): "nats://flag:1"}).nats_url == "nats://flag:1"
    path.write_text(GOOD.replace('url = "nats://10.0.0.9:4222"', ""))
    assert config.load(path, {}).nats_url == config.DEFAULT_NATS_URL


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tick_ms = 50", "tick_msec = 50", ("tick_msec", "[protocol]", "session_timeout_ms")),
        ("tick_ms = 50", "tick_ms = 5", ("tick_ms", "10 to 10000")),
        ("tick_ms = 50", 'tick_ms = "50"', ("tick_ms", "whole number")),
        ("tick_ms = 50", "tick_ms = true", ("tick_ms", "whole number")),
        ("tick_ms = 50", "election_min_ms = 5000", ("election_min_ms", "below election_max_ms")),
        ("tick_ms = 50", "fence_margin_ms = 1100", ("session_timeout_ms", "5 times tick_ms")),
        ("id = 2", "id = 0", ("id", "1 to 65535")),
        ("id = 2", "", ("id", "missing")),
        ("id = 2", "id = 7", ("[peers]", "7")),
        ('listen = "127.0.0.1:4702"', 'listen = "4702"', ("listen", "host:port")),
        ("[nats]", "[nuts]", ("nuts", "[nats]")),
        ('cluster = "test"', 'cluster = "a b"', ("cluster", "letters")),
        ('1 = "127.0.0.1:4701"', 'one = "127.0.0.1:4701"', ("[peers]", "one")),
        ("tick_ms = 50", "tick_ms = = 50", ("not valid TOML", "line")),
    ],
)
def test_a_bad_setting_is_refused_with_its_name_and_what_is_accepted(
    tmp_path: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    assert old in GOOD
    with pytest.raises(LiftlogError) as caught:
        load(tmp_path, GOOD.replace(old, new))
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_to_log_in_to_nats_with_are_read_and_written_back(tmp_path: Path) -> None:
    files = "".join(f'{key} = "/etc/liftlog/{key}"\n' for key in config.NATS_FILES)
    first = load(tmp_path, GOOD.replace("[peers]", files + "[peers]"))
    assert {str(path) for path in msgspec.structs.astuple(first.nats_login)} == {
        f"/etc/liftlog/{key}" for key in config.NATS_FILES
    }
    assert load(tmp_path, first.to_toml()) == first


def test_a_bad_environment_value_is_refused_with_the_variable_s_name(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match="LIFTLOG_NODE_ID"):
        load(tmp_path, GOOD, {"LIFTLOG_NODE_ID": "two"})


def test_a_missing_file_is_named() -> None:
    with pytest.raises(LiftlogError, match=r"/nowhere/liftlog\.toml"):
        config.load(Path("/nowhere/liftlog.toml"), {})


def test_every_protocol_setting_has_a_range_that_holds_its_default() -> None:
    defaults = NodeConfig(node=1, voters=(1,))
    other = {"node", "voters", "learners", "address"}
    assert set(config.PROTOCOL_RANGES) == set(NodeConfig.__struct_fields__) - other
    for name, (low, high) in config.PROTOCOL_RANGES.items():
        assert low <= getattr(defaults, name) <= high
