"""Why NATS cannot be reached, and what nats-py does not tell of a connection."""

from __future__ import annotations

import logging
import ssl

from nats.aio.client import Client as NatsConnection

from liftlog.nats_login import refusal

_REMEDY = "start a nats-server there, or pass another --nats URL (or LIFTLOG_NATS)"


def _not_about_eof(record: logging.LogRecord) -> bool:
    """asyncio warns when nats-py's connection ends: it went over to TLS, and its reader was not told."""
    return "eof_received" not in record.getMessage()


logging.getLogger("asyncio").addFilter(_not_about_eof)


def server_info(connection: NatsConnection) -> dict[str, object]:
    """What the server's INFO said; nats-py tells it nowhere else."""
    return getattr(connection, "_server_info", {})


def why_not_connected(connection: NatsConnection, error: Exception, login_given: bool) -> str:
    """The last error of an attempt to connect, and what to do about it."""
    info = server_info(connection)
    if isinstance(error, ssl.SSLError):
        return f"{error}; say whose certificates to believe with --nats-ca FILE"
    if isinstance(error, ConnectionRefusedError) or not info.get("auth_required"):
        return f"{str(error) or 'no answer'}; {_REMEDY}"
    return refusal(True, login_given, str(error) if "Authorization" in str(error) else "")
