"""Who is on the other end of a TCP connection: both sides prove that they know a secret (V6), without IO.

    caller                                             answerer
      | hello: versions, role, ids, cluster, nonce, which tags I can make  ->
      |  <-  challenge: id, nonce, version and tags that we use   |
      | proof: an HMAC for each secret I know  ->      |  nothing was proved to a stranger so far
      |  <-  welcome: an HMAC of the same secret       |  or `refused`, with a reason that helps no guesser

Every HMAC-SHA256 covers what both sides believe the conversation to be: protocol versions, role, cluster,
both node ids and both nonces, under a label of its own for each use. Each side puts in *its own* cluster and
id, and the caller the id of the node that it means to reach. What follows from that:

- a recorded conversation is worth nothing in the next one, whose nonces are others;
- a message sent back to its author, or used in the other role, has a wrong label and ids in wrong places;
- who stands in the middle and passes everything on to another node makes ids differ, and the proof fails;
- a secret of clients proves nothing to peers: the role is covered, and the secrets are others anyway.

The caller proves first, so that a stranger who connects gets a nonce and nothing that was made with the
secret. Both may hold several secrets, the present one and those before or after it: the caller sends a proof
for each, and the first one of the answerer's that fits is used. That is how a secret is changed while the
cluster runs (docs/security.md).

Out of the same secret and conversation come keys for the frames that follow (`liftlog/api/tags.py`). How
their tags are made is agreed on in passing; nobody can talk two nodes into the slower way, since the hello
and the choice are covered as well. So is the version of the protocol (U1): the caller offers a range, the
answerer takes the highest that both speak. Release 0.1.0 speaks version 2 only, and has to understand this:
the hello names the lowest version where 0.1.0 has its only one, and how many more there are in bits of the
tags that 0.1.0 covers and does not look at; the challenge names the choice in the same bits, which are zero
when 0.1.0 answers.

Where TLS is spoken below (ADR 0100) both sides put into it which certificate the answerer shows: who stands
between two TLS connections of his own, with another certificate that is believed, passes on what fails.

All messages have a fixed layout and are at most `FRAME_MAX_BYTES` long: there is nothing to nest and nothing
to grow before somebody is known. A machine is used for one connection; after an error it is of no more use.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Collection
from struct import Struct as Layout
from typing import Any

import msgspec

VERSION = 3
"""Of the TCP protocol, the frames after the handshake included: the highest that we speak."""
VERSIONS = (2, VERSION)
"""The lowest and the highest. 2: release 0.1.0."""
FRAME_MAX_BYTES = 256
"""No message of the handshake is longer."""
NONCE_BYTES = 32
SECRETS_MAX = 4
"""So many one party proves to know."""
ACCEPTED_MAX = 2048
"""So many an answerer accepts: every client may have some of its own (V9)."""
CLIENT_NODE = 0
"""The id of every client; also what a caller names who does not know which node it reaches."""
PEER, CLIENT = 1, 2
"""Roles of a caller."""
HMAC_TAGS, GMAC_TAGS = 1, 2
"""Ways to make tags, as bits; everybody can the first."""

NO_SECRET = bytes(32)
"""What everybody knows: stands for the secret where none is asked for (`insecure = true`)."""

_MAGIC = b"LLOG"
_START = Layout(">4sH")
_HELLO = Layout(">4sHBBHH32sB")
_CHALLENGE = Layout(">BBH32s")
_WELCOME = Layout(">B32s")
_REFUSED = Layout(">BB")
_REFUSED_VERSIONS = Layout(">BBHH")
_TAGS_BITS = 2
"""The lower bits of a byte that says which tags; those above count versions from the hello's lowest on."""
_TAGS_MASK = (1 << _TAGS_BITS) - 1
_MORE_MAX = 63
_CHALLENGE_KIND, _PROOF_KIND, _WELCOME_KIND, _REFUSED_KIND = 2, 3, 4, 5
_PROOF_BYTES = 32
_CLUSTER = re.compile(rb"[A-Za-z0-9_\-]{1,64}")

REFUSED_VERSION, REFUSED_DOOR, REFUSED_PROOF, REFUSED_NODE, REFUSED_FULL, REFUSED_PLAIN = 1, 2, 3, 4, 5, 6
"""Why an answerer refuses. VERSION, DOOR, FULL and PLAIN say nothing about the secret, NODE only to who knows
it.
"""

