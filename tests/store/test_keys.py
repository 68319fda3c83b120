"""The bucket of API keys, and the table of them that every gateway follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from pyoco_server.api_keys import ApiKeyRecord, generate_api_key
from pyoco_server.clock import elapsed
from pyoco_server.errors import Conflict, Unavailable
from pyoco_server.jetstream import ordered_consumer as feeding
from pyoco_server.jetstream.errors import WrongSequence
from pyoco_server.jetstream.kv import Bucket
from pyoco_server.read_model.key_table import KeyTable
from pyoco_server.store.keys import PREFIX
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.keyring import id_of, new_key, put_upstreams_record, record_of, upstreams_record
from tests.store.making import config_on


def revoked(record: ApiKeyRecord) -> ApiKeyRecord:
    return replace(record, revoked_at=7.0)


def auth_bucket(store: Store) -> Bucket:
    return Bucket(store.jetstream, store.config.auth_kv_bucket)


@pytest.fixture
async def table(store: Store) -> AsyncIterator[KeyTable]:
    following = KeyTable(store.client, store.jetstream, store.config)
    following.start()
    await until(lambda: following.is_current)
    yield following
    await following.stop()


async def test_a_key_is_created_once(store: Store) -> None:
    _, record = generate_api_key(tenant_id="acme")
    await store.keys.create(record)
    with pytest.raises(Conflict, match=record.key_id):
        await store.keys.create(replace(record, tenant_id="other"))
    stored = await store.keys.get(record.key_id)
    assert stored is not None
    assert stored.record == record


async def test_an_overtaken_change_does_not_undo_the_other(store: Store) -> None:
    key = await new_key(store)
    stored = await store.keys.get(id_of(key))
    assert stored is not None
    await store.keys.change(id_of(key), revoked)
    with pytest.raises(WrongSequence):
        await store.keys.replace(replace(stored.record, name="late"), revision=stored.revision)
    assert (await record_of(store, key)).revoked_at == 7.0


async def test_changes_at_once_all_happen(store: Store) -> None:
    key = await new_key(store)

    def add(letter: str) -> None:
        def change(record: ApiKeyRecord) -> ApiKeyRecord:
            return replace(record, name=(record.name or "") + letter)

        tasks.append(asyncio.create_task(store.keys.change(id_of(key), change)))

    tasks: list[asyncio.Task[ApiKeyRecord | None]] = []
    for letter in "abcd":
        add(letter)
    await asyncio.gather(*tasks)
    assert sorted((await record_of(store, key)).name or "") == list("abcd")


@pytest.mark.parametrize("key_id", ["0" * 24, "", "a b", "*", ">", "a.b.c.d.e.f", "x" * 65])
async def test_a_key_that_is_not_there_cannot_be_changed(store: Store, key_id: str) -> None:
    assert await store.keys.get(key_id) is None
    assert await store.keys.change(key_id, revoked) is None


async def test_all_keys_are_listed_with_the_latest_first_and_nothing_else_of_the_bucket(store: Store) -> None:
    assert await store.keys.list() == []
    records = [generate_api_key(tenant_id="acme", now=float(at))[1] for at in (2, 3, 1)]
    for record in records:
        await store.keys.create(record)
    await auth_bucket(store).put("something_else", b"secret", revision=0)
    await auth_bucket(store).put(f"{PREFIX}broken00", b"{", revision=0)
    assert [record.created_at for record in await store.keys.list()] == [3.0, 2.0, 1.0]


async def test_the_table_has_what_was_and_hears_what_comes(store: Store) -> None:
    before = await new_key(store)
    table = KeyTable(store.client, store.jetstream, store.config)
    table.start()
    await until(lambda: table.is_current)
    assert table.find(id_of(before)) is not None
    after = await new_key(store, "other", scopes=("runs:read",))
    await until(lambda: table.find(id_of(after)))
    known = table.find(id_of(after))
    assert known is not None
    assert (known.record.tenant_id, known.scopes) == ("other", frozenset({"runs:read"}))
    await store.keys.change(id_of(before), revoked)
    await until(lambda: (found := table.find(id_of(before))) and found.record.is_revoked())
    await table.stop()
    await table.stop()


@pytest.mark.parametrize("how", ["deleted", "broken", "of another key"])
async def test_a_record_that_is_no_longer_one_is_no_longer_known(
    store: Store, table: KeyTable, how: str
) -> None:
    key = await new_key(store)
    name, stored = PREFIX + id_of(key), await store.keys.get(id_of(key))
    assert stored is not None
    await until(lambda: table.find(id_of(key)))
    if how == "deleted":
        await auth_bucket(store).delete(name, revision=stored.revision)
    else:
        anothers = replace(stored.record, key_id="another-id").to_json_bytes()
        content = b"{" if how == "broken" else anothers
        await auth_bucket(store).put(name, content, revision=stored.revision)
    await until(lambda: table.find(id_of(key)) is None)


async def test_a_record_of_upstream_is_known(store: Store, table: KeyTable) -> None:
    key = "pyoco_0123456789abcdef01234567.ZpYk2n3v5y8zBDEGKMNPQSTVWXYZabcdefghijklmno"
    await put_upstreams_record(store, key, upstreams_record(key, iterations=10))
    await until(lambda: table.find(id_of(key)))
    known = table.find(id_of(key))
    assert known is not None
    assert [kept.is_slow for kept in known.secrets] == [True]


async def test_a_table_that_was_not_filled_refuses(store: Store) -> None:
    table = KeyTable(store.client, store.jetstream, store.config)
    with pytest.raises(Unavailable, match="/ready"):
        table.check()


async def test_a_table_fills_also_when_the_last_message_is_gone(store: Store) -> None:
    key, gone = await new_key(store), await new_key(store)
    stream, subject = f"KV_{store.config.auth_kv_bucket}", f"$KV.{store.config.auth_kv_bucket}."
    await store.jetstream.api(f"STREAM.PURGE.{stream}", {"filter": f"{subject}{PREFIX}{id_of(gone)}"})
    table = KeyTable(store.client, store.jetstream, store.config)
    table.start()
    await until(lambda: table.is_current)
    assert table.find(id_of(key)) is not None
    assert table.find(id_of(gone)) is None
    await table.stop()


async def test_a_silent_broker_is_not_believed_for_long(
    own_nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection stands, and nothing comes: nobody knows what was revoked meanwhile."""
    monkeypatch.setattr(feeding, "SILENCE_MAX_SEC", 1.5)
    store = await Store.connect(config_on(own_nats_server), name="test")
    table = KeyTable(store.client, store.jetstream, store.config)
    table.start()
    await until(lambda: table.is_current)
    own_nats_server.pause()
    await until(lambda: not table.is_current)
    assert store.is_connected
    with pytest.raises(Unavailable):
        table.check()
    own_nats_server.resume()
    await until(lambda: table.is_current)
    await table.stop()
    await store.close()


