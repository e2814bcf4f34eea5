"""What goes wrong, as JetStream says it: a status, a number, a sentence.

Numbers and sentences are nats-server's (server/errors.json); clients tell errors apart by the number.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.messages import ERR_NOT_FOUND


class JsError(Exception):
    """An answer that is an error. `code` is an HTTP status, `err_code` JetStream's number."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description


class Fault(NamedTuple):
    """A kind of error; `{}` in the sentence stands for what is said when it is raised."""

    code: int
    err_code: int
    sentence: str

    def because(self, *details: object) -> JsError:
        return JsError(self.code, self.err_code, self.sentence.format(*details))


BAD_REQUEST = Fault(400, 10003, "bad request")
UNAVAILABLE = Fault(503, 10008, "JetStream system temporarily unavailable")
CONSUMER_CREATE = Fault(500, 10012, "{}")
CONSUMER_NAME_EXISTS = Fault(400, 10013, "consumer name already in use")
CONSUMER_NOT_FOUND = Fault(404, 10014, "consumer not found")
NO_RESOURCES = Fault(503, 10023, "insufficient resources")
INVALID_JSON = Fault(400, 10025, "invalid JSON: {}")
MIRROR_AND_SOURCES = Fault(400, 10031, "stream mirrors can not also contain other sources")
MIRROR_AND_SUBJECTS = Fault(400, 10034, "stream mirrors can not contain subjects")
NO_MESSAGE = Fault(404, 10037, "no message found")
SEQUENCE_NOT_FOUND = Fault(400, 10043, "sequence {} not found")
FILTER_INVALID = Fault(500, 10049, "{}")
STREAM_INVALID = Fault(500, 10052, "{}")
STREAM_NAME_MISMATCH = Fault(400, 10056, "stream name in subject does not match request")
STREAM_DELETE = Fault(500, 10050, "{}")
STREAM_GENERAL = Fault(500, 10051, "{}")
MESSAGE_DELETE = Fault(500, 10057, "{}")
STREAM_NAME_EXISTS = Fault(400, 10058, "stream name already in use with a different configuration")
STREAM_NOT_FOUND = Fault(404, 10059, "stream not found")
SUBJECTS_OVERLAP = Fault(400, 10065, "subjects overlap with an existing stream")
STREAM_UPDATE = Fault(500, 10069, "{}")
REPLICAS_NOT_SUPPORTED = Fault(500, 10074, "replicas > 1 not supported in non-clustered mode")
SEALED = Fault(400, 10109, "invalid operation on sealed stream")
PURGE_FAILED = Fault(500, 10110, "{}")
TOO_MANY_SUBJECTS = Fault(500, 10117, "subject details would exceed maximum allowed")
NEGATIVE_REPLICAS = Fault(400, 10133, "replicas count cannot be negative")
SOURCE_TWICE = Fault(400, 10140, "duplicate source configuration detected")
SOURCE_NAME_INVALID = Fault(400, 10141, "sourced stream name is invalid")
MIRROR_NAME_INVALID = Fault(400, 10142, "mirrored stream name is invalid")
MIRROR_AND_FIRST = Fault(400, 10143, "stream mirrors can not have first sequence configured")
NEEDS_API_LEVEL = Fault(412, 10185, "JetStream minimum api level required")


def error_of(error: Exception) -> JsError:
    """How JetStream would say what a client of liftlog was told."""
    if isinstance(error, JsError):
        return error
    if isinstance(error, RequestFailed) and error.code == ERR_NOT_FOUND:
        return STREAM_NOT_FOUND.because()
    if isinstance(error, Unreachable) or (isinstance(error, RequestFailed) and error.retryable):
        return JsError(UNAVAILABLE.code, UNAVAILABLE.err_code, f"{UNAVAILABLE.sentence}: {error}")
    return JsError(500, STREAM_INVALID.err_code, str(error))
