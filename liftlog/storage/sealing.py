"""Encryption at rest: the payload of every batch sealed with AES-256-GCM, on disk only (D1's one exception).

What lies on disk is the batch's own header, with the attribute SEALED, and

    12 bytes nonce | the payload, encrypted | 16 bytes tag

The header stays readable and `crc` covers the sealed bytes, so that a start, a scan, `liftlog log verify` and
a repair find damage without the key, and a wrong key is never taken for damage: a frame whose checksums match
and whose tag does not was sealed with another key. Opening gives back the frame as it travels, byte for byte,
except for the prefix. What is compressed is compressed before it is sealed.

The tag also covers the log's id and the header (magic to records), so that nobody without the key can move a
payload to another place, epoch or log. Each log has a key of its own, derived from the node's key
(HKDF-SHA256), because a key is good for 2^32 random nonces (NIST SP 800-38D): 4 billion batches per log. A
key is a node's own affair, since what travels is open; two nodes need not have the same one.

Not sealed are names, counts, offsets, epochs and times in headers and indexes, and the state files. Whoever
may write to the folder can still cut a log off or put an older file back, but not put in a batch of his own:
where everything should be sealed, what is not is refused (V8, `liftlog.storage.openlogs`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from liftlog.format import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC_POSITION,
    SEALED,
    VERSION_POSITION,
    replace_payload,
    verify_frame,
)
from liftlog.ports import Disk
from liftlog.storage.layout import ENCRYPTION, IDENTITY, RAFT, VOTE, partitions_on_disk
from liftlog.storage.openlogs import EVERYTHING_OPEN, EVERYTHING_SEALED, Note, OpenLogs, note_of
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import LiftlogError, PartitionId, invariant

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12

_LOG = struct.Struct("<QI")
_LOGS_MAX = 4096
_REMEDY = (
    "start with the key that this folder was written with "
    "([storage] encryption_key_file, or LIFTLOG_ENCRYPTION_KEY in the environment)"
)


_TAKE_OVER = (
    "if all that is in the folder now can be trusted, remove that file and start once with "
    "[storage] take_over_open_logs = true; else empty the folder, and it is copied from the other nodes"
)
_PROOF_BYTES = 32


class WrongKey(LiftlogError):
    """Good bytes that this key does not open. Never damage: nothing may be cut or repaired because of it."""


class Sealer:
    """Seals and opens frames with one key. Any thread may use it."""

    def __init__(self, key: bytes, nonces: Callable[[], bytes]) -> None:
        """`key`: 32 bytes. `nonces` gives 12 random bytes a call: os.urandom, or the simulator's own.

        Raises LiftlogError if the key's length is wrong or the library is missing.
        """
        if len(key) != KEY_BYTES:
            raise LiftlogError(f"the encryption key has {len(key)} bytes; it must have {KEY_BYTES}")
        self._key = key
        self._nonces = nonces
        self._ciphers: dict[PartitionId, AESGCM] = {}
        self.check_value = self._derive(b"liftlog key check")
        """Tells this key from others and nothing else about it."""

    def seal(self, log: PartitionId, data: bytes) -> bytes:
        """The frame to be written for a good, open frame of `log`; its prefix has the same `synced_below`."""
        attributes = data[ATTRIBUTES_POSITION]
        invariant(not attributes & SEALED, f"log {log}: a sealed batch was to be sealed again")
        nonce = self._nonces()
        invariant(len(nonce) == NONCE_BYTES, f"a nonce of {len(nonce)} bytes")
        sealed = self._cipher(log).encrypt(nonce, memoryview(data)[HEADER_BYTES:], _bound(log, data))
        return replace_payload(log, data, data[VERSION_POSITION], attributes | SEALED, nonce + sealed)

    def open(self, log: PartitionId, data: bytes) -> bytes:
        """The frame as it travels for one of `log` that `verify_frame` accepted; an open one as it is.

        Raises WrongKey if another key sealed it.
        """
        from cryptography.exceptions import InvalidTag

        attributes = data[ATTRIBUTES_POSITION]
        if not attributes & SEALED:
            return data
        nonce = data[HEADER_BYTES : HEADER_BYTES + NONCE_BYTES]
        sealed = memoryview(data)[HEADER_BYTES + NONCE_BYTES :]
        try:
            payload = self._cipher(log).decrypt(nonce, sealed, _bound(log, data))
        except InvalidTag:
            header = verify_frame(log, data)
            raise WrongKey(
                f"log {log}: the batch at offset {header.base_offset} was encrypted with another key, "
                "or altered by somebody without it; " + _REMEDY
            ) from None
        return replace_payload(log, data, data[VERSION_POSITION], attributes & ~SEALED, payload)

    def prove(self, content: bytes) -> bytes:
        """32 bytes that only who has the key can make for `content`."""
        return self._derive(b"liftlog note " + content)

    def _cipher(self, log: PartitionId) -> AESGCM:
        cipher = self._ciphers.get(log)
        if cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            if len(self._ciphers) >= _LOGS_MAX:
                self._ciphers.clear()
            cipher = self._ciphers[log] = AESGCM(self._derive(b"liftlog log " + _LOG.pack(*log)))
        return cipher

    def _derive(self, purpose: bytes) -> bytes:
        try:
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        except ImportError:
            raise LiftlogError(
                "encryption at rest needs the Python library cryptography, which is not installed; "
                "install it with: pip install 'liftlog[encryption]'"
            ) from None
        return HKDF(SHA256(), KEY_BYTES, None, purpose).derive(self._key)


def check_key(disk: Disk, sealer: Sealer | None, node: int, take_over: bool) -> OpenLogs | None:
    """At a start, before any log is opened: whether the folder goes with this key, or goes without one.

    Returns where open batches are believed. None: the key comes to a folder that holds logs, and `take_over`
    allows it; `note_open_logs` follows when their ends are known. The first start with a key on an empty
    folder leaves the note behind, durably, before anything is sealed. Raises WrongKey, LiftlogError that
    names the remedy, DiskError, SyncFailed.
    """
    try:
        found = read_state(disk, ENCRYPTION)
    except CorruptState as error:
        raise LiftlogError(
            f"cannot tell whether the encryption key is the right one: {error}; {_TAKE_OVER}"
        ) from None
    if sealer is None:
        if found is not None:
            raise LiftlogError(f"this data folder is encrypted and no key was given; {_REMEDY}")
        return EVERYTHING_OPEN
    if found is not None and found[:_PROOF_BYTES] != sealer.check_value:
        note = _read_note(found, sealer)
        if note.node != node:
            raise LiftlogError(
                f"the file '{ENCRYPTION}' in this data folder is another node's ({note.node}); {_TAKE_OVER}"
            )
        return note.open_logs()
    if not _holds_logs(disk):
        note_open_logs(disk, sealer, node, {})
        return EVERYTHING_SEALED
    if take_over:
        return None
    raise LiftlogError(
        "this data folder holds logs and no note, made with the encryption key, of how far they may be open: "
        f"encryption is being switched on, or somebody took the file '{ENCRYPTION}' away; {_TAKE_OVER}"
    )


def note_open_logs(disk: Disk, sealer: Sealer, node: int, ends: Mapping[PartitionId, int]) -> OpenLogs:
    """Write down, durably, that these logs may be open below these offsets, and nothing else may be."""
    note = note_of(sealer.check_value, node, ends)
    content = msgspec.msgpack.encode(note)
    write_state(disk, ENCRYPTION, content + sealer.prove(content))
    return note.open_logs()


def noted_open_logs(disk: Disk) -> OpenLogs:
    """For a look without the key: where open batches are believed, if the note is genuine.

    Raises DiskError.
    """
    try:
        found = read_state(disk, ENCRYPTION)
        if found is None:
            return EVERYTHING_OPEN
        return msgspec.msgpack.decode(found[:-_PROOF_BYTES], type=Note).open_logs()
    except (CorruptState, msgspec.MsgspecError, ValueError):
        # Damaged, or from before there were notes: it says nothing.
        return EVERYTHING_OPEN


def _read_note(found: bytes, sealer: Sealer) -> Note:
    content, proof = found[:-_PROOF_BYTES], found[-_PROOF_BYTES:]
    try:
        note = msgspec.msgpack.decode(content, type=Note)
    except (msgspec.MsgspecError, ValueError):
        raise WrongKey(f"this data folder was encrypted with another key; {_REMEDY}") from None
    if note.check_value != sealer.check_value:
        raise WrongKey(f"this data folder was encrypted with another key; {_REMEDY}")
    if proof != sealer.prove(content):
        raise LiftlogError(
            f"the file '{ENCRYPTION}' in the data folder was altered without the key; {_TAKE_OVER}"
        )
    return note


def _holds_logs(disk: Disk) -> bool:
    return any(map(disk.exists, (IDENTITY, VOTE, RAFT))) or bool(partitions_on_disk(disk))


def _bound(log: PartitionId, data: bytes) -> bytes:
    """What the tag covers besides the payload: the log, and the header as it travels."""
    attributes = bytes((data[ATTRIBUTES_POSITION] & ~SEALED,))
    before = data[MAGIC_POSITION:ATTRIBUTES_POSITION]
    return b"".join((_LOG.pack(*log), before, attributes, data[ATTRIBUTES_POSITION + 1 : HEADER_BYTES]))
