"""Configuration: precedence, and refusals that name the key and what is accepted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from liftlog import config
from liftlog.nodeconfig import NodeConfig
from liftlog.protocolranges import PROTOCOL_RANGES
from liftlog.security import ensure_secret_file
from liftlog.types import LiftlogError

GOOD = """
cluster = "test"
[node]
id = 2
data = "/tmp/n2"
listen = "127.0.0.1:4702"
[nats]
url = "nats://10.0.0.9:4222"
[peers]
1 = "127.0.0.1:4801"
2 = "127.0.0.1:4802"
[security]
secret_file = "/etc/cluster.secret"
client_secret_file = "/etc/client.secret"
[network]
handshake_ms = 700
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
    environment = {"LIFTLOG_SERVE_NATS_URL": "nats://env:1", "LIFTLOG_SERVE_PROTOCOL_TICK_MS": "70"}
    assert config.load(path, environment).nats_url == "nats://env:1"
    assert config.load(path, environment).protocol["tick_ms"] == 70
    assert config.load(path, environment, {("nats", "url"): "nats://flag:1"}).nats_url == "nats://flag:1"
    path.write_text(GOOD.replace('url = "nats://10.0.0.9:4222"', ""))
    assert config.load(path, {}).nats_url == config.DEFAULT_NATS_URL


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        (("node", "id"), 0, "the command line: [node] id = 0; accepted: 1 to 65535"),
        (("node", "id"), 65536, "accepted: 1 to 65535"),
        (("node", "data"), "", "[node] data is empty"),
    ],
)
def test_a_flag_is_held_to_the_range_of_its_setting(
    flag: tuple[str, str], value: object, words: str, tmp_path: Path
) -> None:
    """`liftlog serve --id 0` once began a data folder of a node that nobody can be."""
    path = tmp_path / "liftlog.toml"
    path.write_text(GOOD)
    with pytest.raises(LiftlogError) as caught:
        config.load(path, {}, {flag: value})
    assert words in str(caught.value)


