"""What is in force on a node: whose secret is whose, and a digest by which nodes can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from liftlog.rights.client import EVERYTHING, ClientRights
from liftlog.rights.clientsfile import read_clients, secrets_by_client
from liftlog.types import LiftlogError

DIGEST_BYTES = 6
"""As a number it fits into what JSON's readers keep exactly."""


class RightsBook(msgspec.Struct, frozen=True):
    """`holders`: the rights by each secret that is let in."""

    holders: Mapping[bytes, ClientRights]
    digest: int = 0
    """Of clients, rights and secrets; 0: no file says of clients, all are one."""

    @property
    def secrets(self) -> tuple[bytes, ...]:
        return tuple(self.holders)

    @property
    def clients(self) -> int:
        """How many have a name."""
        return len({rights.name for rights in self.holders.values() if not rights.everything})

    def __repr__(self) -> str:
        """Without the secrets, which must not get into a log."""
        return f"RightsBook(clients={self.clients}, digest={shown_digest(self.digest)})"


def shown_digest(digest: int) -> str:
    return f"{digest:0{2 * DIGEST_BYTES}x}"


def shared_book(secrets: Sequence[bytes]) -> RightsBook:
    """Who knows one of these may do everything."""
    return RightsBook(MappingProxyType(dict.fromkeys(secrets, EVERYTHING)))


def read_book(clients_file: Path | None, shared: Sequence[bytes], peers: Sequence[bytes]) -> RightsBook:
    """`shared`: secrets of who may do everything; `peers`: those of nodes, which no client may have. Raises
    LiftlogError.
    """
    book = shared_book(shared)
    if clients_file is None:
        return book
    named = secrets_by_client(read_clients(clients_file))
    for secret, rights in named.items():
        for others, whose in ((shared, "[security] client_secret_file"), (peers, "[security] secret_file")):
            if secret in others:
                what = "could do everything" if others is shared else "could speak for a node"
                raise LiftlogError(
                    f"client '{rights.name}' of {clients_file} has a secret that {whose} holds, too, and so "
                    f"{what}; make one of them anew"
                )
    holders = {**book.holders, **named}
    return RightsBook(MappingProxyType(holders), _digest(holders))


def _digest(holders: Mapping[bytes, ClientRights]) -> int:
    """Never 0. The order in a file says nothing, and is left out."""
    entries = []
    for secret, rights in holders.items():
        said = msgspec.structs.asdict(rights)
        plain = {key: sorted(value) if isinstance(value, tuple) else value for key, value in said.items()}
        fingerprint = hashlib.sha256(b"liftlog client" + secret).hexdigest()
        entries.append((fingerprint, sorted(plain.items())))
    whole = hashlib.sha256(msgspec.json.encode(sorted(entries, key=lambda entry: entry[0]))).digest()
    return int.from_bytes(whole[:DIGEST_BYTES], "big") or 1
