"""Of the messages that the model has sent, so many of the newest are known; a run may be of any length."""

from __future__ import annotations

from liftlog_spec.refine.raft_sent import ACK, APPEND, SentMessages


def test_the_oldest_message_is_forgotten_and_one_that_is_sent_again_is_new() -> None:
    sent = SentMessages(2)
    first, second, third = ((APPEND, 1, 0, 1, number) for number in range(3))
    for message in (first, second, first, third):
        sent.add(message)
    assert [sent.known(one) for one in (first, second, third)] == [first, None, third]


def test_an_acknowledgement_is_known_by_what_a_trace_tells_of_it_until_it_is_forgotten() -> None:
    sent = SentMessages(2)
    ack, newer = (ACK, 1, 0, 1, 7, 1), (ACK, 1, 0, 1, 7, 2)
    sent.add(ack)
    assert sent.known((ACK, 1, 0, 1, 7, 0)) == ack
    sent.add(newer)
    sent.add((APPEND, 1, 0, 1, 0))
    assert sent.known((ACK, 1, 0, 1, 7, 0)) == newer
    sent.add((APPEND, 1, 0, 1, 1))
    assert sent.known((ACK, 1, 0, 1, 7, 0)) is None