async def test_a_table_of_a_machine_that_was_suspended_is_not_believed_before_it_has_heard_the_broker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = KeyTable(store.client, store.jetstream, store.config)
    table.start()
    await until(lambda: table.is_current)
    slept_sec = 3600.0  # the loop's clock does not count this
    monkeypatch.setattr(feeding, "elapsed", lambda: elapsed() + slept_sec, raising=False)
    with pytest.raises(Unavailable):
        table.check()
    await until(lambda: table.is_current)
    await table.stop()


async def test_the_table_survives_the_broker_and_learns_what_it_missed(own_nats_server: NatsServer) -> None:
    config = config_on(own_nats_server)
    store, other = [await Store.connect(config, name=name) for name in ("one", "two")]
    table = KeyTable(store.client, store.jetstream, config)
    store.on_reconnect(table.handle_reconnect)
    table.start()
    key = await new_key(other)
    await until(lambda: table.is_current and table.find(id_of(key)))
    own_nats_server.kill()
    await until(lambda: not table.is_current)
    own_nats_server.start()
    await until(lambda: other.reconnects == 1 and other.why_not_ready is None)
    await other.keys.change(id_of(key), revoked)
    await until(lambda: table.is_current)
    # Current again means: it has also what was written before it was.
    await until(lambda: (found := table.find(id_of(key))) and found.record.is_revoked())
    await table.stop()
    await asyncio.gather(store.close(), other.close())


async def test_after_a_reconnect_the_table_is_not_used_before_it_has_caught_up(
    store: Store, table: KeyTable
) -> None:
    table.handle_reconnect()
    assert not table.is_current
    await until(lambda: table.is_current)


async def test_another_bucket_under_the_same_name_is_read_anew(store: Store, table: KeyTable) -> None:
    old = await new_key(store)
    await until(lambda: table.find(id_of(old)))
    stream = f"KV_{store.config.auth_kv_bucket}"
    wanted = (await store.jetstream.api(f"STREAM.INFO.{stream}"))["config"]
    await store.jetstream.api(f"STREAM.DELETE.{stream}")
    await store.jetstream.api(f"STREAM.CREATE.{stream}", wanted)
    new = await new_key(store)
    table.handle_reconnect()
    await until(lambda: table.is_current and table.find(id_of(new)))
    assert table.find(id_of(old)) is None
