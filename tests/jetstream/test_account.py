"""Account information, and what is true of every answer."""

from __future__ import annotations

import pytest
from nats.js import errors

from tests.jetstream.table import differs, proves, proves_each
from tests.jetstream.user import User

A = "Account and answers"


@proves(A, "INFO")
async def test_account_information_has_all_that_nats_py_needs(user: User) -> None:
    info = await user.js.account_info()
    assert info.memory == 0
    assert info.limits.max_bytes_required is False
    assert info.api.total >= 0 and info.api.errors >= 0


@proves(A, "INFO", "limits")
async def test_there_are_no_limits_of_an_account(user: User) -> None:
    limits = (await user.js.account_info()).limits
    assert {limits.max_memory, limits.max_storage, limits.max_streams, limits.max_consumers} == {-1}
    assert {limits.memory_max_stream_bytes, limits.storage_max_stream_bytes} == {-1}


@proves(A, "INFO", "streams, consumers")
async def test_streams_and_consumers_are_counted(user: User) -> None:
    before = await user.js.account_info()
    await user.stream()
    await user.consumer()
    after = await user.js.account_info()
    assert (after.streams, after.consumers) == (before.streams + 1, before.consumers + 1)


@proves(A, "INFO", "storage")
@differs("0: how much is on disk is told by metrics")
async def test_storage_grows_with_what_is_stored(user: User) -> None:
    await user.stream()
    before = await user.js.account_info()
    await user.js.publish(user.subject(), b"x" * 100_000)

    if user.liftlog:
        assert before.storage == 0
        return

    async def grown() -> bool:
        return (await user.js.account_info()).storage >= before.storage + 100_000

    await user.until(grown)


@proves(A, "INFO", "api.total, api.errors")
@differs("each door counts what it answered itself")
async def test_requests_and_errors_are_counted(user: User) -> None:
    before = (await user.js.account_info()).api
    assert await user.refused("STREAM.INFO.nobody") == (404, 10059)
    if user.liftlog:

        async def counted() -> bool:
            return (await user.js.account_info()).api.errors > 0

        await user.until(counted)
        return
    after = (await user.js.account_info()).api
    assert after.total > before.total and after.errors > before.errors


@proves(A, "INFO", "api.level")
@differs("the level of the newest features that are complete here")
async def test_the_level_says_which_features_are_complete(user: User) -> None:
    level = (await user.js.account_info()).api.level
    assert level is not None
    assert level in (0, 1, 2) if user.liftlog else level >= 4


@proves(A, "INFO", "domain")
@differs("the door has a domain always")
async def test_the_domain_is_told(user: User) -> None:
    assert (await user.js.account_info()).domain == (user.server.domain or None)


@proves(A, "$JS.<domain>.API")
@differs("a nats-server without a domain does not answer there")
async def test_the_domain_s_own_prefix_is_answered(user: User) -> None:
    there = user.nc.jetstream(domain="liftlog", timeout=5)
    if user.liftlog:
        await there.add_stream(name=user.name, subjects=[user.subject()])
        assert (await user.info()).config.name == user.name
        await user.js.delete_stream(user.name)
    else:
        with pytest.raises(errors.ServiceUnavailableError):
            await there.account_info()


@proves(A, "every call", "type")
async def test_answers_name_their_type(user: User) -> None:
    await user.stream()
    for call, kind in (
        ("INFO", "account_info"),
        (f"STREAM.INFO.{user.name}", "stream_info"),
        ("STREAM.NAMES", "stream_names"),
        ("STREAM.LIST", "stream_list"),
        (f"CONSUMER.NAMES.{user.name}", "consumer_names"),
        (f"CONSUMER.LIST.{user.name}", "consumer_list"),
    ):
        assert (await user.api(call))["type"] == f"io.nats.jetstream.api.v1.{kind}_response"


@proves(A, "every call", "error")
async def test_errors_have_a_type_a_code_an_error_code_and_a_sentence(user: User) -> None:
    told = await user.api("STREAM.INFO.nobody")
    assert told["type"] == "io.nats.jetstream.api.v1.stream_info_response"
    assert told["error"] == {"code": 404, "err_code": 10059, "description": "stream not found"}


@proves_each(
    A,
    "a body that is no JSON",
    {
        "STREAM.CREATE": "STREAM.CREATE.{name}",
        "STREAM.UPDATE": "STREAM.UPDATE.{name}",
        "STREAM.INFO": "STREAM.INFO.{name}",
        "STREAM.NAMES": "STREAM.NAMES",
        "STREAM.LIST": "STREAM.LIST",
        "STREAM.PURGE": "STREAM.PURGE.{name}",
        "STREAM.MSG.GET": "STREAM.MSG.GET.{name}",
        "STREAM.MSG.DELETE": "STREAM.MSG.DELETE.{name}",
        "CONSUMER.CREATE": "CONSUMER.CREATE.{name}",
        "CONSUMER.NAMES": "CONSUMER.NAMES.{name}",
        "CONSUMER.LIST": "CONSUMER.LIST.{name}",
    },
)
async def test_what_is_no_json_is_a_bad_request(user: User, given: str) -> None:
    await user.stream()
    assert await user.refused(given.format(name=user.name), b"{not json") == (400, 10025)


@proves(A, "every call", "times end with Z")
async def test_times_are_utc_and_say_so(user: User) -> None:
    await user.stream()
    await user.publish("x")
    info = await user.api(f"STREAM.INFO.{user.name}")
    for time in (info["state"]["first_ts"], info["state"]["last_ts"]):
        assert time.endswith("Z")


@proves(A, "a call that nobody knows")
async def test_an_unknown_call_is_answered_by_nobody(user: User) -> None:
    there = user.nc.jetstream(timeout=2)
    with pytest.raises((errors.APIError, TimeoutError)):
        await there._jsm._api_request("$JS.API.STREAM.DANCE", b"", timeout=0.5)


@proves(A, "every call", "Nats-Required-Api-Level")
async def test_a_level_that_is_too_high_is_refused(user: User) -> None:
    told = await user.api("INFO", headers={"Nats-Required-Api-Level": "99"})
    assert (told["error"]["code"], told["error"]["err_code"]) == (412, 10185)
    assert "error" not in await user.api("INFO", headers={"Nats-Required-Api-Level": "0"})
