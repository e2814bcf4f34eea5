"""Files of certificates: what a configuration says of them, and each mistake with its remedy."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from liftlog import config
from liftlog.cli import main
from liftlog.real.authority import Authority as LocalAuthority
from liftlog.real.certificates import Certificates
from liftlog.security import ensure_secret_file
from liftlog.tls.files import OPTIONS, VARIABLES, TlsFiles, client_tls
from liftlog.tls.looking import DAY_S, look
from liftlog.tls.settings import NodeTls
from liftlog.types import LiftlogError
from tests.integration.nats_keys import Authority

HOST = "127.0.0.1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def files_of(authority: Authority, name: str = "node", **how: object) -> TlsFiles:
    return TlsFiles(authority.ca_file, *authority.issue(name, **how))  # type: ignore[arg-type]


def problem(files: TlsFiles, host: str = HOST, callers: Path | None = None) -> str:
    with pytest.raises(LiftlogError) as caught:
        look(files, host, callers)
    return str(caught.value)


def test_a_good_certificate_is_believed_for_its_hosts_and_says_how_long(authority: Authority) -> None:
    files = files_of(authority, days=40)
    found = look(files, HOST, files.ca_file)
    assert found == look(files, "localhost", None)
    assert set(found.hosts) == {"localhost", HOST}
    assert found.days_left(time.time()) == 39
    assert found.days_left(time.time() + 41 * DAY_S) < 0


def test_each_fault_of_a_certificate_is_named_with_its_remedy(authority: Authority, tmp_path: Path) -> None:
    assert "has expired; a new one is needed" in problem(files_of(authority, begins_days=-3, days=-1))
    assert "is not valid yet; set the clocks" in problem(files_of(authority, begins_days=1, days=3))
    elsewhere = problem(files_of(authority, host="node-9.example"))
    assert f"is not for {HOST}, where it is called" in elsewhere and "subjectAltName" in elsewhere
    stranger = Authority(tmp_path / "other")
    other = TlsFiles(authority.ca_file, *stranger.issue("node"))
    assert f"is of no CA in {authority.ca_file}; both sides need the same CA" in problem(other)
    servers = files_of(authority, use=ExtendedKeyUsageOID.SERVER_AUTH)
    assert look(servers, HOST, None).hosts
    assert "is for another use; it must be for servers and for clients" in problem(
        servers, HOST, servers.ca_file
    )


def test_files_that_cannot_be_used_are_named_with_the_setting(authority: Authority, tmp_path: Path) -> None:
    good = files_of(authority)
    other = files_of(authority, "other")
    assert good.cert_file is not None and good.key_file is not None
    mixed = TlsFiles(good.ca_file, good.cert_file, other.key_file)
    assert f"--tls-key: the key {other.key_file} does not belong to the certificate" in problem(mixed)
    missing = TlsFiles(tmp_path / "none.pem", good.cert_file, good.key_file)
    assert f"--tls-ca: cannot read {tmp_path / 'none.pem'}: No such file" in problem(missing)
    swapped = TlsFiles(good.key_file, good.cert_file, good.key_file)
    assert f"--tls-ca: {good.key_file} holds no certificate of a CA" in problem(swapped)
    text = tmp_path / "text.pem"
    text.write_text("not a certificate\n")
    assert "are no certificate and its key, in PEM" in problem(TlsFiles(good.ca_file, text, good.key_file))
    os.chmod(good.key_file, 0o644)
    assert problem(good) == (
        f"--tls-key: other users may read or change {good.key_file}; run: chmod 600 {good.key_file}"
    )
    os.chmod(good.key_file, 0o640)
    assert look(good, HOST, None)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(authority: Authority, tmp_path: Path) -> None:
    local = LocalAuthority(tmp_path / "local")
    local.ensure()
    files = local.issue("node-1", HOST, time.time())
    assert files.key_file is not None
    sealed = tmp_path / "sealed.key"
    words = ("pkey", "-in", files.key_file, "-aes256", "-passout", "pass:secret", "-out", sealed)
    local._openssl(*words)
    sealed.chmod(0o600)
    assert "is encrypted with a password" in problem(TlsFiles(files.ca_file, files.cert_file, sealed))


def test_a_local_authority_keeps_what_is_good_and_renews_what_ends(tmp_path: Path) -> None:
    local, now_s = LocalAuthority(tmp_path / "tls"), time.time()
    local.ensure()
    first = local.issue("node-1", HOST, now_s)
    before = (local.ca_file.read_bytes(), first.binding())
    local.ensure()
    assert (local.ca_file.read_bytes(), local.issue("node-1", HOST, now_s).binding()) == before
    renewed = local.issue("node-1", HOST, now_s + 340 * DAY_S)
    assert local.ca_file.read_bytes() == before[0] and renewed.binding() != before[1]
    assert look(renewed, HOST, renewed.ca_file).hosts == (HOST, "localhost")
    assert renewed.key_file is not None and renewed.key_file.stat().st_mode & 0o77 == 0


def test_a_client_s_files_come_from_options_then_from_the_environment() -> None:
    environment = dict(zip(VARIABLES, ("/e/ca", "/e/cert", "/e/key"), strict=True))
    assert client_tls(None, None, None, {}) is None
    found = client_tls(None, None, None, environment)
    assert found == TlsFiles(Path("/e/ca"), Path("/e/cert"), Path("/e/key"), VARIABLES)
    mixed = client_tls("/o/ca", None, None, environment)
    assert mixed is not None and mixed.ca_file == Path("/o/ca") and mixed.names[0] == OPTIONS[0]
    assert client_tls("none", None, None, environment) is None
    with pytest.raises(LiftlogError, match="--tls-cert is given without --tls-key"):
        client_tls("/o/ca", "/o/cert", None, {})
    with pytest.raises(LiftlogError, match="--tls-cert is given without --tls-ca: say whose"):
        client_tls(None, "/o/cert", "/o/key", {})


# -- a node's configuration --------------------------------------------------------------------------------

NODE = """
[node]
id = 1
data = "/tmp/n1"
listen = "127.0.0.1:4701"
[peers]
1 = "127.0.0.1:4801"
2 = "127.0.0.1:4802"
[security]
secret_file = "{folder}/cluster.secret"
client_secret_file = "{folder}/client.secret"
"""


def written(folder: Path, tls: str, text: str = NODE) -> Path:
    for name in ("cluster.secret", "client.secret"):
        ensure_secret_file(folder / name)
    path = folder / "liftlog.toml"
    path.write_text(text.format(folder=folder) + tls)
    return path


def table(files: TlsFiles, more: str = "") -> str:
    return (
        f'[tls]\nca_file = "{files.ca_file}"\ncert_file = "{files.cert_file}"\n'
        f'key_file = "{files.key_file}"\n{more}\n'
    )


def test_a_table_is_read_and_written_back_to_the_same(authority: Authority, tmp_path: Path) -> None:
    files = files_of(authority)
    more = f'client_ca_file = "{files.ca_file}"\npeers = "accept"\n'
    first = config.load(written(tmp_path, table(files, more)), {})
    assert first.tls == NodeTls(
        files.ca_file,
        *(Path(str(files.cert_file)), Path(str(files.key_file))),
        client_ca_file=files.ca_file,
        peers="accept",
    )
    again = tmp_path / "again.toml"
    again.write_text(first.to_toml())
    assert config.load(again, {}) == first
    changed = config.load(again, {"LIFTLOG_SERVE_TLS_PEERS": "require"})
    assert changed.tls is not None and changed.tls.peers == "require"


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        ('[tls]\ncert_file = "c"\n', r"\[tls\] ca_file is missing; a node needs the CA's certificate"),
        ('[tls]\nca_file = "c"\ncert_file = "c"\n', r"\[tls\] key_file is missing"),
        ("{all}clients = 'maybe'\n", r"\[tls\] clients = 'maybe'; use \"require\", \"accept\""),
        ("{all}clients = 'off'\npeers = 'off'\n", "names files, and nothing that would use them"),
        ("{all}clients = 'off'\nclient_ca_file = 'c'\n", "nobody would be asked for a certificate"),
        ("{all}port = 'x'\n", r"unknown key 'port' in \[tls\]; there are: ca_file, cert_file"),
        ("{all}peers = true\n", r"\[tls\] peers = True; it must be a text in quotes"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(tmp_path: Path, tls: str, said: str) -> None:
    everything = '[tls]\nca_file = "a"\ncert_file = "b"\nkey_file = "c"\n'
    with pytest.raises(LiftlogError, match=said):
        config.load(written(tmp_path, tls.replace("{all}", everything)), {})


def test_config_check_says_until_when_and_what_is_still_open(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(tls: str) -> tuple[int, str]:
        code = main(["config", "check", str(written(tmp_path, tls))])
        told = capsys.readouterr()
        return code, told.out + told.err

    code, said = check("")
    assert code == 0 and "# no TLS: whoever can listen on the way reads what passes" in said
    long = files_of(authority, "long", days=400)
    code, said = check(table(long))
    assert code == 0 and f"# TLS: {long.cert_file} is for localhost, 127.0.0.1, and valid until 20" in said
    assert "WARNING" not in said and "without it" not in said
    code, said = check(table(files_of(authority, days=29.5), 'peers = "accept"\nclients = "off"\n'))
    assert code == 0 and "29 days" in said and "WARNING: the certificate ends soon" in said
    assert 'nodes may still speak without it; say peers = "require" in the end' in said
    assert "clients speak without it, and whoever can listen on the way reads that" in said
    code, said = check(table(files_of(authority, begins_days=-3, days=-1)))
    assert code == 2 and "others would not believe" in said and "has expired" in said
    code, said = check(table(files_of(authority, host="elsewhere.example")))
    assert code == 2 and "is not for 127.0.0.1, where it is called" in said
    assert main(["config", "check", str(written(tmp_path, table(long))), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tls"]["clients"] == "require" and "valid until" in told["tls_told"][0]


# -- files that change -------------------------------------------------------------------------------------


class Now:
    def __init__(self) -> None:
        self.s = time.time()

    def __call__(self) -> float:
        return self.s


def put(source: TlsFiles, target: TlsFiles, *which: str) -> None:
    """Write files over others, as `cp` does."""
    for name in which:
        getattr(target, name).write_bytes(getattr(source, name).read_bytes())


def in_force(authority: Authority, days: float = 100) -> tuple[Certificates, TlsFiles, Now]:
    files, now = files_of(authority, "shown", days=days), Now()
    assert files.cert_file is not None and files.key_file is not None
    tls = NodeTls(files.ca_file, files.cert_file, files.key_file)
    return Certificates(tls, HOST, HOST, now), files, now


def test_a_certificate_that_is_replaced_is_shown_from_the_next_look_on(authority: Authority) -> None:
    held, files, _ = in_force(authority)
    before = held.now
    held.refresh()
    assert held.now is before
    put(files_of(authority, "new", days=200), files, "cert_file", "key_file")
    held.refresh()
    assert held.now.binding != before.binding
    assert held.counters["tls.read"] == 1 and held.counters["tls.mistaken"] == 0
    assert 199 * DAY_S < held.counters["tls.left_s"] < 200 * DAY_S


def test_files_that_change_one_after_another_are_no_mistake(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    held, files, _ = in_force(authority)
    new = files_of(authority, "new")
    before = held.now
    put(new, files, "cert_file")
    held.refresh()
    assert held.now is before and held.counters["tls.mistaken"] == 0
    put(new, files, "key_file")
    held.refresh()
    assert held.now is not before and held.counters == {
        "tls.mistaken": 0,
        "tls.read": 1,
        "tls.left_s": held.counters["tls.left_s"],
    }
    assert "does not belong" not in caplog.text


def test_a_mistake_leaves_the_older_certificate_in_force_and_is_told_once(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    held, files, _ = in_force(authority)
    before = held.now
    put(files_of(authority, "old", begins_days=-3, days=-1), files, "cert_file", "key_file")
    for _ in range(4):
        held.refresh()
    assert held.now is before and held.counters["tls.mistaken"] == 1
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1 and "shows the certificate that it had" in told[0] and "has expired" in told[0]
    put(files_of(authority, "new"), files, "cert_file", "key_file")
    held.refresh()
    assert held.now is not before and held.counters["tls.mistaken"] == 0


def test_a_certificate_that_ends_soon_is_in_the_log_once_a_day(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    held, _, now = in_force(authority, days=31)
    held.refresh()
    assert not caplog.records
    now.s += 2 * DAY_S
    held.refresh()
    held.refresh()
    now.s += DAY_S
    held.refresh()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 and "28 days more: write a new one there" in told[0]
    now.s += 40 * DAY_S
    held.refresh()
    assert "has expired" in caplog.records[-1].getMessage() and caplog.records[-1].levelname == "ERROR"
    assert held.counters["tls.left_s"] == 0


def test_the_commands_and_the_table_of_the_page_make_what_nodes_believe(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text()
    section = page[page.index("\n## TLS\n") : page.index("\n## Rights\n")]
    commands = section[section.index("```sh\n") + 6 :].partition("```")[0]
    done = subprocess.run(
        ["sh", "-e", "-c", commands.replace("/etc/liftlog", str(tmp_path))], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    table_of_page = section[section.index("```toml\n") + 8 :].partition("```")[0]
    node = NODE.replace("127.0.0.1:4801", "10.0.0.1:4801").replace("127.0.0.1:4701", "10.0.0.1:4701")
    path = written(tmp_path, table_of_page.replace("/etc/liftlog", str(tmp_path)), node)
    tls = config.load(path, {}).tls
    assert tls is not None
    assert tls.look("10.0.0.1", "node-1.example.com").hosts == ("10.0.0.1", "node-1.example.com")
    for line in ("# peers = ", "# clients = ", "# client_ca_file = "):
        assert line in table_of_page
