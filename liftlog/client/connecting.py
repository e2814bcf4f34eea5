"""How a connection to NATS is made, why it cannot be, and what nats-py does not tell of one."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from typing import NamedTuple

import nats.errors
from nats.aio.client import Client as NatsConnection

from liftlog.client.errors import Unreachable
from liftlog.nats_login import NatsLogin, refusal

COMPLAINTS_MAX = 16


class NatsPlace(NamedTuple):
    """A NATS, and how errors speak of it. `shown`: its address without what one logs in with; `url_option`,
    `ca_option`: where the user says these.
    """

    url: str
    login: NatsLogin
    shown: str
    what: str = "NATS"
    url_option: str = "--nats URL (or LIFTLOG_NATS)"
    ca_option: str = "--nats-ca"


def _not_about_eof(record: logging.LogRecord) -> bool:
    """asyncio warns when nats-py's connection ends: it went over to TLS, and its reader was not told."""
    return "eof_received" not in record.getMessage()


logging.getLogger("asyncio").addFilter(_not_about_eof)


def server_info(connection: NatsConnection) -> dict[str, object]:
    """What the server's INFO said; nats-py tells it nowhere else."""
    return getattr(connection, "_server_info", {})


async def connect_nats(
    connection: NatsConnection, place: NatsPlace, *, name: str, time_s: float, pending_bytes: int
) -> deque[Exception]:
    """Connect, and stay connected. Returns where what NATS says against us is kept, the latest last. Raises
    Unreachable, with address and reason; LiftlogError for files that cannot be used.
    """
    complaints: deque[Exception] = deque(maxlen=COMPLAINTS_MAX)
    url, login = place.url, place.login
    login.check(url)

    async def remember(error: Exception) -> None:
        complaints.append(error)

    connecting = connection.connect(
        servers=url.split(","),
        name=name,
        connect_timeout=max(1, int(time_s)),
        error_cb=remember,
        reconnect_time_wait=1,
        max_reconnect_attempts=-1,
        pending_size=pending_bytes,
        tls=login.tls_context() if login.wants_tls else None,
        user_credentials=str(login.credentials_file) if login.credentials_file is not None else None,
        nkeys_seed=str(login.nkey_file) if login.nkey_file is not None else None,
    )
    try:
        async with asyncio.timeout(time_s):
            await connecting
    except (OSError, nats.errors.Error, ValueError) as error:  # TimeoutError is an OSError
        if not isinstance(error, TimeoutError) or not complaints:
            complaints.append(error)
        why = _why_not(connection, place, complaints[-1])
        raise Unreachable(f"cannot reach {place.what} at {place.shown}: {why}") from None
    if (login.wants_tls or "tls://" in url) and not server_info(connection).get("tls_required"):
        await connection.close()
        text = f"{place.what} at {place.shown} does not speak TLS"
        raise Unreachable(f"{text}, which its URL or a CA file asks for")
    return complaints


def _why_not(connection: NatsConnection, place: NatsPlace, error: Exception) -> str:
    """The last error of an attempt to connect, and what to do about it."""
    info, login = server_info(connection), place.login
    if isinstance(error, ssl.SSLError):
        return f"{error}; say whose certificates to believe with {place.ca_option} FILE"
    if isinstance(error, ConnectionRefusedError) or not info.get("auth_required"):
        remedy = f"start a nats-server there, or pass another {place.url_option}"
        return f"{str(error) or 'no answer'}; {remedy}"
    given = login.signs or login.cert_file is not None or "@" in place.url
    return refusal(True, given, str(error) if "Authorization" in str(error) else "")
