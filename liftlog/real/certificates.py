"""A node's certificate as it is in force: read at the start, and anew whenever its files have changed.

Once a second it is looked whether they have. A new connection has what is in force when it begins, those that
stand keep what they began with. Files that change one after another make no good pair for a moment: what
cannot be used is looked at once more before it is called a mistake. Whatever is wrong with it, the node goes
on with the certificate that it had.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from liftlog.eventlog import say
from liftlog.messages.tlstold import LEFT_S, MISTAKEN, READ_AGAIN
from liftlog.tls.looking import WARN_DAYS, Validity
from liftlog.tls.settings import CLIENT_CA, NAMES, NodeTls
from liftlog.types import LiftlogError

REMIND_S = 24 * 3600
"""A certificate that ends soon is in the log once a day."""

_Seen = tuple[tuple[int, int, int] | None, ...]


class InForce(NamedTuple):
    """Contexts of the same files. `binding`: see `liftlog.tls.files.binding_of`."""

    calling: ssl.SSLContext
    peers: ssl.SSLContext
    clients: ssl.SSLContext
    binding: bytes
    validity: Validity


class Certificates:
    """All methods belong to the trio thread; none of them waits for anything but a local file."""

    def __init__(
        self, tls: NodeTls, peer_host: str, client_host: str, now: Callable[[], float] = time.time
    ) -> None:
        """The hosts: by which this node is called. Raises LiftlogError."""
        self.tls = tls
        self._hosts = peer_host, client_host
        self._now = now
        self._seen = self._look()
        self._doubted: _Seen | None = None
        """Looked like this, and could not be used, when it was read for the first time."""
        self.now = self._read()
        self._counters = {MISTAKEN: 0, READ_AGAIN: 0}
        self._remind_s = 0.0

    @property
    def counters(self) -> dict[str, int]:
        return self._counters | {LEFT_S: max(0, int(self.now.validity.ends_s - self._now()))}

    def refresh(self) -> None:
        """Called every second: read the files anew if they have changed."""
        self._remind()
        seen = self._look()
        if seen == self._seen and self._doubted is None:
            return
        again = seen == self._doubted
        self._seen = seen
        try:
            now = self._read()
        except LiftlogError as error:
            self._doubted = None if again else seen
            if again:
                self._counters[MISTAKEN] = 1
                text = f"the node shows the certificate that it had, until {self.now.validity.until}: {error}"
                say(logging.ERROR, "tls", text)
            return
        self._doubted = None
        self.now = now
        self._counters[MISTAKEN] = 0
        self._counters[READ_AGAIN] += 1
        self._remind_s = 0.0
        text = f"{self.tls.cert_file} is shown from now on, and valid until {now.validity.until}"
        say(logging.INFO, "tls", f"certificates were read again: {text}")

    def _remind(self) -> None:
        now_s, validity = self._now(), self.now.validity
        days = validity.days_left(now_s)
        if days >= WARN_DAYS or now_s < self._remind_s:
            return
        self._remind_s = now_s + REMIND_S
        ends = f"is valid until {validity.until}, {days} days more" if days >= 0 else "has expired"
        level = logging.WARNING if days >= 0 else logging.ERROR
        text = f"the certificate {self.tls.cert_file} {ends}: write a new one there, it is read by itself"
        say(level, "tls", text, days_left=days)

    def _read(self) -> InForce:
        tls = self.tls
        validity, files = tls.look(*self._hosts), tls.files
        return InForce(
            files.calling(),
            files.answering(tls.ca_file, NAMES[0]),
            files.answering(tls.client_ca_file, CLIENT_CA),
            files.binding(),
            validity,
        )

    def _look(self) -> _Seen:
        tls = self.tls
        files = (tls.ca_file, tls.cert_file, tls.key_file, tls.client_ca_file)
        return tuple([_seen(file) for file in files if file is not None])


def _seen(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