REASONS = {
    REFUSED_VERSION: "it speaks none of our protocol versions: upgrade liftlog on the older side",
    REFUSED_DOOR: "this port is for others; nodes call what [peers] names, clients what [node] listen names",
    REFUSED_PROOF: "the secret or the name of the cluster is another one there",
    REFUSED_NODE: "this node is none of its cluster; to make it one: 'liftlog cluster add NODE HOST:PORT'",
    REFUSED_FULL: "it has as many connections as it may have; try again later",
    REFUSED_PLAIN: "it takes connections with TLS only; nodes need a table [tls], clients the CA's file with "
    "--tls-ca FILE (or LIFTLOG_CLIENT_TLS_CA)",
}
"""What the caller's side says about a refusal."""


Versions = tuple[int, int]
"""The lowest and the highest version of the protocol that somebody speaks."""
ONLY_FIRST: Versions = (2, 2)
"""Release 0.1.0: it knows refusals of two bytes only."""


class HandshakeError(Exception):
    """The other side is not who it should be, or says that we are not.

    `code`: one of the REFUSED_* numbers if a refusal was sent or received, else 0. `versions`: what we speak,
    for a caller who can read that in a refusal. The text is for our own log.
    """

    def __init__(self, text: str, code: int = 0, versions: Versions | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.versions = versions


class Party(msgspec.Struct, frozen=True):
    """One side, as it knows itself. `secrets`: those it accepts, the present one first; see `NO_SECRET`."""

    cluster: str
    node: int
    secrets: tuple[bytes, ...]

    def __repr__(self) -> str:
        """Without the secrets, which must not get into a log."""
        return f"Party(cluster={self.cluster!r}, node={self.node})"


class SecureSession(msgspec.Struct, frozen=True):
    """What both sides know in the end: who the other one is, and a key for the frames of each direction."""

    node: int
    caller_key: bytes
    answerer_key: bytes
    tags: int
    """One of the *_TAGS."""
    version: int = VERSION
    """Of the protocol, for all that follows."""
    secret: bytes = NO_SECRET
    """The one that both know."""

    def __repr__(self) -> str:
        return f"SecureSession(node={self.node})"


class Caller:
    """The side that connected. `hello()` goes first; then each received message to `receive`."""

    def __init__(
        self,
        me: Party,
        role: int,
        to: int,
        nonce: bytes,
        tags: int = HMAC_TAGS,
        versions: Versions = VERSIONS,
        binding: bytes = b"",
    ) -> None:
        """`to`: the node that must answer; a client that does not know it says 0. `nonce` is random.

        `tags`: the ways that we can, HMAC_TAGS among them. `versions`: those that we are ready to speak.
        `binding`: of the TLS connection below (`liftlog.tls.files.binding_of`), empty if there is none.
        """
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce has {NONCE_BYTES} bytes")
        check_secrets(me.secrets)
        self._me = me
        self._role = role
        self._to = to
        self._nonce = nonce
        self._binding = binding
        check_versions(versions)
        self._versions = versions
        self._version = versions[0]
        self._tags = tags
        self._chosen = HMAC_TAGS
        self._said = b""
        self._node = to
        self.session: SecureSession | None = None

    def hello(self) -> bytes:
        cluster = self._me.cluster.encode()
        lowest, highest = self._versions
        tags = self._tags | (highest - lowest) << _TAGS_BITS
        head = (_MAGIC, lowest, self._role, tags, self._me.node, self._to, self._nonce, len(cluster))
        return _HELLO.pack(*head) + cluster

    def receive(self, message: bytes) -> bytes:
        """Take a message; returns the next one to send, empty when `session` is there. Raises
        HandshakeError."""
        if self.session is not None:
            raise HandshakeError("a message of the handshake after its end")
        kind = message[0] if message else 0
        if kind == _REFUSED_KIND and len(message) in (_REFUSED.size, _REFUSED_VERSIONS.size):
            raise self._refused(message)
        if not self._said:
            return self._prove(_unpack(_CHALLENGE, message, _CHALLENGE_KIND))
        (_, proof) = _unpack(_WELCOME, message, _WELCOME_KIND)
        for secret in self._me.secrets:
            agreed = _Agreed(secret, self._said)
            if hmac.compare_digest(agreed.answerer_proof(), proof) and self.session is None:
                self.session = agreed.session(self._node, self._chosen, self._version)
        if self.session is None:
            raise HandshakeError("who answers does not know the secret")
        return b""

    def _prove(self, challenge: tuple[int, int, int, bytes]) -> bytes:
        _, chosen, node, nonce = challenge
        tags, more = chosen & _TAGS_MASK, chosen >> _TAGS_BITS
        lowest, highest = self._versions
        if tags not in (HMAC_TAGS, GMAC_TAGS) or not tags & self._tags:
            raise HandshakeError("who answers chose tags that were not offered")
        if lowest + more > highest:
            raise HandshakeError("who answers chose a protocol version that was not offered")
        if self._to not in (CLIENT_NODE, node):
            raise HandshakeError(f"node {node} answers where node {self._to} should be")
        if node == self._me.node:
            raise HandshakeError("who answers claims to be this node itself")
        self._node = node
        self._chosen = tags
        self._version = lowest + more
        me = self._me
        self._said = _conversation(
            lowest=lowest,
            role=self._role,
            tags=chosen,
            cluster=me.cluster,
            caller=me.node,
            answerer=node,
            caller_nonce=self._nonce,
            answerer_nonce=nonce,
            hello=self.hello(),
            binding=self._binding,
        )
        proofs = [_Agreed(secret, self._said).caller_proof() for secret in self._me.secrets]
        return bytes((_PROOF_KIND, len(proofs))) + b"".join(proofs)

    def _refused(self, message: bytes) -> HandshakeError:
        code = message[1]
        text = REASONS.get(code, f"for a reason that we do not know ({code})")
        if code == REFUSED_VERSION and len(message) == _REFUSED_VERSIONS.size:
            _, _, lowest, highest = _REFUSED_VERSIONS.unpack(message)
            text = f"it speaks {_named((lowest, highest))}, we {_remedy(self._versions, (lowest, highest))}"
        elif code == REFUSED_VERSION:
            text += f"; ours: {_numbers(self._versions)}"
        return HandshakeError(text, code)


class Answerer:
    """The side that was connected to. Each received message goes to `receive`, from the hello on."""

    def __init__(
        self,
        me: Party,
        role: int,
        may_call: Callable[[int], bool],
        nonce: Callable[[], bytes],
        tags: int = HMAC_TAGS,
        versions: Versions = VERSIONS,
        binding: bytes = b"",
    ) -> None:
        """`role`: whom this port is for. `may_call` says of a peer's id whether it is one of ours.

        `versions`: those that we are ready to speak. `binding`: as of a `Caller`.
        """
        check_secrets(me.secrets, ACCEPTED_MAX)
        self._me = me
        self._role = role
        self._may_call = may_call
        self._make_nonce = nonce
        self._binding = binding
        check_versions(versions)
        self._versions = versions
        self._version = versions[0]
        self._tags = tags
        self._chosen = HMAC_TAGS
        self._said = b""
        self._caller = CLIENT_NODE
        self._claims = ""
        self.session: SecureSession | None = None

    def receive(self, message: bytes) -> bytes:
        """Take a message; returns the one to send. Done when `session` is there.

        Raises HandshakeError; if it has a code, `refusal(code)` is to be sent before hanging up.
        """
        if self.session is not None:
            raise HandshakeError("a message of the handshake after its end")
        return self._welcome(message) if self._said else self._challenge(message)

    def _challenge(self, message: bytes) -> bytes:
        if len(message) < _START.size or message[:4] != _MAGIC:
            raise HandshakeError("not a liftlog greeting")
        _, lowest = _START.unpack_from(message)
        if not ONLY_FIRST[0] <= lowest <= self._versions[1]:
            raise self._no_common((lowest, lowest))
        if len(message) < _HELLO.size:
            raise HandshakeError("a greeting that is cut off")
        _, _, role, offered, caller, to, nonce, length = _HELLO.unpack_from(message)
        tags, more = offered & _TAGS_MASK, offered >> _TAGS_BITS
        self._version = min(lowest + more, self._versions[1])
        if self._version < self._versions[0]:
            raise self._no_common((lowest, lowest + more))
        cluster = message[_HELLO.size :]
        if len(cluster) != length or not _CLUSTER.fullmatch(cluster):
            raise HandshakeError("a greeting with a malformed name of the cluster")
        if role != self._role:
            caller_is = "a node" if role == PEER else "a client"
            raise HandshakeError(f"{caller_is} called the port for {_DOOR[self._role]}", REFUSED_DOOR)
        self._claims = "a client" if role == CLIENT else f"node {caller}"
        if cluster.decode() != self._me.cluster:
            self._claims += f" of cluster '{cluster.decode()}'"
        if to not in (CLIENT_NODE, self._me.node) or (role == PEER and to == CLIENT_NODE):
            self._claims += f" looking for node {to}"
        if role == CLIENT and caller != CLIENT_NODE:
            raise HandshakeError(f"a client that calls itself node {caller}")
        # What does not fit is not said yet: it will make the proof fail, and a stranger learns nothing.
        self._caller = caller
        mine = self._make_nonce()
        me = self._me
        self._chosen = GMAC_TAGS if tags & self._tags & GMAC_TAGS else HMAC_TAGS
        chosen = self._chosen | (self._version - lowest) << _TAGS_BITS
        self._said = _conversation(
            lowest=lowest,
            role=self._role,
            tags=chosen,
            cluster=me.cluster,
            caller=caller,
            answerer=me.node,
            caller_nonce=nonce,
            answerer_nonce=mine,
            hello=message,
            binding=self._binding,
        )
        return _CHALLENGE.pack(_CHALLENGE_KIND, chosen, me.node, mine)

    def _welcome(self, message: bytes) -> bytes:
        count = message[1] if len(message) > 1 else 0
        if not 1 <= count <= SECRETS_MAX or message[0] != _PROOF_KIND or len(message) != 2 + count * 32:
            raise HandshakeError("a malformed proof")
        proofs = [message[2 + at * 32 : 34 + at * 32] for at in range(count)]
        found: _Agreed | None = None
        for secret in self._me.secrets:
            agreed = _Agreed(secret, self._said)
            expected = agreed.caller_proof()
            for proof in proofs:
                if hmac.compare_digest(expected, proof) and found is None:
                    found = agreed
        if found is None:
            raise HandshakeError(f"{self._claims} did not prove that it knows our secret", REFUSED_PROOF)
        if self._role == PEER and (self._caller == self._me.node or not self._may_call(self._caller)):
            text = f"node {self._caller} is none of this cluster; to make it one: 'liftlog cluster add"
            raise HandshakeError(f"{text} {self._caller} HOST:PORT'", REFUSED_NODE)
        self.session = found.session(self._caller, self._chosen, self._version)
        return _WELCOME.pack(_WELCOME_KIND, found.answerer_proof())

    def _no_common(self, theirs: Versions) -> HandshakeError:
        """U1: we have no version in common. A caller of release 0.1.0 can read no ranges."""
        text = f"it speaks {_named(theirs)}, we {_remedy(self._versions, theirs)}"
        return HandshakeError(text, REFUSED_VERSION, self._versions if theirs != ONLY_FIRST else None)


_DOOR = {PEER: "nodes", CLIENT: "clients"}


def refusal(code: int, versions: Versions | None = None) -> bytes:
    """The message that tells a caller why it is hung up on. `versions`: those that we speak."""
    if versions is not None:
        return _REFUSED_VERSIONS.pack(_REFUSED_KIND, code, *versions)
    return _REFUSED.pack(_REFUSED_KIND, code)


class _Agreed:
    """What one secret makes of one conversation."""

    def __init__(self, secret: bytes, said: bytes) -> None:
        self._secret = secret
        self._said = said

    def caller_proof(self) -> bytes:
        return self._derive(b"caller proves")

    def answerer_proof(self) -> bytes:
        return self._derive(b"answerer proves")

    def session(self, other: int, tags: int, version: int) -> SecureSession:
        keys = (self._derive(b"frames of the caller"), self._derive(b"frames of the answerer"))
        return SecureSession(other, *keys, tags, version, self._secret)

    def _derive(self, label: bytes) -> bytes:
        # HMAC itself takes a short key and the same key with zeros behind it for one.
        head = bytes((len(self._secret), len(label)))
        return hmac.digest(self._secret, head + label + self._said, "sha256")


def _conversation(
    lowest: int,
    role: int,
    tags: int,
    cluster: str,
    caller: int,
    answerer: int,
    caller_nonce: bytes,
    answerer_nonce: bytes,
    hello: bytes,
    binding: bytes = b"",
) -> bytes:
    """What one side believes, and the hello as it came over the wire, written in one way only: a hello says
    how long it is.
    """
    name = cluster.encode()
    head = _HELLO.pack(_MAGIC, lowest, role, tags, caller, answerer, caller_nonce, len(name))
    return head + name + answerer_nonce + hello + binding


def _unpack(layout: Layout, message: bytes, kind: int) -> tuple[Any, ...]:
    if len(message) != layout.size or message[0] != kind:
        raise HandshakeError("who answers does not speak this protocol")
    return layout.unpack(message)


def _numbers(versions: Versions) -> str:
    lowest, highest = versions
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def _named(versions: Versions) -> str:
    return f"protocol version{'s' * (versions[0] != versions[1])} {_numbers(versions)}"


def _remedy(ours: Versions, theirs: Versions) -> str:
    """What we speak, and who of the two is to be upgraded."""
    return f"{_numbers(ours)}: upgrade liftlog {'there' if theirs[1] < ours[0] else 'here'}"


def check_versions(versions: Versions) -> None:
    """Raises ValueError unless they are a range that a hello can name."""
    lowest, highest = versions
    if not ONLY_FIRST[0] <= lowest <= highest <= lowest + _MORE_MAX:
        raise ValueError(f"protocol versions {lowest} to {highest} are no range that can be offered")


def check_secrets(secrets: Collection[bytes], most: int = SECRETS_MAX) -> None:
    """Raises ValueError unless there are 1 to `most` of them."""
    if not 1 <= len(secrets) <= most:
        raise ValueError(f"{len(secrets)} secrets; accepted: 1 to {most}")
