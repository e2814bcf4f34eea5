"""When a NATS connection counts as lost, whatever else it has to carry (N2, N5)."""

from __future__ import annotations

import pytest

from liftlog.real.bus import NatsBus
from liftlog.real.clock import RealClock
from liftlog.real.nats_handshake import ConnectionLost
from liftlog.real.nats_wire import parse_url
from liftlog.real.silence import SILENT_MAX, UNANSWERED_MAX, Silence


def test_N5_a_server_that_says_nothing_is_given_up() -> None:
    silence = Silence()
    for _ in range(SILENT_MAX):
        silence.pass_interval()
    with pytest.raises(ConnectionLost, match="stopped answering"):
        silence.pass_interval()


def test_N5_a_pong_behind_many_messages_may_come_late_but_has_to_come() -> None:
    silence = Silence()
    for _ in range(UNANSWERED_MAX):
        silence.pass_interval()
        silence.heard()
    silence.answered()
    for _ in range(UNANSWERED_MAX):
        silence.pass_interval()
        silence.heard()
    with pytest.raises(ConnectionLost, match="stopped answering"):
        silence.pass_interval()


def test_N5_messages_that_come_are_a_sign_of_life() -> None:
    bus = NatsBus(parse_url("nats://127.0.0.1:1"), "test", "0", lambda event: None, RealClock())
    for _ in range(3 * SILENT_MAX):
        bus._silence.pass_interval()
        bus._handle(b"MSG orders 7 5\r\nhello\r\n")
    for _ in range(UNANSWERED_MAX):
        bus._handle(b"PONG\r\n")
        bus._silence.pass_interval()
