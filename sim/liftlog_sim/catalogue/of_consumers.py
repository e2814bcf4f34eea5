"""Where the planted bugs of consumers come from (K1 to K9); see `history.py`."""

from __future__ import annotations

# fmt: off
OF_CONSUMERS: dict[str, tuple[int, str, str, str]] = {
    "ack_answered_at_append": (0, "new",
     "the model of consumers, variant of this name",
     "an answer rests on what no election takes back"),
    "repeated_ack_answered_at_once": (0, "new",
     "the model of consumers, variant `repeat-answered-before-commit`",
     "who repeats has heard nothing: a repetition promises as much as the first"),
    "ack_of_all_before": (0, "new",
     "the model of consumers, variant `floor-is-greatest-acked`; a Kafka consumer's committed offset",
     "one number cannot say what several workers have done"),
    "ack_of_deleted_counts": (0, "new",
     "the model of consumers, variant `late-ack-of-deleted-counts`",
     "names are for people; an ack names the number of its consumer"),
    "consumer_deletion_answered_at_append": (0, "new",
     "the model of consumers, variant `delete-answered-at-append`",
     "an answer rests on what no election takes back"),
    "redelivery_before_record": (0, "new",
     "the model of consumers, variant of this name; NATS JetStream counts so",
     "what is not recorded before it leaves is not counted"),
    "letter_done_when_sent": (0, "new",
     "the model of dead letters, variant `done-before-acked`",
     "what is not stored there is not yet done here"),
    "letter_id_of_leader": (0, "new",
     "the model of dead letters, variant `id-not-the-same`",
     "who repeats what another one has begun does so under its name"),
    "inherited_letters_left": (0, "new",
     "the model of dead letters, variant `forgotten-by-new-leader`",
     "a new leader begins again what it does not know to be done"),
    "gone_kept_pending": (0, "new",
     "the model of consumers, variant `pending-below-start-kept`",
     "what nobody can ack must not keep others waiting"),
    "lasts_not_said_again": (0, "new",
     "NATS JetStream's skip list (lss)", "what is yet to be given is part of where a consumer stands"),
    "inactive_from_creation": (0, "new", "NATS JetStream, inactive_threshold", "who is served is there"),
    "first_filter_only": (0, "new",
     "NATS JetStream's filter_subject and filter_subjects", "one place puts both fields together"),
}
# fmt: on
