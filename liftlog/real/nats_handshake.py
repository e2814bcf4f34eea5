"""How a node's connection to NATS begins: INFO, perhaps TLS, CONNECT, and the PONG that says we are let in.

The server speaks first, in the clear; only then does TLS begin. Whoever sits in between could send more
behind INFO than the server did, and have it believed as if it had come through TLS. So nothing that was
received before the handshake is kept: one byte more than INFO ends the attempt.
"""

from __future__ import annotations

import json
import ssl
from typing import Any

import trio

from liftlog.nats_login import NatsLogin, refusal
from liftlog.real import nats_wire
from liftlog.real.nats_wire import NatsAddress

READ_BYTES = 64 * 1024
LINE_MAX_BYTES = 64 * 1024


class ConnectionLost(Exception):
    """The connection to NATS ended, or has to end; the text says why."""


async def log_in(
    stream: trio.abc.Stream, address: NatsAddress, login: NatsLogin, name: str, version: str
) -> tuple[trio.abc.Stream, bytes, int]:
    """Log in on a fresh connection; returns what to talk through from now on, what came behind the PONG, and
    how many bytes a message may have there; 0 = that is not said.

    Raises ConnectionLost with reason and remedy, and what the stream raises.
    """
    line, rest = await _read_line(stream, b"")
    info = _parse_info(line)
    if address.tls or login.wants_tls or info.get("tls_required") is True:
        if rest:
            raise ConnectionLost(
                f"{len(rest)} bytes came in the clear between INFO and the TLS handshake, as no NATS server "
                "sends them: somebody may sit in between"
            )
        if info.get("tls_verify") is True and login.cert_file is None:
            raise ConnectionLost("it wants a client certificate: give it a certificate file and its key")
        address = address._replace(tls=True)
        stream = trio.SSLStream(stream, login.tls_context(), server_hostname=address.host)
        await stream.do_handshake()
    proof = login.proof(_nonce(info, address)) if login.signs else {}
    given = bool(proof or address.user or address.token or login.cert_file)
    asked = info.get("auth_required") is True
    if asked and not given:
        raise ConnectionLost(refusal(asked, given, ""))
    try:
        await stream.send_all(nats_wire.connect_line(address, name, version, proof))
        largest = info.get("max_payload")
        return stream, await _await_pong(stream, rest), largest if isinstance(largest, int) else 0
    except (trio.BrokenResourceError, _Ended) as error:
        # A server that turns us away closes at once, and its word of farewell may get lost with the
        # connection.
        if asked and not isinstance(error.__cause__, ssl.SSLError):
            raise ConnectionLost(refusal(asked, given, "")) from None
        raise
    except _Refused as error:
        raise ConnectionLost(refusal(asked, given, str(error)) if asked else str(error)) from None


class _Refused(Exception):
    """The server said -ERR; the text is its own."""


class _Ended(ConnectionLost):
    """The server closed the connection before it let us in."""


def _parse_info(line: bytes) -> dict[str, Any]:
    verb, _, text = line.partition(b" ")
    try:
        info = json.loads(text) if verb == b"INFO" else None
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict):
        raise ConnectionLost("not a NATS server")
    return info


def _nonce(info: dict[str, Any], address: NatsAddress) -> str:
    nonce = info.get("nonce")
    if not isinstance(nonce, str) or not nonce:
        raise ConnectionLost(
            f"{address} knows nothing of nkeys, its INFO has no nonce to sign: take the credentials or nkey "
            "file out of the configuration, or give that server its users' keys"
        )
    return nonce


async def _await_pong(stream: trio.abc.Stream, rest: bytes) -> bytes:
    while True:
        line, rest = await _read_line(stream, rest)
        if line == b"PONG":
            return rest
        if line.startswith(b"-ERR"):
            raise _Refused(line[4:].strip(b" '").decode("utf-8", "replace"))
        if line == b"PING":
            await stream.send_all(b"PONG\r\n")


async def _read_line(stream: trio.abc.Stream, rest: bytes) -> tuple[bytes, bytes]:
    """One line without its end, and what came after it."""
    while b"\r\n" not in rest:
        if len(rest) > LINE_MAX_BYTES:
            raise ConnectionLost("not a NATS server")
        data = await stream.receive_some(READ_BYTES)
        if not data:
            raise _Ended("the server closed the connection during login")
        rest += bytes(data)
    line, _, rest = rest.partition(b"\r\n")
    return line, rest
