"""What JetStream refuses of consumers: statuses, numbers and sentences are nats-server's (errors.json)."""

from __future__ import annotations

from liftlog.jetstream.errors import Fault

CONSUMER_NOT_IN_SUBJECT = Fault(
    400, 10016, "consumer expected to be durable but no durable name set in subject"
)
DURABLE_MISMATCH = Fault(400, 10017, "consumer name in subject does not match durable name in request")
DURABLE_NOT_SET = Fault(400, 10018, "consumer expected to be durable but a durable name was not set")
EPHEMERAL_WITH_DURABLE = Fault(
    400, 10020, "consumer expected to be ephemeral but a durable name was set in request"
)
CONSUMERS_LIMIT = Fault(400, 10026, "maximum consumers limit reached")
CONFIG_REQUIRED = Fault(400, 10078, "consumer config required")
DELIVER_WILDCARDS = Fault(400, 10079, "consumer deliver subject has wildcards")
PUSH_MAX_WAITING = Fault(400, 10080, "consumer in push mode can not set max waiting")
DELIVER_CYCLE = Fault(400, 10081, "consumer deliver subject forms a cycle")
PENDING_WITHOUT_ACKS = Fault(400, 10082, "consumer requires ack policy for max ack pending")
SMALL_HEARTBEAT = Fault(400, 10083, "consumer idle heartbeat needs to be >= 100ms")
QUEUE_PULL_NEEDS_ACKS = Fault(
    400, 10084, "consumer in pull mode requires explicit ack policy on workqueue stream"
)
PULL_RATE_LIMIT = Fault(400, 10086, "consumer in pull mode can not have rate limit set")
HEARTBEAT_NEEDS_PUSH = Fault(400, 10088, "consumer idle heartbeat requires a push based consumer")
FLOW_CONTROL_NEEDS_PUSH = Fault(400, 10089, "consumer flow control requires a push based consumer")
INVALID_POLICY = Fault(400, 10094, "{}")
QUEUE_NEEDS_ACKS = Fault(400, 10098, "workqueue stream requires explicit ack")
QUEUE_UNFILTERED = Fault(
    400, 10099, "multiple non-filtered consumers not allowed on workqueue stream"
)
QUEUE_SHARED = Fault(400, 10100, "filtered consumer not unique on workqueue stream")
QUEUE_NOT_ALL = Fault(400, 10101, "consumer must be deliver all on workqueue stream")
NAME_TOO_LONG = Fault(400, 10102, "consumer name is too long, maximum allowed is {}")
BAD_DURABLE_NAME = Fault(400, 10103, "durable name can not contain '.', '*', '>'")
EXISTS_ACTIVE = Fault(400, 10105, "consumer already exists and is still active")
DESCRIPTION_TOO_LONG = Fault(400, 10107, "consumer description is too long, maximum allowed is {}")
FLOW_CONTROL_NEEDS_HEARTBEATS = Fault(400, 10108, "consumer with flow control also needs heartbeats")
BAD_DELIVER_SUBJECT = Fault(400, 10112, "invalid push consumer deliver subject")
EXPIRES_TOO_SMALL = Fault(400, 10115, "consumer max request expires needs to be >= 1ms")
BACKOFF_TOO_LONG = Fault(400, 10116, "max deliver is required to be > length of backoff values")
PENDING_TOO_MANY = Fault(400, 10121, "consumer max ack pending exceeds system limit of {}")
REPLICAS_EXCEED = Fault(400, 10126, "consumer config replica count exceeds parent stream")
NAME_WITH_SEPARATORS = Fault(400, 10127, "Consumer name can not contain path separators")
FILTER_MISMATCH = Fault(
    400, 10131, "Consumer create request did not match filtered subject from create subject"
)
NAMES_DIFFER = Fault(400, 10132, "Consumer Durable and Name have to be equal if both are provided")
TWO_KINDS_OF_FILTER = Fault(
    400, 10136, "consumer cannot have both FilterSubject and FilterSubjects specified"
)
FILTERS_IN_SUBJECT = Fault(
    400, 10137, "consumer with multiple subject filters cannot use subject based API"
)
FILTERS_OVERLAP = Fault(400, 10138, "consumer subject filters cannot overlap")
EMPTY_FILTER = Fault(400, 10139, "consumer filter in FilterSubjects cannot be empty")
CONSUMER_EXISTS = Fault(400, 10148, "consumer already exists")
CONSUMER_MISSING = Fault(400, 10149, "consumer does not exist")
INACTIVE_TOO_LONG = Fault(400, 10153, "consumer inactive threshold exceeds system limit of {}")
POLICY_WITHOUT_GROUP = Fault(
    400, 10159, "Setting PriorityPolicy requires at least one PriorityGroup to be set"
)
NO_SUCH_GROUP = Fault(400, 10160, "Provided priority group does not exist for this consumer")
EMPTY_GROUP = Fault(400, 10161, "Group name cannot be an empty string")
BAD_GROUP = Fault(
    400,
    10162,
    "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters",
)
PUSH_PRIORITY = Fault(400, 10178, "priority groups can not be used with push consumers")
ACK_POLICY_INVALID = Fault(400, 10181, "consumer ack policy invalid")
REPLAY_POLICY_INVALID = Fault(400, 10182, "consumer replay policy invalid")
ACK_WAIT_NEGATIVE = Fault(400, 10183, "consumer ack wait needs to be positive")
BACKOFF_NEGATIVE = Fault(400, 10184, "consumer backoff needs to be positive")
GROUP_WITHOUT_POLICY = Fault(
    400, 10196, "consumer can not have priority groups when policy is none"
)
PIN_TIME_WITHOUT_POLICY = Fault(400, 10197, "PinnedTTL cannot be set when PriorityPolicy is none")
INVALID_RESET = Fault(400, 10204, "invalid reset: {}")
