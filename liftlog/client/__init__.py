"""The client library; see `liftlog.client.client`."""

from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.publisher import Publisher, PublishResult
from liftlog.client.reader import EARLIEST, LATEST, NEW, TIME, Reader

__all__ = [
    "EARLIEST",
    "LATEST",
    "NEW",
    "TIME",
    "Client",
    "PublishResult",
    "Publisher",
    "Reader",
    "RequestFailed",
    "Unreachable",
]
