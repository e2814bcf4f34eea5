"""Logging in to NATS: every way there is, what a wrong one says, nothing believed that came in the clear."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from liftlog.client import Client, Unreachable
from liftlog.messages import BusUp, Event, Published
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.real.bus import NatsBus
from liftlog.real.clock import RealClock
from liftlog.real.local_cluster import LocalCluster
from liftlog.real.nats_server import NatsServer
from liftlog.real.nats_wire import parse_url
from liftlog.types import LiftlogError
from tests.integration.cluster import liftlog
from tests.integration.nats_keys import Authority, Key, Operator, configured_server

pytestmark = pytest.mark.real

SECRET_TLS = "tls { cert_file: %s, key_file: %s, ca_file: %s, verify: true }\n"


class Way:
    """One way to log in: a server that asks for it, and files that are right and wrong."""

    def __init__(
        self, server: NatsServer, right: NatsLogin, wrong: NatsLogin, said: str, prefix: str = ""
    ) -> None:
        self.server, self.right, self.wrong, self.said = server, right, wrong, said
        self.prefix = prefix

    @property
    def url(self) -> str:
        return f"nats://{self.prefix}127.0.0.1:{self.server.port}"


def by_nkey(folder: Path) -> Way:
    user, stranger = Key("user"), Key("user")
    server = configured_server(folder, f"authorization {{ users: [ {{ nkey: {user.public} }} ] }}\n")
    right = NatsLogin(nkey_file=user.write(folder / "user.nk"))
    return Way(server, right, NatsLogin(nkey_file=stranger.write(folder / "other.nk")), "refuses this login")


def by_credentials(folder: Path) -> Way:
    operator, stranger = Operator(), Operator()
    server = configured_server(folder, operator.config())
    right = NatsLogin(credentials_file=operator.user(folder / "user.creds", "node"))
    wrong = NatsLogin(credentials_file=stranger.user(folder / "other.creds", "node"))
    return Way(server, right, wrong, "refuses this login")


def by_certificate(folder: Path) -> Way:
    folder.mkdir(exist_ok=True)
    authority, stranger = Authority(folder / "ca"), Authority(folder / "other")
    certificate, key = authority.issue("server")
    server = configured_server(folder, SECRET_TLS % (certificate, key, authority.ca_file))
    right = NatsLogin(None, None, authority.ca_file, *authority.issue("node"))
    return Way(server, right, NatsLogin(None, None, authority.ca_file, *stranger.issue("node")), "unknown ca")


WAYS = [by_nkey, by_credentials, by_certificate]


@asynccontextmanager
async def running_bus(url: str, login: NatsLogin, events: list[Event]) -> AsyncIterator[NatsBus]:
    bus = NatsBus(parse_url(url), "test", "0", events.append, RealClock(), login)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.run)
        yield bus
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    with trio.move_on_after(15):
        while not condition():
            await trio.sleep(0.01)
        return
    raise AssertionError(what())


@pytest.mark.trio
@pytest.mark.parametrize("make", WAYS)
async def test_a_node_logs_in_and_a_wrong_login_is_named(make: Callable[[Path], Way], tmp_path: Path) -> None:
    way = make(tmp_path)
    way.server.start()
    try:
        async with running_bus(way.url, way.right, []) as bus:
            await until(lambda: bus.connected, lambda: bus.last_error)
        async with running_bus(way.url, way.wrong, []) as bus:
            await until(lambda: way.said in bus.last_error.lower(), lambda: bus.last_error)
            assert not bus.connected
        async with running_bus(way.url, NO_LOGIN, []) as bus:
            await until(lambda: "it wants a" in bus.last_error, lambda: bus.last_error)
            assert not bus.connected
    finally:
        way.server.stop()


@pytest.mark.parametrize("make", WAYS)
def test_nodes_and_clients_use_the_same_files(make: Callable[[Path], Way], tmp_path: Path) -> None:
    way = make(tmp_path / "nats")
    way.server.start()
    options = [
        word
        for option, path in zip(
            ("--nats-credentials", "--nats-nkey", "--nats-ca", "--nats-cert", "--nats-key"),
            (getattr(way.right, field) for field in NatsLogin.__struct_fields__),
            strict=True,
        )
        if path is not None
        for word in (option, str(path))
    ]
    try:
        with LocalCluster(tmp_path / "nodes", 1, nats_url=way.url, nats_login=way.right):
            where = ("--nats", way.url, *options)
            assert liftlog("stream", "create", "orders", "orders.>", *where)[0] == 0
            assert liftlog("pub", "orders.new", "hello", *where)[0] == 0
            code, output, error = liftlog("sub", "orders", "--count", "1", *where)
            assert (code, output, error) == (0, "0/0  orders.new  hello\n", "")
            code, _, error = liftlog("stream", "ls", "--nats", way.url, "--timeout", "5")
            assert code == 2
            assert error.count("\n") == 1
            assert "it wants a" in error or "CERTIFICATE_VERIFY_FAILED" in error
    finally:
        way.server.stop()


@pytest.mark.parametrize(
    ("options", "url", "words"),
    [
        (("--user", "u", "--pass", "p"), "", "it wants a login: put it into the URL"),
        (("--user", "u", "--pass", "p"), "u:wrong@", "it refuses this login"),
        (("--auth", "t"), "", "it wants a login: put it into the URL"),
        (("--auth", "t"), "other@", "it refuses this login"),
    ],
)
def test_a_nats_that_wants_a_password_gives_one_clear_message(
    tmp_path: Path, options: tuple[str, ...], url: str, words: str
) -> None:
    server = NatsServer(tmp_path, extra=options)
    server.start()
    try:
        address = f"nats://{url}127.0.0.1:{server.port}"
        code, _, error = liftlog("stream", "ls", "--nats", address)
        assert (code, error.count("\n")) == (2, 1)
        assert f"127.0.0.1:{server.port}: {words}" in error
        assert "wrong" not in error and "reset" not in error
    finally:
        server.stop()


@pytest.mark.trio
@pytest.mark.parametrize("tls", ["required by the server", "asked for in the URL", "by a CA file"])
async def test_what_came_in_the_clear_before_tls_is_not_believed(tmp_path: Path, tls: str) -> None:
    """A fake server completed a login and injected a message: all of it lay behind INFO, before TLS."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    after_tls = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        info = {"tls_required": True} if tls == "required by the server" else {}
        await stream.send_all(
            b"INFO " + json.dumps(info).encode() + b"\r\nPONG\r\nMSG orders.new 1 5\r\nhello\r\n"
        )
        secure = trio.SSLStream(stream, context, server_side=True)
        try:
            await secure.do_handshake()
            after_tls.set()
            await trio.sleep_forever()
        except trio.BrokenResourceError:
            pass

    events: list[Event] = []
    login = NatsLogin(ca_file=authority.ca_file)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        scheme = "tls" if tls == "asked for in the URL" else "nats"
        async with running_bus(f"{scheme}://127.0.0.1:{port}", login, events) as bus:
            await until(lambda: "in the clear" in bus.last_error, lambda: bus.last_error)
        nursery.cancel_scope.cancel()
    assert not after_tls.is_set()
    assert not [event for event in events if isinstance(event, BusUp | Published)]


