"""What a queue operation can answer: the result codes, error codes and constants of the big-array queue.

The design this library follows describes a service with three results and eight errors. Here an operation
returns what was asked for or raises a `QueueError`, which carries both codes; `liftlog.queue.service` turns
it back into a response. One rule tells the two failing results apart: TRY_LATER means that the very same
call may succeed later without anybody changing it (more items come, space returns); FAILURE means that it
will not.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from liftlog.types import LiftlogError

EARLIEST = -1
"""As an index or a time: the first item that is still stored."""
LATEST = -2
"""As an index or a time: behind the last item, where the next one will go."""
EARLIEST_INDEX = "earliest"
LATEST_INDEX = "latest"
"""The same two as words."""
RANDOM_PARTITION = -1
"""Of a producer: any server will do. One folder is one server, so nothing here looks at it."""


class ResultCode(IntEnum):
    """How a call ended."""

    SUCCESS = 0
    FAILURE = 1
    TRY_LATER = 2


class ErrorCode(IntEnum):
    """Why it did not succeed."""

    INTERNAL_ERROR = 0
    TOPIC_NOT_EXIST = 1
    INDEX_OUT_OF_BOUNDS = 2
    INVALID_TOPIC = 3
    TOPIC_IS_EMPTY = 4
    AUTHENTICATION_FAILURE = 5
    MESSAGE_SIZE_TOO_LARGE = 6
    ALL_MESSAGE_CONSUMED = 7


class QueueError(LiftlogError):
    """A queue operation that did not succeed. The text names the thing and the remedy."""

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL_ERROR
    result: ResultCode = ResultCode.FAILURE


class InternalError(QueueError):
    """The disk failed, bytes are damaged, the folder is in use or the queue is closed."""

    def __init__(self, text: str, result: ResultCode = ResultCode.FAILURE) -> None:
        super().__init__(text)
        self.result = result


class TopicNotFound(QueueError):
    code = ErrorCode.TOPIC_NOT_EXIST


class IndexOutOfBounds(QueueError, IndexError):
    """An index that holds no item: not yet, or not any more."""

    code = ErrorCode.INDEX_OUT_OF_BOUNDS


class InvalidTopic(QueueError):
    """A topic, group or folder that cannot be one."""

    code = ErrorCode.INVALID_TOPIC


class QueueEmpty(QueueError):
    """Nothing is stored at all."""

    code = ErrorCode.TOPIC_IS_EMPTY
    result = ResultCode.TRY_LATER


class AuthenticationFailed(QueueError):
    code = ErrorCode.AUTHENTICATION_FAILURE


class ItemTooLarge(QueueError):
    code = ErrorCode.MESSAGE_SIZE_TOO_LARGE


class AllConsumed(QueueError):
    """Items are stored, but this group or reader has had them all."""

    code = ErrorCode.ALL_MESSAGE_CONSUMED
    result = ResultCode.TRY_LATER