def test_what_a_client_exports_moves_no_server(tmp_path: Path) -> None:
    path = tmp_path / "liftlog.toml"
    path.write_text(GOOD)
    shell = {"LIFTLOG_NATS": "nats://elsewhere:4222", "LIFTLOG_CLUSTER": "other", "LIFTLOG_EXTRAS": "dev"}
    assert config.load(path, shell) == config.load(path, {})


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("LIFTLOG_NATS_URL", "say LIFTLOG_SERVE_NATS_URL, or unset it"),
        ("LIFTLOG_SERVE_NATS", "names no setting; write LIFTLOG_SERVE_<TABLE>_<KEY>"),
        ("LIFTLOG_SERVE_NODE_IDD", "names no setting"),
    ],
)
def test_a_variable_that_looks_like_a_setting_is_not_ignored(
    tmp_path: Path, variable: str, words: str
) -> None:
    path = tmp_path / "liftlog.toml"
    path.write_text(GOOD)
    with pytest.raises(LiftlogError, match=words):
        config.load(path, {variable: "x"})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tick_ms = 50", "tick_msec = 50", ("tick_msec", "[protocol]", "session_timeout_ms")),
        ("tick_ms = 50", "tick_ms = 5", ("tick_ms", "10 to 10000")),
        ("tick_ms = 50", 'tick_ms = "50"', ("tick_ms", "whole number")),
        ("tick_ms = 50", "tick_ms = true", ("tick_ms", "whole number")),
        ("tick_ms = 50", "election_min_ms = 5000", ("election_min_ms", "below election_max_ms")),
        ("tick_ms = 50", "fence_margin_ms = 1100", ("lease_ms and fence_margin_ms", "session_timeout_ms")),
        ("tick_ms = 50", "lease_ms = 100", ("lease_ms = 100", "4 times tick_ms")),
        ("tick_ms = 50", "suspicion_ms = 900", ("suspicion_ms", "below election_min_ms")),
        (
            *("tick_ms = 50", "raft_proposal_span = 2047"),
            ("raft_proposal_span = 2047", "2 times raft_inflight_proposals_max = 1024", "raise the one"),
        ),
        ("id = 2", "id = 0", ("id", "1 to 65535")),
        ("id = 2", "", ("id", "missing")),
        ("id = 2", 'id = 2\nlog_format = "xml"', ("log_format", "'text' or 'json'")),
        ("id = 2", "id = 7", ("[peers]", "7")),
        ('listen = "127.0.0.1:4702"', 'listen = "4702"', ("listen", "host:port")),
        ("[nats]", "[nuts]", ("nuts", "[nats]")),
        ('cluster = "test"', 'cluster = "a b"', ("cluster", "letters")),
        ('1 = "127.0.0.1:4801"', 'one = "127.0.0.1:4801"', ("[peers]", "one")),
        ("tick_ms = 50", "tick_ms = = 50", ("not valid TOML", "line")),
        ('secret_file = "/etc/cluster.secret"', "", ("2 nodes", "[security] secret_file", "openssl rand")),
        ('client_secret_file = "/etc/client.secret"', "", ("[security] client_secret_file",)),
        ("[network]", "insecure = true\n[network]", ("insecure = true", "secret_file", "keep one")),
        ("[network]", 'insecure = "yes"\n[network]', ("insecure", "true or false")),
        ("handshake_ms = 700", "handshake_ms = 7", ("handshake_ms", "100 to 60000")),
        ("handshake_ms = 700", "connection_bytes = 900000000", ("connection_bytes", "above clients_bytes")),
        ('listen = "127.0.0.1:4702"', 'listen = "127.0.0.1:4802"', ("127.0.0.1:4802", "[peers]")),
        ('listen = "127.0.0.1:4702"', 'listen = "0.0.0.0:4702"', ("0.0.0.0:4702", "[node] address")),
        ('listen = "127.0.0.1:4702"', 'listen = "h:1"\npeer_listen = "h"', ("peer_listen", "host:port")),
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
    with pytest.raises(LiftlogError, match="LIFTLOG_SERVE_NODE_ID"):
        load(tmp_path, GOOD, {"LIFTLOG_SERVE_NODE_ID": "two"})


def test_a_missing_file_is_named() -> None:
    with pytest.raises(LiftlogError, match=r"/nowhere/liftlog\.toml"):
        config.load(Path("/nowhere/liftlog.toml"), {})


def test_nodes_call_each_other_elsewhere_than_clients_do(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD)
    assert (found.listen, found.address, found.peer_listen) == ("127.0.0.1:4702",) * 2 + ("127.0.0.1:4802",)
    said = load(tmp_path, GOOD.replace('listen = "127', 'peer_listen = "0.0.0.0:9"\nlisten = "127', 1))
    assert said.peer_listen == "0.0.0.0:9"
    alone = GOOD.replace('1 = "127.0.0.1:4801"\n', "")
    assert load(tmp_path, alone).peer_listen == ""
    with pytest.raises(LiftlogError, match="names no other node"):
        load(tmp_path, alone.replace('listen = "127', 'peer_listen = "h:9"\nlisten = "127', 1))


def test_what_is_open_is_said(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).open_to == ""
    secrets = GOOD[GOOD.index("secret_file") : GOOD.index("[network]")]
    opened = load(tmp_path, GOOD.replace(secrets, "insecure = true\n"))
    assert opened.open_to == "speak for a node and read every record and administer"
    assert load(tmp_path, opened.to_toml()) == opened
    alone = GOOD.replace('1 = "127.0.0.1:4801"\n', "").replace(secrets, "")
    assert load(tmp_path, alone).open_to == "read every record and administer"
    text = GOOD.replace(secrets, "")
    assert load(tmp_path, text, {"LIFTLOG_SERVE_SECURITY_INSECURE": "true"}).insecure
    with pytest.raises(LiftlogError, match="LIFTLOG_SERVE_SECURITY_INSECURE"):
        load(tmp_path, text, {"LIFTLOG_SERVE_SECURITY_INSECURE": "1"})


