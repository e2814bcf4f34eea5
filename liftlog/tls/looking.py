"""What others will find in a node's certificate: it calls itself, in memory, as they will call it."""

from __future__ import annotations

import contextlib
import ssl
import time
from pathlib import Path

import msgspec

from liftlog.tls.files import TlsFiles
from liftlog.tls.words import why_not
from liftlog.types import LiftlogError

DAY_S = 24 * 3600
WARN_DAYS = 30
"""Below so many days a certificate is to be replaced soon."""


class Validity(msgspec.Struct, frozen=True):
    """Until when a certificate is valid, and for which hosts."""

    ends_s: int
    """In seconds since 1970."""
    hosts: tuple[str, ...]

    def days_left(self, now_s: float) -> int:
        """Whole days; negative when it has expired."""
        return int((self.ends_s - now_s) // DAY_S)

    @property
    def until(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.ends_s))


def look(files: TlsFiles, host: str, callers_ca: Path | None) -> Validity:
    """What a caller finds who believes `files.ca_file`, and calls `host`. `callers_ca`: of which the caller
    has to be too, with the same certificate; None: it need not show one.

    Raises LiftlogError: nobody would believe this certificate, or its files cannot be used.
    """
    answering = files.answering(callers_ca, files.names[0])
    calling = files.calling()
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = answering.wrap_bio(inward, outward, server_side=True)
    client = calling.wrap_bio(outward, inward, server_hostname=host)
    believed = str(files.ca_file)
    try:
        for side in (client, server, client, server):
            _go_on(side)
        # What the caller has said against the answerer, or the answerer against the caller.
        client_said = client.getpeercert()
    except ssl.SSLError as error:
        text = why_not(error, files, believed, host).replace("its certificate", "it", 1)
        raise LiftlogError(f"{files.names[1]}: others would not believe {files.cert_file}: {text}") from None
    assert client_said is not None
    ends = client_said["notAfter"]
    assert isinstance(ends, str)
    hosts = [str(each[1]) for each in client_said.get("subjectAltName", ())]
    return Validity(int(ssl.cert_time_to_seconds(ends)), tuple(hosts))


def _go_on(side: ssl.SSLObject) -> None:
    with contextlib.suppress(ssl.SSLWantReadError):
        side.do_handshake()
