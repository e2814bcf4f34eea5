"""The big-array queue: a persistent queue on liftlog's log, without NATS and without a cluster.

    from liftlog.queue import BigQueue

    with BigQueue.open("/var/lib/app/queue") as queue:
        index = queue.enqueue(b"hello")
        queue.flush()                       # durable from here on
        queue.dequeue()                     # b"hello", once
        queue.dequeue(group="audit")        # b"hello" again: each group has a front of its own
        queue.get(index)                    # b"hello", by index

docs/queue.md says what it promises and maps every operation, code and constant of the design it follows.
"""

from liftlog.queue.codes import (
    EARLIEST,
    EARLIEST_INDEX,
    LATEST,
    LATEST_INDEX,
    RANDOM_PARTITION,
    AllConsumed,
    AuthenticationFailed,
    ErrorCode,
    IndexOutOfBounds,
    InternalError,
    InvalidTopic,
    ItemTooLarge,
    QueueEmpty,
    QueueError,
    ResultCode,
    TopicNotFound,
)
from liftlog.queue.options import QueueOptions
from liftlog.queue.queue import BigQueue, Item
from liftlog.queue.service import (
    ConsumeResponse,
    DeleteTopicResponse,
    FindClosestIndexResponse,
    GetSizeResponse,
    ProduceResponse,
    QueueService,
    Result,
)

__all__ = [
    "EARLIEST",
    "EARLIEST_INDEX",
    "LATEST",
    "LATEST_INDEX",
    "RANDOM_PARTITION",
    "AllConsumed",
    "AuthenticationFailed",
    "BigQueue",
    "ConsumeResponse",
    "DeleteTopicResponse",
    "ErrorCode",
    "FindClosestIndexResponse",
    "GetSizeResponse",
    "IndexOutOfBounds",
    "InternalError",
    "InvalidTopic",
    "Item",
    "ItemTooLarge",
    "ProduceResponse",
    "QueueEmpty",
    "QueueError",
    "QueueOptions",
    "QueueService",
    "Result",
    "ResultCode",
    "TopicNotFound",
]