def test_secrets_are_read_and_must_differ(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        ensure_secret_file(path)
    text = GOOD.replace("/etc/cluster.secret", str(one)).replace("/etc/client.secret", str(other))
    found = config.secrets_of(load(tmp_path, text))
    assert found.peers != found.clients
    assert found.peers[0].hex() not in repr(found)
    other.write_text(other.read_text() + one.read_text())
    with pytest.raises(LiftlogError, match="same secret"):
        config.secrets_of(load(tmp_path, text))


def test_V9_a_file_of_clients_stands_beside_the_clients_secret_or_in_its_place(tmp_path: Path) -> None:
    named = 'clients_file = "/etc/clients.toml"\n[network]'
    beside = load(tmp_path, GOOD.replace("[network]", named))
    assert beside.clients_file == Path("/etc/clients.toml")
    assert load(tmp_path, beside.to_toml()) == beside
    only = GOOD.replace('client_secret_file = "/etc/client.secret"', 'clients_file = "/etc/clients.toml"')
    assert (load(tmp_path, only).open_to, load(tmp_path, only).client_secret_file) == ("", None)
    with pytest.raises(LiftlogError, match=r"\[jetstream\] enabled needs \[security\] client_secret_file"):
        load(tmp_path, only + "[jetstream]\nenabled = true\n")
    assert load(tmp_path, beside.to_toml() + "[jetstream]\nenabled = true\n").jetstream
    with pytest.raises(LiftlogError, match="insecure = true and clients_file are both set"):
        alone = only.replace('secret_file = "/etc/cluster.secret"\n', "")
        load(tmp_path, alone.replace("[network]", "insecure = true\n[network]"))
    with pytest.raises(LiftlogError, match=r"2 nodes need \[security\] secret_file"):
        load(tmp_path, only.replace('secret_file = "/etc/cluster.secret"\n', ""))


def test_V9_without_the_shared_secret_nobody_may_do_everything(tmp_path: Path) -> None:
    secret = tmp_path / "one"
    ensure_secret_file(secret)
    text = GOOD.replace("/etc/cluster.secret", str(secret))
    only = text.replace('client_secret_file = "/etc/client.secret"', 'clients_file = "/etc/clients.toml"')
    assert config.secrets_of(load(tmp_path, only)).clients == ()


def test_every_network_setting_has_a_range_that_holds_its_default() -> None:
    assert set(config.NETWORK_RANGES) == set(config.NetworkLimits.__struct_fields__)
    for name, (low, high) in config.NETWORK_RANGES.items():
        assert low <= getattr(config.NetworkLimits(), name) <= high


def test_I3_a_node_that_joins_names_members_and_is_no_voter(tmp_path: Path) -> None:
    joins = GOOD.replace("id = 2", "id = 2\njoin = true")
    node = load(tmp_path, joins).node_config()
    assert (node.joins, node.voters) == (True, (1,))
    assert node.peers == ((1, "127.0.0.1:4801"), (2, "127.0.0.1:4802"))
    assert load(tmp_path, load(tmp_path, joins).to_toml()) == load(tmp_path, joins)
    with pytest.raises(LiftlogError, match=r"join = true, but \[peers\] names no member to ask"):
        load(tmp_path, joins.replace('1 = "127.0.0.1:4801"\n', ""))


def test_every_protocol_setting_has_a_range_that_holds_its_default() -> None:
    defaults = NodeConfig(node=1, voters=(1,))
    other = {"node", "voters", "learners", "peers", "joins", "address", "can_level", "activity_room"}
    other.add("restate_entries")
    assert set(PROTOCOL_RANGES) == set(NodeConfig.__struct_fields__) - other
    for name, (low, high) in PROTOCOL_RANGES.items():
        assert low <= getattr(defaults, name) <= high


def test_metrics_are_told_where_they_are_wanted_and_nowhere_else(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).metrics_listen == ""
    told = load(tmp_path, GOOD + '[metrics]\nlisten = "127.0.0.1:4901"\npartitions_max = 5\n')
    assert (told.metrics_listen, told.metrics_partitions_max) == ("127.0.0.1:4901", 5)
    assert not told.metrics_open
    assert load(tmp_path, told.to_toml()) == told
    places = {"0.0.0.0:1": True, "[::1]:1": False, "localhost:1": False, "10.0.0.1:1": True}
    for address, is_open in places.items():
        assert load(tmp_path, GOOD, {"LIFTLOG_SERVE_METRICS_LISTEN": address}).metrics_open is is_open


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("partitions_max = 5", "partitions_max is set, but nothing is told"),
        ('listen = "4901"', "listen = '4901'; use host:port"),
        ('listen = ""', "listen = ''; use host:port"),
        ('listen = "127.0.0.1:4702"', "where clients or nodes connect already"),
        ('listen = "127.0.0.1:4802"', "where clients or nodes connect already"),
        ('listen = "h:1"\npartitions_max = -1', "accepted: 0 to 100000"),
        ("port = 4901", "unknown key 'port' in"),
    ],
)
def test_metrics_that_cannot_be_told_are_refused(tmp_path: Path, table: str, words: str) -> None:
    with pytest.raises(LiftlogError, match=words):
        load(tmp_path, f"{GOOD}[metrics]\n{table}\n")