def test_files_that_cannot_be_used_are_named_with_a_remedy(tmp_path: Path) -> None:
    user = Key("user").write(tmp_path / "user.nk")
    account = Key("account").write(tmp_path / "account.nk")
    text = tmp_path / "text"
    text.touch(mode=0o600)
    text.write_text("no seed at all")
    loose = Key("user").write(tmp_path / "loose.nk")
    loose.chmod(0o644)
    certificate, key = Authority(tmp_path / "ca").issue("node")
    cases: list[tuple[NatsLogin, str, str]] = [
        (NatsLogin(nkey_file=user, credentials_file=text), "nats://h", "keep one"),
        (NatsLogin(nkey_file=user), "nats://u:p@h", "keep one"),
        (NatsLogin(nkey_file=tmp_path / "absent"), "nats://h", "cannot read the NATS login file"),
        (NatsLogin(nkey_file=text), "nats://h", "no seed of an nkey"),
        (NatsLogin(nkey_file=account), "nats://h", "begin with SU"),
        (NatsLogin(nkey_file=loose), "nats://h", f"chmod 600 {loose}"),
        (NatsLogin(credentials_file=text), "nats://h", "no NATS credentials file"),
        (NatsLogin(ca_file=text), "nats://h", f"cannot use {text} as a NATS CA file"),
        (NatsLogin(ca_file=tmp_path / "absent"), "nats://h", "No such file"),
        (NatsLogin(key_file=key), "nats://h", "without a certificate"),
        (
            NatsLogin(cert_file=certificate),
            "nats://h",
            f"cannot use {certificate} as a NATS client certificate",
        ),
        (NatsLogin(cert_file=certificate, key_file=text), "nats://h", f"{certificate} and {text}"),
    ]
    for login, url, words in cases:
        with pytest.raises(LiftlogError) as caught:
            login.check(url)
        assert words in str(caught.value), words
        assert "\n" not in str(caught.value)
    NatsLogin(nkey_file=user).check("nats://h")


def test_a_client_with_a_ca_never_speaks_in_the_clear(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = NatsServer(tmp_path / "nats")
    server.start()
    try:
        with pytest.raises(Unreachable, match="TLS"):
            asyncio.run(Client.connect(server.url, login=NatsLogin(ca_file=authority.ca_file)))
    finally:
        server.stop()
