"""The client library, for asyncio: see `liftlog.client.client`. For trio: `liftlog.client.on_trio`."""

from liftlog.client.batches import BatchRecord
from liftlog.client.bounds import END, FOREVER, At, Start, Until
from liftlog.client.client import Client
from liftlog.client.consuming import Delivery, PullConsumer
from liftlog.client.cursors import CursorReading, CursorSet, KeptCursor
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.grouping import GroupMessage, GroupReading, ShareLag
from liftlog.client.partitioners import ByKey, Partitioner, RandomPartition, RoundRobin
from liftlog.client.processing import (
    ProcessedBatch,
    ProcessorFenced,
    ProcessorUnknown,
    StreamProcessor,
    is_without_output,
)
from liftlog.client.progress import ReadingProgress
from liftlog.client.publisher import Publisher, PublishResult
from liftlog.client.reader import EARLIEST, LATEST, NEW, TIME, Reader
from liftlog.client.reading import Gap, PartitionRecord, RecordsGone, StreamReading
from liftlog.client.registry import AckView, Listener
from liftlog.client.streams import StreamPublisher
from liftlog.messages import ConsumerConfig, ConsumerInfo

__all__ = [
    "EARLIEST",
    "END",
    "FOREVER",
    "LATEST",
    "NEW",
    "TIME",
    "AckView",
    "At",
    "BatchRecord",
    "ByKey",
    "Client",
    "ConsumerConfig",
    "ConsumerInfo",
    "CursorReading",
    "CursorSet",
    "Delivery",
    "Gap",
    "GroupMessage",
    "GroupReading",
    "KeptCursor",
    "Listener",
    "PartitionRecord",
    "Partitioner",
    "ProcessedBatch",
    "ProcessorFenced",
    "ProcessorUnknown",
    "PublishResult",
    "Publisher",
    "PullConsumer",
    "RandomPartition",
    "Reader",
    "ReadingProgress",
    "RecordsGone",
    "RequestFailed",
    "RoundRobin",
    "ShareLag",
    "Start",
    "StreamProcessor",
    "StreamPublisher",
    "StreamReading",
    "Unreachable",
    "Until",
    "is_without_output",
]
