"""Object stores, as nats-py keeps them."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from nats.js import api, errors
from nats.js.object_store import ObjectStore

from tests.jetstream.table import proves, proves_each
from tests.jetstream.user import DEADLINE_S, User

O = "Object store"  # noqa: E741


async def bucket(user: User, name: str = "", **config: Any) -> ObjectStore:
    return await user.js.create_object_store(
        name or user.name, api.ObjectStoreConfig(replicas=user.server.replicas, **config)
    )


async def left(user: User, store: ObjectStore, count: int) -> None:
    """Wait until so many messages are left: with liftlog older ones go a moment after the ack."""

    async def reached() -> bool:
        return (await store.status()).stream_info.state.messages == count

    await user.until(reached)


@proves(O, "create_object_store")
async def test_a_store_is_made(user: User) -> None:
    store = await bucket(user)
    status = await store.status()
    assert (status.bucket, status.size, status.sealed) == (user.name, 0, False)


@proves_each(
    O,
    "create_object_store",
    {
        "description": {"description": "pictures"},
        "ttl": {"ttl": 3600},
        "max_bytes": {"max_bytes": 5_000_000},
        "storage: file": {"storage": "file"},
    },
)
async def test_a_store_has_what_it_is_told(user: User, given: dict[str, Any], refusal: str) -> None:
    if refusal:
        with pytest.raises(errors.ServerError):
            await bucket(user, **given)
        return
    store = await bucket(user, **given)
    await store.put("a", b"1")
    assert (await store.get("a")).data == b"1"


@proves(O, "object_store", "a store that is there")
async def test_a_store_is_opened(user: User) -> None:
    await (await bucket(user)).put("a", b"1")
    assert (await (await user.js.object_store(user.name)).get("a")).data == b"1"


@proves(O, "object_store", "unknown store")
async def test_an_unknown_store_is_not_found(user: User) -> None:
    with pytest.raises(errors.BucketNotFoundError):
        await user.js.object_store(user.name)


@proves(O, "delete_object_store")
async def test_a_store_is_deleted(user: User) -> None:
    await bucket(user)
    assert await user.js.delete_object_store(user.name) is True
    with pytest.raises(errors.BucketNotFoundError):
        await user.js.object_store(user.name)


@proves(O, "put, get")
async def test_an_object_is_put_and_read(user: User) -> None:
    store = await bucket(user)
    info = await store.put("a", b"hello")
    assert (info.name, info.bucket, info.size, info.chunks) == ("a", user.name, 5, 1)
    assert info.digest is not None and info.digest.startswith("SHA-256=")
    found = await store.get("a")
    assert found.data == b"hello" and found.info.digest == info.digest


@proves(O, "put, get", "text")
async def test_text_is_put(user: User) -> None:
    store = await bucket(user)
    await store.put("a", "Grüße")
    assert (await store.get("a")).data == "Grüße".encode()


@proves(O, "put, get", "an empty object")
async def test_an_empty_object(user: User) -> None:
    store = await bucket(user)
    info = await store.put("a", b"")
    assert (info.size, info.chunks) == (0, 0)
    assert (await store.get("a")).data == b""


@proves(O, "put, get", "several chunks")
async def test_an_object_of_several_chunks(user: User) -> None:
    store = await bucket(user)
    data = random.Random(1).randbytes(400_000)
    info = await store.put("a", data)
    assert (info.size, info.chunks) == (400_000, 4)
    assert (await store.get("a")).data == data


@proves(O, "put, get", "max_chunk_size")
async def test_an_object_of_many_small_chunks(user: User) -> None:
    store = await bucket(user)
    data = random.Random(2).randbytes(10_000)
    meta = api.ObjectMeta(options=api.ObjectMetaOptions(max_chunk_size=100))
    info = await store.put("a", data, meta)
    assert info.chunks == 100
    assert (await store.get("a")).data == data


@proves(O, "put, get", "a large object")
async def test_a_large_object(user: User) -> None:
    store = await bucket(user)
    data = random.Random(3).randbytes(3_000_000)
    await store.put("a", data)
    assert (await store.get("a")).data == data


@proves(O, "put, get", "files")
async def test_objects_are_read_from_files_and_written_into_them(user: User) -> None:
    store = await bucket(user)
    await store.put("a", io.BytesIO(b"from a file"))
    written = io.BytesIO()
    await store.get("a", writeinto=written)
    assert written.getvalue() == b"from a file"


@proves(O, "put, get", "names of any kind")
async def test_names_are_any_text(user: User) -> None:
    store = await bucket(user)
    for name in ("a b.txt", "dir/file", "ü>*"):
        await store.put(name, name.encode())
        assert (await store.get(name)).data == name.encode()


@proves(O, "put", "again: the old chunks go")
async def test_an_object_is_put_again(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"old")
    await store.put("a", b"new")
    assert (await store.get("a")).data == b"new"
    await left(user, store, 2)


@proves(O, "put", "description and headers")
async def test_an_object_has_a_description_and_headers(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"1", api.ObjectMeta(description="one", headers={"Kind": ["x"]}))
    info = await store.get_info("a")
    assert (info.description, info.headers) == ("one", {"Kind": ["x"]})


@proves(O, "get", "unknown object")
async def test_an_unknown_object_is_not_found(user: User) -> None:
    store = await bucket(user)
    with pytest.raises(errors.ObjectNotFoundError):
        await store.get("a")


@proves(O, "get_info")
async def test_an_object_is_described(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"123")
    info = await store.get_info("a")
    assert (info.name, info.size, info.chunks, info.deleted) == ("a", 3, 1, False)


@proves(O, "delete")
async def test_an_object_is_deleted(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"123")
    await store.delete("a")
    with pytest.raises(errors.ObjectNotFoundError):
        await store.get("a")
    info = await store.get_info("a", show_deleted=True)
    assert info.deleted is True and info.size == 0
    await left(user, store, 1)


@proves(O, "list")
async def test_objects_are_listed(user: User) -> None:
    store = await bucket(user)
    for name in ("a", "b", "c"):
        await store.put(name, name.encode())
    await store.delete("b")
    assert sorted(one.name for one in await store.list(ignore_deletes=True)) == ["a", "c"]


@proves(O, "list", "deleted objects")
async def test_deleted_objects_are_listed_too(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"1")
    await store.delete("a")
    assert [(one.name, one.deleted) for one in await store.list()] == [("a", True)]


@proves(O, "list", "an empty store")
async def test_an_empty_store_lists_nothing(user: User) -> None:
    store = await bucket(user)
    with pytest.raises(errors.NotFoundError):
        await store.list()


@proves(O, "watch")
async def test_objects_are_watched(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"1")
    watcher = await store.watch()
    first = await watcher.updates(timeout=DEADLINE_S)
    assert first is not None and first.name == "a"
    assert await watcher.updates(timeout=DEADLINE_S) is None
    await store.put("b", b"2")
    later = await watcher.updates(timeout=DEADLINE_S)
    assert later is not None and later.name == "b"
    await watcher.stop()


@proves(O, "watch", "updates_only")
async def test_only_updates_are_watched(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"1")
    watcher = await store.watch(updates_only=True)
    await store.put("b", b"2")
    later = await watcher.updates(timeout=DEADLINE_S)
    assert later is not None and later.name == "b"
    await watcher.stop()


@proves(O, "watch", "include_history")
async def test_a_history_of_objects_is_their_last_meta(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"1")
    await store.put("a", b"2")
    watcher = await store.watch(include_history=True)
    first = await watcher.updates(timeout=DEADLINE_S)
    assert first is not None and first.name == "a"
    assert await watcher.updates(timeout=DEADLINE_S) is None
    await watcher.stop()


@proves(O, "update_meta")
async def test_a_description_is_changed(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"1")
    await store.update_meta("a", api.ObjectMeta(name="a", description="new"))
    assert (await store.get_info("a")).description == "new"
    assert (await store.get("a")).data == b"1"


@proves(O, "links")
async def test_a_link_leads_to_another_store(user: User) -> None:
    store, other = await bucket(user), await bucket(user, f"{user.name}L")
    await store.put("a", b"there")
    link = api.ObjectLink(bucket=user.name, name="a")
    meta = api.ObjectMeta(options=api.ObjectMetaOptions(link=link, max_chunk_size=1024))
    await other.put("l", b"", meta)
    assert (await other.get_info("l")).is_link()
    assert (await other.get("l")).data == b"there"


@proves(O, "links", "to a whole store")
async def test_a_link_to_a_store_is_no_object(user: User) -> None:
    store = await bucket(user)
    meta = api.ObjectMeta(
        options=api.ObjectMetaOptions(link=api.ObjectLink(bucket="other"), max_chunk_size=1024)
    )
    await store.put("l", b"", meta)
    with pytest.raises(errors.LinkIsABucketError):
        await store.get("l")


@proves(O, "seal")
async def test_a_sealed_store_takes_nothing_more(user: User) -> None:
    store = await bucket(user)
    await store.put("a", b"1")
    await store.seal()
    assert (await store.status()).sealed is True
    with pytest.raises(errors.APIError):
        await store.put("b", b"2")
    assert (await store.get("a")).data == b"1"


@proves(O, "max_bytes")
async def test_a_full_store_refuses(user: User) -> None:
    store = await bucket(user, max_bytes=3000)
    with pytest.raises(errors.APIError) as caught:
        await store.put("a", b"x" * 10_000)
    assert caught.value.err_code == 10077
