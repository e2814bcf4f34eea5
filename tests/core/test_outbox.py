"""The outbox never sends before the write that the message depends on is durable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from liftlog.driver.outbox import Outbox
from liftlog.messages import Heartbeat, Send
from liftlog.types import NO_TICKET, Ticket


def send(number: int, after: int) -> Send:
    return Send(to=2, message=Heartbeat(incarnation=1, sequence=number, applied=0), after=Ticket(after))


def sequence(sent: Send | None) -> int:
    assert sent is not None
    assert isinstance(sent.message, Heartbeat)
    return sent.message.sequence


def test_a_send_without_ticket_goes_at_once() -> None:
    assert sequence(Outbox().submit(send(1, NO_TICKET))) == 1


def test_sends_wait_for_their_ticket_and_keep_their_order() -> None:
    outbox = Outbox()
    assert outbox.submit(send(1, 7)) is None
    assert outbox.submit(send(2, 8)) is None
    assert outbox.submit(send(3, 7)) is None
    assert len(outbox.waiting()) == 3
    assert [sequence(sent) for sent in outbox.durable(Ticket(7))] == [1, 3]
    assert [sequence(sent) for sent in outbox.durable(Ticket(8))] == [2]
    assert len(outbox.waiting()) == 0


def test_a_send_that_comes_after_its_ticket_was_durable_goes_at_once() -> None:
    outbox = Outbox()
    assert outbox.durable(Ticket(7)) == []
    assert sequence(outbox.submit(send(1, 7))) == 1


def test_what_depends_on_a_failed_write_is_never_sent() -> None:
    outbox = Outbox()
    assert outbox.submit(send(1, 7)) is None
    outbox.failed(Ticket(7))
    assert outbox.submit(send(2, 7)) is None
    assert len(outbox.waiting()) == 0


def test_a_ticket_forgotten_long_ago_drops_the_message_and_holds_no_memory() -> None:
    outbox = Outbox(remembered=2)
    for ticket in (1, 2, 3, 4):
        outbox.durable(Ticket(ticket))
    assert outbox.submit(send(1, 1)) is None
    assert len(outbox.waiting()) == 0
    assert sequence(outbox.submit(send(2, 4))) == 2


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["submit", "durable", "failed"]), st.integers(min_value=1, max_value=6)),
    max_size=60,
)


@given(ACTIONS)
def test_nothing_is_ever_sent_before_its_ticket_is_durable(actions: list[tuple[str, int]]) -> None:
    outbox = Outbox()
    ended: dict[int, bool] = {}
    sent_by_ticket: dict[int, list[int]] = {}
    submitted: dict[int, list[int]] = {}
    for number, (action, ticket) in enumerate(actions):
        if action == "submit":
            submitted.setdefault(ticket, []).append(number)
            sent = outbox.submit(send(number, ticket))
            assert (sent is not None) == ended.get(ticket, False)
            if sent is not None:
                sent_by_ticket.setdefault(ticket, []).append(sequence(sent))
        elif ticket not in ended:
            ended[ticket] = action == "durable"
            if action == "durable":
                released = [sequence(one) for one in outbox.durable(Ticket(ticket))]
                sent_by_ticket.setdefault(ticket, []).extend(released)
            else:
                outbox.failed(Ticket(ticket))
    for ticket, sent_numbers in sent_by_ticket.items():
        assert ended[ticket]
        assert sent_numbers == submitted.get(ticket, [])
