"""Key-value buckets, as nats-py keeps them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.js import errors
from nats.js.kv import KeyValue

from tests.jetstream.table import differs, proves, proves_each
from tests.jetstream.user import DEADLINE_S, User

V = "Key-value"


async def bucket(user: User, **config: Any) -> KeyValue:
    return await user.js.create_key_value(bucket=user.name, replicas=user.server.replicas, **config)


async def updates(watcher: Any, count: int) -> list[Any]:
    """So many updates: key and value, or None where the first phase ends."""
    found = []
    for _ in range(count):
        entry = await watcher.updates(timeout=DEADLINE_S)
        found.append(entry and (entry.key, entry.value, entry.operation))
    return found


async def left(user: User, kv: KeyValue, count: int) -> None:
    """Wait until so many values are left: with liftlog older ones go a moment after the ack."""

    async def reached() -> bool:
        return (await kv.status()).values == count

    await user.until(reached)


@proves(V, "create_key_value")
async def test_a_bucket_is_made(user: User) -> None:
    kv = await bucket(user)
    status = await kv.status()
    assert (status.bucket, status.values, status.history) == (user.name, 0, 1)


@proves(V, "create_key_value", "the same again")
async def test_the_same_bucket_again_is_no_error(user: User) -> None:
    await bucket(user)
    await bucket(user)


@proves_each(
    V,
    "create_key_value",
    {
        "description": {"description": "settings"},
        "max_value_size": {"max_value_size": 100},
        "history": {"history": 5},
        "ttl": {"ttl": 3600},
        "max_bytes": {"max_bytes": 5_000_000},
        "direct": {"direct": True},
        "storage: file": {"storage": "file"},
        "limit_marker_ttl": {"limit_marker_ttl": 60},
    },
)
async def test_a_bucket_has_what_it_is_told(user: User, given: dict[str, Any], refusal: str) -> None:
    if refusal:
        with pytest.raises((errors.APIError, errors.KeyValueLimitMarkerTTLNotSupportedError)):
            await bucket(user, **given)
        return
    kv = await bucket(user, **given)
    await kv.put("k", b"v")
    assert (await kv.get("k")).value == b"v"


@proves(V, "key_value", "a bucket that is there")
async def test_a_bucket_is_opened(user: User) -> None:
    await (await bucket(user)).put("k", b"v")
    assert (await (await user.js.key_value(user.name)).get("k")).value == b"v"


@proves(V, "key_value", "unknown bucket")
async def test_an_unknown_bucket_is_not_found(user: User) -> None:
    with pytest.raises(errors.BucketNotFoundError):
        await user.js.key_value(user.name)


@proves(V, "delete_key_value")
async def test_a_bucket_is_deleted(user: User) -> None:
    await bucket(user)
    assert await user.js.delete_key_value(user.name) is True
    with pytest.raises(errors.BucketNotFoundError):
        await user.js.key_value(user.name)


@proves(V, "put, get")
async def test_a_value_is_put_and_read(user: User) -> None:
    kv = await bucket(user)
    assert await kv.put("k", b"v1") == 1
    assert await kv.put("k", b"v2") == 2
    entry = await kv.get("k")
    assert (entry.key, entry.value, entry.revision) == ("k", b"v2", 2)


@proves(V, "put, get", "directly")
async def test_a_value_is_read_directly(user: User) -> None:
    kv = await bucket(user, direct=True)
    await kv.put("k", b"v")

    async def there() -> bool:
        try:
            return (await kv.get("k")).value == b"v"
        except errors.KeyNotFoundError:
            return False

    await user.until(there)


@proves(V, "put, get", "keys with dots and slashes")
async def test_keys_have_many_characters(user: User) -> None:
    kv = await bucket(user)
    for key in ("a.b.c", "a/b", "A-1_2=3"):
        await kv.put(key, key.encode())
        assert (await kv.get(key)).value == key.encode()


@proves(V, "put, get", "an empty value")
async def test_an_empty_value(user: User) -> None:
    kv = await bucket(user)
    await kv.put("k", b"")
    assert not (await kv.get("k")).value


@proves(V, "get", "unknown key")
async def test_an_unknown_key_is_not_found(user: User) -> None:
    for direct in (False, True):
        kv = await user.js.create_key_value(
            bucket=f"{user.name}{direct}", replicas=user.server.replicas, direct=direct
        )
        with pytest.raises(errors.KeyNotFoundError):
            await kv.get("k")


@proves(V, "get", "revision")
async def test_an_old_revision_is_read(user: User) -> None:
    kv = await bucket(user, history=3)
    for value in (b"1", b"2", b"3"):
        await kv.put("k", value)
    assert (await kv.get("k", revision=2)).value == b"2"
    await kv.put("other", b"x")
    with pytest.raises(errors.KeyNotFoundError):
        await kv.get("k", revision=4)


@proves(V, "create")
async def test_a_key_is_created_once(user: User) -> None:
    kv = await bucket(user)
    assert await kv.create("k", b"1") == 1
    with pytest.raises(errors.KeyWrongLastSequenceError):
        await kv.create("k", b"2")


@proves(V, "create", "after delete")
async def test_a_deleted_key_is_created_again(user: User) -> None:
    kv = await bucket(user)
    await kv.create("k", b"1")
    await kv.delete("k")
    assert await kv.create("k", b"2") == 3


@proves(V, "create", "msg_ttl")
async def test_a_key_is_created_for_a_time(user: User) -> None:
    kv = await bucket(user)
    await kv.create("k", b"1", msg_ttl=1)

    async def gone() -> bool:
        try:
            await kv.get("k")
        except errors.KeyNotFoundError:
            return True
        return False

    await user.until(gone)


@proves(V, "update")
async def test_a_key_is_updated_at_its_revision(user: User) -> None:
    kv = await bucket(user)
    first = await kv.put("k", b"1")
    assert await kv.update("k", b"2", last=first) == 2
    with pytest.raises(errors.KeyWrongLastSequenceError):
        await kv.update("k", b"3", last=first)
    assert (await kv.get("k")).value == b"2"


@proves(V, "update", "other keys do not matter")
async def test_other_keys_do_not_matter(user: User) -> None:
    kv = await bucket(user)
    first = await kv.put("k", b"1")
    await kv.put("other", b"x")
    assert await kv.update("k", b"2", last=first) == 3


@proves(V, "update", "of two at once one wins")
async def test_of_two_updates_one_wins(user: User) -> None:
    kv = await bucket(user)
    first = await kv.put("k", b"0")
    results = await asyncio.gather(
        *(kv.update("k", str(number).encode(), last=first) for number in range(5)), return_exceptions=True
    )
    assert sum(isinstance(one, int) for one in results) == 1
    assert sum(isinstance(one, errors.KeyWrongLastSequenceError) for one in results) == 4


@proves(V, "delete")
async def test_a_key_is_deleted(user: User) -> None:
    kv = await bucket(user)
    await kv.put("k", b"1")
    assert await kv.delete("k") is True
    with pytest.raises(errors.KeyNotFoundError) as caught:
        await kv.get("k")
    assert caught.value.op == "DEL"


@proves(V, "delete", "last")
async def test_a_key_is_deleted_at_its_revision(user: User) -> None:
    kv = await bucket(user)
    revision = await kv.put("k", b"1")
    with pytest.raises(errors.APIError):
        await kv.delete("k", last=revision + 5)
    await kv.delete("k", last=revision)
    with pytest.raises(errors.KeyNotFoundError):
        await kv.get("k")


@proves(V, "purge")
async def test_a_key_is_purged_with_its_history(user: User) -> None:
    kv = await bucket(user, history=5)
    for value in (b"1", b"2", b"3"):
        await kv.put("k", value)
    await kv.put("other", b"x")
    await kv.purge("k")
    await left(user, kv, 2)
    with pytest.raises(errors.KeyNotFoundError):
        await kv.get("k")
    history = await kv.history("k")
    assert [entry.operation for entry in history] == ["PURGE"]
    assert (await kv.get("other")).value == b"x"


@proves(V, "purge", "msg_ttl")
async def test_a_purge_marker_goes_after_its_time(user: User) -> None:
    kv = await bucket(user)
    await kv.put("k", b"1")
    await kv.purge("k", msg_ttl=1)

    async def gone() -> bool:
        return (await kv.status()).values == 0

    await user.until(gone)


@proves(V, "purge_deletes")
async def test_markers_are_purged(user: User) -> None:
    kv = await bucket(user, history=5)
    for key in "abc":
        await kv.put(key, b"1")
    await kv.delete("a")
    await kv.delete("b")
    await kv.purge_deletes(olderthan=-1)
    await left(user, kv, 1)


@proves(V, "history")
@differs("what is above the limit goes a moment after the ack")
async def test_a_key_s_history_is_read(user: User) -> None:
    kv = await bucket(user, history=3)
    for value in (b"1", b"2", b"3", b"4"):
        await kv.put("k", value)
    await left(user, kv, 3)
    history = await kv.history("k")
    assert [(entry.value, entry.revision) for entry in history] == [(b"2", 2), (b"3", 3), (b"4", 4)]


@proves(V, "history", "unknown key")
async def test_an_unknown_key_has_no_history(user: User) -> None:
    kv = await bucket(user, history=3)
    with pytest.raises(errors.NoKeysError):
        await kv.history("k")


@proves(V, "history", "above 64")
async def test_a_history_is_not_longer_than_64(user: User) -> None:
    with pytest.raises(errors.KeyHistoryTooLargeError):
        await bucket(user, history=65)


@proves(V, "keys")
async def test_keys_are_listed(user: User) -> None:
    kv = await bucket(user)
    for key in ("b", "a", "c.d", "gone"):
        await kv.put(key, b"1")
    await kv.delete("gone")
    assert sorted(await kv.keys()) == ["a", "b", "c.d"]


@proves(V, "keys", "filters")
async def test_keys_are_listed_by_filters(user: User) -> None:
    kv = await bucket(user)
    for key in ("a.1", "a.2", "b.1"):
        await kv.put(key, b"1")
    assert sorted(await kv.keys(filters=["a."])) == ["a.1", "a.2"]


@proves(V, "keys", "an empty bucket")
async def test_an_empty_bucket_has_no_keys(user: User) -> None:
    kv = await bucket(user)
    with pytest.raises(errors.NoKeysError):
        await kv.keys()


@proves(V, "watch")
async def test_a_key_is_watched(user: User) -> None:
    kv = await bucket(user)
    await kv.put("k", b"1")
    watcher = await kv.watch("k")
    assert await updates(watcher, 2) == [("k", b"1", None), None]
    await kv.put("k", b"2")
    await kv.put("other", b"x")
    await kv.delete("k")
    assert await updates(watcher, 2) == [("k", b"2", None), ("k", b"", "DEL")]
    await watcher.stop()


@proves(V, "watch", "an empty bucket")
async def test_a_watch_of_nothing_begins_with_the_end_of_its_first_phase(user: User) -> None:
    kv = await bucket(user)
    watcher = await kv.watchall()
    assert await updates(watcher, 1) == [None]
    await kv.put("k", b"1")
    assert await updates(watcher, 1) == [("k", b"1", None)]
    await watcher.stop()


@proves(V, "watch", "patterns")
async def test_a_pattern_is_watched(user: User) -> None:
    kv = await bucket(user)
    for key in ("a.1", "b.1", "a.2"):
        await kv.put(key, key.encode())
    watcher = await kv.watch("a.*")
    assert await updates(watcher, 3) == [("a.1", b"a.1", None), ("a.2", b"a.2", None), None]
    await watcher.stop()


@proves(V, "watch", "last values only")
async def test_a_watch_begins_with_the_last_values(user: User) -> None:
    kv = await bucket(user, history=5)
    for key, value in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        await kv.put(key, value)
    watcher = await kv.watchall()
    assert await updates(watcher, 3) == [("b", b"2", None), ("a", b"3", None), None]
    await watcher.stop()


@proves(V, "watch", "include_history")
async def test_a_watch_begins_with_the_history(user: User) -> None:
    kv = await bucket(user, history=5)
    for value in (b"1", b"2"):
        await kv.put("a", value)
    watcher = await kv.watchall(include_history=True)
    assert await updates(watcher, 3) == [("a", b"1", None), ("a", b"2", None), None]
    await watcher.stop()


@proves(V, "watch", "ignore_deletes")
async def test_a_watch_passes_over_deletes(user: User) -> None:
    kv = await bucket(user)
    for key in "ab":
        await kv.put(key, b"1")
    await kv.delete("b")
    watcher = await kv.watchall(ignore_deletes=True)
    assert await updates(watcher, 2) == [("a", b"1", None), None]
    await watcher.stop()


@proves(V, "watch", "meta_only")
async def test_a_watch_without_values(user: User) -> None:
    kv = await bucket(user)
    await kv.put("a", b"123")
    watcher = await kv.watchall(meta_only=True)
    assert await updates(watcher, 2) == [("a", b"", None), None]
    await watcher.stop()


@proves(V, "watch", "revision, delta, created")
async def test_an_update_says_where_it_is(user: User) -> None:
    kv = await bucket(user)
    await kv.put("a", b"1")
    await kv.put("b", b"2")
    watcher = await kv.watchall()
    first = await watcher.updates(timeout=DEADLINE_S)
    assert (first.revision, first.delta, first.bucket) == (1, 1, user.name)
    assert first.created is not None
    await watcher.stop()


@proves(V, "status")
async def test_a_bucket_s_status(user: User) -> None:
    kv = await bucket(user, history=4, ttl=3600)
    await kv.put("a", b"1")
    await kv.put("a", b"2")
    status = await kv.status()
    assert (status.values, status.history, status.ttl) == (2, 4, 3600)
    assert status.stream_info.config.name == f"KV_{user.name}"


@proves(V, "ttl")
async def test_values_go_after_the_bucket_s_time(user: User) -> None:
    kv = await bucket(user, ttl=0.3)
    await kv.put("a", b"1")
    assert (await kv.status()).ttl == 0.3

    async def gone() -> bool:
        try:
            await kv.get("a")
        except errors.KeyNotFoundError:
            return True
        return False

    await user.until(gone)


@proves(V, "max_value_size")
async def test_a_value_that_is_too_large_is_refused(user: User) -> None:
    kv = await bucket(user, max_value_size=10)
    with pytest.raises(errors.APIError) as caught:
        await kv.put("a", b"x" * 11)
    assert caught.value.err_code == 10054


@proves(V, "max_bytes")
async def test_a_full_bucket_refuses(user: User) -> None:
    kv = await bucket(user, max_bytes=2000)
    await kv.put("a", b"x" * 900)
    with pytest.raises(errors.APIError) as caught:
        await kv.put("b", b"x" * 1500)
    assert caught.value.err_code == 10077
    counted = 30 + len(f"$KV.{user.name}.a") + 900
    assert (await kv.status()).stream_info.state.bytes == counted
    await kv.put("b", b"x" * 900)


TAKES_A_REPLACEMENT = (
    "refused, as by nats-server where the stream has several replicas: with one it takes a value that is no "
    "longer than the oldest of its key, which goes in the same step, if the put expects nothing"
)


@proves(V, "max_bytes", "another value for a key of a full bucket")
@differs(TAKES_A_REPLACEMENT)
async def test_a_full_bucket_and_another_value_for_a_key_that_is_there(user: User) -> None:
    kv = await bucket(user, max_bytes=2000)
    await kv.put("a", b"x" * 900)
    await kv.put("b", b"x" * 900)
    refuses = user.liftlog or user.server.replicas > 1
    for length in (900, 10):
        if refuses and length == 900:
            with pytest.raises(errors.APIError) as caught:
                await kv.put("a", b"y" * length)
            assert caught.value.err_code == 10077
        elif not refuses:
            await kv.put("a", b"y" * length)
    entry = await kv.get("a")
    assert entry.value == (b"x" * 900 if refuses else b"y" * 10)
    if not refuses:
        with pytest.raises(errors.APIError) as caught:
            await kv.put("a", b"z" * 1100)
        assert caught.value.err_code == 10077


@proves(V, "max_bytes", "update of a key of a full bucket")
async def test_a_full_bucket_and_an_update(user: User) -> None:
    kv = await bucket(user, max_bytes=2000)
    revision = await kv.put("a", b"x" * 900)
    await kv.put("b", b"x" * 900)
    with pytest.raises(errors.APIError) as caught:
        await kv.update("a", b"y" * 900, last=revision)
    assert caught.value.err_code == 10077


@proves(V, "update", "a bucket as a lock")
async def test_a_bucket_is_a_lock(user: User) -> None:
    kv = await bucket(user)
    total = await kv.put("count", b"0")

    async def add() -> None:
        while True:
            entry = await kv.get("count")
            assert entry.value is not None
            try:
                await kv.update("count", str(int(entry.value) + 1).encode(), last=entry.revision)
                return
            except errors.KeyWrongLastSequenceError:
                continue

    await asyncio.gather(*(add() for _ in range(6)))
    entry = await kv.get("count")
    assert (entry.value, entry.revision) == (b"6", total + 6)


@proves(V, "limit_marker_ttl")
async def test_a_watcher_sees_that_a_key_expired(user: User) -> None:
    kv = await bucket(user, ttl=1, limit_marker_ttl=60)
    await kv.put("a", b"1")
    watcher = await kv.watchall()
    assert await updates(watcher, 2) == [("a", b"1", None), None]
    assert await updates(watcher, 1) == [("a", b"", "PURGE")]
    await watcher.stop()


