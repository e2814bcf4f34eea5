"""Where connections begin: which of them speak TLS, which have to, and who is on the other end of it.

Our own greeting begins with a zero, TLS with a 22: a look at the first byte tells them apart, so that one
port takes both for as long as a cluster goes over from one to the other (`accept`). What the secret proves
comes afterwards, over TLS too, and is bound to the certificate (V6).
"""

from __future__ import annotations

import socket
import ssl

import trio

from liftlog.api.handshake import PEER, REFUSED_PLAIN, HandshakeError
from liftlog.real.certificates import Certificates
from liftlog.real.tlsstream import TcpStream, TlsStream
from liftlog.tls.files import binding_of
from liftlog.tls.settings import ACCEPT, OFF, REQUIRE
from liftlog.tls.words import why_not

TLS_BEGINS = 22
"""The first byte of a TLS connection: its record is one of a handshake."""


class SpeaksNoTls(HandshakeError):
    """Who was called hung up on the first message of TLS, and has said nothing."""


class TlsProblem(HandshakeError):
    """A handshake of TLS has failed, and the text says what to do about it."""


class TlsEntrance:
    """TLS at one of a node's ports."""

    def __init__(self, certificates: Certificates | None, role: int) -> None:
        """`certificates`: None, there are none. `role`: PEER or CLIENT, whom the port is for."""
        self._certificates = certificates
        self._role = role

    @property
    def _mode(self) -> str:
        if self._certificates is None:
            return OFF
        tls = self._certificates.tls
        return tls.peers if self._role == PEER else tls.clients

    @property
    def _whom(self) -> str:
        """The setting of this port."""
        return "peers" if self._role == PEER else "clients"

    def check(self, stream: TcpStream) -> None:
        """Whether it may be spoken like this, when a first message has come. Raises HandshakeError."""
        if self._mode == REQUIRE and not isinstance(stream, TlsStream):
            text = f'it speaks no TLS, and [tls] {self._whom} = "{REQUIRE}" here'
            raise HandshakeError(text, REFUSED_PLAIN)

    def remark(self, stream: TcpStream) -> str:
        """What to say of somebody who is let in as he speaks; empty: nothing."""
        if self._mode != ACCEPT or isinstance(stream, TlsStream):
            return ""
        return f'speaks no TLS, which [tls] {self._whom} = "{ACCEPT}" lets it'

    async def enter(self, plain: trio.SocketStream) -> tuple[TcpStream, bytes]:
        """The connection as it is spoken on from now on, and what the handshake is bound to, empty without
        TLS. Raises HandshakeError, NETWORK_ERRORS.
        """
        first = await plain.socket.recv(1, socket.MSG_PEEK)
        if not first:
            raise trio.BrokenResourceError("hung up before it said anything")
        if first[0] != TLS_BEGINS:
            return plain, b""
        if self._certificates is None or self._mode == OFF:
            whom = "nodes" if self._role == PEER else "clients"
            raise HandshakeError(f"it speaks TLS, which the port for {whom} does not: see [tls] here")
        now, tls = self._certificates.now, self._certificates.tls
        stream = TlsStream(
            plain, now.peers if self._role == PEER else now.clients, server_side=True, host=None
        )
        try:
            await stream.shake_hands()
        except ssl.SSLError as error:
            believed = tls.ca_file if self._role == PEER else tls.client_ca_file
            raise TlsProblem(why_not(error, tls.files, str(believed))) from None
        except (OSError, trio.BrokenResourceError):
            text = f"it hung up when TLS began; perhaps it does not believe {tls.files.shown}"
            raise TlsProblem(text) from None
        return stream, now.binding


class TlsCalls:
    """How a node calls the others."""

    def __init__(self, certificates: Certificates | None) -> None:
        self._certificates = certificates
        self._mode = OFF if certificates is None else certificates.tls.peers

    @property
    def falls_back(self) -> bool:
        """Whether those who speak no TLS are called without."""
        return self._mode == ACCEPT

    async def begin(self, plain: trio.SocketStream, host: str) -> tuple[TcpStream, bytes]:
        """The connection as it is spoken on, and what the handshake is bound to. `host`: empty, without TLS.
        Raises HandshakeError, NETWORK_ERRORS.
        """
        if self._certificates is None or self._mode == OFF or not host:
            return plain, b""
        stream = TlsStream(plain, self._certificates.now.calling, server_side=False, host=host)
        try:
            await stream.shake_hands()
        except ssl.SSLError as error:
            raise self.problem(error, host) from None
        except (OSError, trio.BrokenResourceError):
            if stream.heard:
                raise
            raise SpeaksNoTls("it hung up when TLS began: it speaks none there, or stops") from None
        return stream, binding_of(stream.shown)

    def problem(self, error: ssl.SSLError, host: str) -> TlsProblem:
        """Why TLS has failed. The other side may say so only when it has read our certificate."""
        assert self._certificates is not None
        files = self._certificates.tls.files
        return TlsProblem(why_not(error, files, str(files.ca_file), host))