@pytest.mark.parametrize("domain", ["", "a.b", "API", "ACK", "x" * 65, "*"])
def test_a_jetstream_domain_is_one_token_of_a_subject(tmp_path: Path, domain: str) -> None:
    with pytest.raises(LiftlogError, match=r"\[jetstream\] domain"):
        load(tmp_path, f'{GOOD}[jetstream]\ndomain = "{domain}"\n')


def test_jetstreams_door_is_shut_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert not load(tmp_path, GOOD).jetstream
    opened = load(tmp_path, GOOD + '[jetstream]\nenabled = true\ndomain = "hub"\n')
    assert (opened.jetstream, opened.jetstream_domain) == (True, "hub")
    assert load(tmp_path, opened.to_toml()) == opened


EAST = """
[clusters.east]
nodes = ["10.1.0.1:4701", "10.1.0.2:4701"]
cluster = "liftlog"
client_secret_file = "/etc/east.secret"
[clusters.west-2]
nodes = ["[::1]:4701"]
insecure = true
"""


def test_other_clusters_are_read_and_written_back(tmp_path: Path) -> None:
    found = load(tmp_path, GOOD + EAST)
    east, west = found.clusters
    assert (east.name, east.cluster, len(east.nodes)) == ("east", "liftlog", 2)
    assert (west.name, west.cluster, west.client_secret_file) == ("west-2", "west-2", None)
    assert load(tmp_path, found.to_toml()) == found
    assert load(tmp_path, GOOD).clusters == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[clusters]\neast = 1", "[clusters.NAME]"),
        ("[clusters.'e t']\nnodes = ['a:1']\ninsecure = true", "as a name"),
        ("[clusters.east]\nnode = ['a:1']", "unknown key 'node'"),
        ("[clusters.east]\nnodes = 'a:1'", "must be a list"),
        ("[clusters.east]\ninsecure = true", "name 1 to 64 of its nodes"),
        ("[clusters.east]\nnodes = ['a']\ninsecure = true", "host:port"),
        ("[clusters.east]\nnodes = ['a:1']", "client_secret_file or insecure"),
        ("[clusters.east]\nnodes = ['a:1']\ninsecure = false", "client_secret_file or insecure"),
        (
            "[clusters.east]\nnodes = ['a:1']\ninsecure = true\nclient_secret_file = 'x'",
            "keep one of them",
        ),
        ("[clusters.east]\nnodes = ['a:1']\ninsecure = true\ncluster = 'a.b'", "cluster = 'a.b'"),
    ],
)
def test_other_clusters_that_cannot_be_asked_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(LiftlogError) as refused:
        load(tmp_path, f"{GOOD}\n{text}\n")
    assert words in str(refused.value)
