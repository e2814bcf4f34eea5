"""Account information, and what is true of every answer."""

from __future__ import annotations

import asyncio
import json

import pytest
from nats.js import errors

from tests.jetstream.table import proves
from tests.jetstream.user import User


@proves("Account and answers", "INFO")
async def test_account_information_has_all_that_nats_py_needs(user: User) -> None:
    info = await user.js.account_info()
    assert info.memory == 0
    assert info.limits.max_bytes_required is False
    assert info.api.total >= 0 and info.api.errors >= 0


@proves("Account and answers", "INFO", "streams, consumers")
async def test_streams_and_consumers_are_counted(user: User) -> None:
    before = await user.js.account_info()
    await user.stream()
    await user.consumer()
    after = await user.js.account_info()
    assert (after.streams, after.consumers) == (before.streams + 1, before.consumers + 1)
