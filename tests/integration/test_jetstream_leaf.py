"""The door's leaf node connection with a nats-server: how it logs in, what it delivers, what it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

from liftlog.jetstream.leaf import Leaf, LeafAway, LeafMessage
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.real.nats_server import NatsServer, free_port
from tests.integration.nats_keys import Authority, Key, configured_server

pytestmark = pytest.mark.real


async def delivers(server: NatsServer, leaf: Leaf) -> None:
    """Wait until it is connected, and see that a message comes as a stream's."""
    running = asyncio.create_task(leaf.run())
    connection = await nats.connect(server.url)
    try:
        async with asyncio.timeout(20):
            await leaf.ready.wait()
            inbox = connection.new_inbox()
            assert not leaf.hears(inbox)
            subscription = await connection.subscribe(inbox)
            await leaf.heard(inbox)
            reply = "$JS.ACK.S.C.1.7.3.1234.0"
            await leaf.send([LeafMessage(inbox, reply, b"NATS/1.0\r\nA: b\r\n\r\n", b"hello", "orders.new")])
            message = await subscription.next_msg(10)
            assert (message.subject, message.reply, message.data) == ("orders.new", reply, b"hello")
            assert message.headers == {"A": "b"}
            members = [await connection.subscribe("to", "workers") for _ in range(2)]
            await leaf.heard("to")
            await leaf.send([LeafMessage("to", body=b"%d" % number) for number in range(20)])
            await connection.flush()
            await leaf.send([LeafMessage(inbox, body=b"end")])
            assert (await subscription.next_msg(10)).data == b"end"
            assert sum(member.pending_msgs for member in members) == 20
            await subscription.unsubscribe()
            await leaf.unheard(inbox)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await connection.close()


def serve(folder: Path, extra: str) -> tuple[NatsServer, int]:
    port = free_port()
    config = f'leafnodes {{ listen: "127.0.0.1:{port}"\n{extra} }}\n'
    return configured_server(folder, config), port


def tried(server: NatsServer, url: str, login: NatsLogin = NO_LOGIN) -> None:
    server.start()
    try:
        asyncio.run(delivers(server, Leaf(url, "a-door", login)))
    finally:
        server.stop()


def test_without_a_login(tmp_path: Path) -> None:
    server, port = serve(tmp_path, "")
    tried(server, f"nats-leaf://127.0.0.1:{port}")


def test_with_a_password(tmp_path: Path) -> None:
    server, port = serve(tmp_path, 'authorization { user: "door", password: "se:cret" }')
    tried(server, f"nats-leaf://door:se%3Acret@127.0.0.1:{port}")


def test_with_an_nkey(tmp_path: Path) -> None:
    key = Key("user")
    server, port = serve(tmp_path, f'authorization {{ nkey: "{key.public}" }}')
    login = NatsLogin(nkey_file=key.write(tmp_path / "door.nk"))
    tried(server, f"nats-leaf://127.0.0.1:{port}", login)


def test_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("server")
    server, port = serve(tmp_path, f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}')
    tried(server, f"nats-leaf://127.0.0.1:{port}", NatsLogin(ca_file=authority.ca_file))


def test_without_a_port_nothing_is_sent() -> None:
    async def story() -> None:
        leaf = Leaf("", "a-door")
        await leaf.run()
        with pytest.raises(LeafAway, match="leafnodes"):
            await leaf.send([LeafMessage("to")])

    asyncio.run(story())
