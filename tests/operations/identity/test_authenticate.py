"""From a key to its caller: what is compared, what is told, and slow keys beside the loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from pyoco_server import api_keys, clock
from pyoco_server.api_keys import HashedSecret
from pyoco_server.errors import Forbidden, Limited, Unavailable
from pyoco_server.operations.identity import authenticate, slow_keys
from pyoco_server.operations.identity.api_keys import revoke_key, rotate_key
from pyoco_server.operations.identity.authenticate import KeyCheck
from pyoco_server.operations.identity.callers import ANONYMOUS, Caller, Scope
from pyoco_server.read_model.key_table import KnownKey
from pyoco_server.store.store import Store
from tests.conftest import until
from tests.keyring import (
    id_of,
    new_key,
    put_upstreams_record,
    record_of,
    secret_of,
    upstreams_record,
    with_wrong_secret,
)

UPSTREAMS_KEY = "pyoco_0123456789abcdef01234567.ZpYk2n3v5y8zBDEGKMNPQSTVWXYZabcdefghijklmno"
UNKNOWN_KEY = "pyoco_fedcba987654321001234567.ZpYk2n3v5y8zBDEGKMNPQSTVWXYZabcdefghijklmno"


@pytest.fixture
async def check(store: Store) -> AsyncIterator[KeyCheck]:
    checking = KeyCheck(store)
    await checking.start()
    await until(lambda: checking.table.is_current)
    yield checking
    await checking.stop()


async def known(check: KeyCheck, key: str) -> str:
    await until(lambda: check.table.find(id_of(key)))
    return key


async def caller(check: KeyCheck, key: str) -> Caller:
    return await check.caller(key.encode())


async def with_slow_key(store: Store, check: KeyCheck, key: str = UPSTREAMS_KEY, iterations: int = 10) -> str:
    await put_upstreams_record(store, key, upstreams_record(key, iterations=iterations))
    return await known(check, key)


async def test_a_good_key_names_its_caller(store: Store, check: KeyCheck) -> None:
    key = await known(check, await new_key(store, "acme", scopes=("runs:read",)))
    assert await caller(check, key) == Caller(
        tenant_id="acme", id=id_of(key), scopes=frozenset({"runs:read"})
    )
    whole = await known(check, await new_key(store, "acme"))
    assert (await caller(check, whole)).scopes is None


async def test_unknown_and_wrong_are_told_the_same(store: Store, check: KeyCheck) -> None:
    key = await known(check, await new_key(store))
    told = set()
    for refused in (with_wrong_secret(key), UNKNOWN_KEY):
        with pytest.raises(Forbidden) as error:
            await caller(check, refused)
        told.add((error.value.message, error.value.err_id, str(error.value.details)))
    assert len(told) == 1


async def test_unknown_and_wrong_go_through_the_same_comparison(
    store: Store, check: KeyCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await known(check, await new_key(store))
    compared: list[tuple[str, str, int, int, int]] = []
    compare = api_keys.matches

    def noting(secret: str, kept: HashedSecret, pepper: str | None) -> bool:
        compared.append((secret, kept.kdf, kept.iterations, len(kept.salt), len(kept.hash)))
        return compare(secret, kept, pepper)

    monkeypatch.setattr(authenticate, "matches", noting)
    wrong = with_wrong_secret(key)
    unknown = UNKNOWN_KEY.partition(".")[0] + "." + secret_of(wrong)
    for refused in (wrong, unknown):
        with pytest.raises(Forbidden):
            await caller(check, refused)
    assert len(compared) == 2
    assert compared[0] == compared[1]


async def test_a_key_that_proved_itself_is_not_compared_again_until_its_record_changes(
    store: Store, check: KeyCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await known(check, await new_key(store, scopes=("runs:read",)))
    compared: list[str] = []
    compare = api_keys.matches

    def noting(secret: str, kept: HashedSecret, pepper: str | None) -> bool:
        compared.append(secret)
        return compare(secret, kept, pepper)

    monkeypatch.setattr(authenticate, "matches", noting)
    callers = [await caller(check, key) for _ in range(3)]
    assert len(compared) == 1
    assert callers[0] == callers[1] == callers[2]
    assert secret_of(key) not in repr(check._cache)
    before = check.table.find(id_of(key))
    await store.keys.change(id_of(key), lambda record: replace(record, scopes=("admin",)))
    await until(lambda: check.table.find(id_of(key)) is not before)
    assert (await caller(check, key)).scopes == frozenset({"admin"})
    assert len(compared) == 2


async def test_what_is_remembered_ends_with_the_key_and_has_a_bound(
    store: Store, check: KeyCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticate, "CACHED_MAX", 2)
    ends_at = time.time() + 3600
    keys = [await known(check, await new_key(store, expires_at=ends_at)) for _ in range(3)]
    for key in keys:
        await caller(check, key)
    assert len(check._cache) == 2
    monkeypatch.setattr(clock, "now", lambda: ends_at)
    with pytest.raises(Forbidden, match="has expired"):
        await caller(check, keys[2])


async def test_with_the_table_out_of_date_what_is_remembered_counts_for_nothing(
    store: Store, check: KeyCheck
) -> None:
    key = await known(check, await new_key(store))
    await caller(check, key)
    check.table.handle_reconnect()
    with pytest.raises(Unavailable):
        await caller(check, key)


async def test_only_who_has_the_secret_is_told_that_a_key_ended(store: Store, check: KeyCheck) -> None:
    revoked = await known(check, await new_key(store))
    expired = await known(check, await new_key(store, expires_at=time.time() - 1))
    await revoke_key(store, id_of(revoked))
    await until(lambda: (found := check.table.find(id_of(revoked))) and found.record.is_revoked())
    for key, words in ((revoked, "was revoked"), (expired, "has expired")):
        with pytest.raises(Forbidden, match=words):
            await caller(check, key)
        with pytest.raises(Forbidden, match="not known, or its secret is wrong"):
            await caller(check, with_wrong_secret(key))


async def test_what_is_no_key_is_refused_without_asking(store: Store) -> None:
    never_started = KeyCheck(store)
    with pytest.raises(Forbidden, match="pyoco_<key id>"):
        await caller(never_started, "hunter2")
    with pytest.raises(Unavailable):
        await caller(never_started, UNKNOWN_KEY)


async def test_after_a_rotation_both_secrets_name_the_same_caller(store: Store, check: KeyCheck) -> None:
    first = await known(check, await new_key(store))
    second, _ = await rotate_key(store, id_of(first), grace_sec=3600)
    await until(lambda: (found := check.table.find(id_of(first))) and len(found.secrets) == 2)
    assert await caller(check, first) == await caller(check, second)
    third, _ = await rotate_key(store, id_of(first), grace_sec=0)
    await until(lambda: (found := check.table.find(id_of(first))) and found.secrets[1].until <= time.time())
    for ended in (first, second):
        with pytest.raises(Forbidden):
            await caller(check, ended)
    assert (await caller(check, third)).id == id_of(first)


async def test_a_key_of_upstream_is_good_and_gets_a_fast_hash(store: Store, check: KeyCheck) -> None:
    key = await with_slow_key(store, check, iterations=200_000)
    assert await caller(check, key) == Caller(tenant_id="acme", id=id_of(key))
    await until(lambda: (found := check.table.find(id_of(key))) and not found.secrets[0].is_slow)
    assert (await record_of(store, key)).kdf == "hmac_sha256"
    assert await caller(check, key) == Caller(tenant_id="acme", id=id_of(key))
    with pytest.raises(Forbidden):
        await caller(check, with_wrong_secret(key))


async def test_many_who_come_at_once_with_a_slow_key_cost_one_hash(
    store: Store, check: KeyCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[bool] = []
    compare = api_keys.matches

    def noting(secret: str, kept: HashedSecret, pepper: str | None) -> bool:
        hashed.append(kept.is_slow)
        return compare(secret, kept, pepper)

    monkeypatch.setattr(slow_keys, "matches", noting)
    key = await with_slow_key(store, check)
    callers = await asyncio.gather(*(caller(check, key) for _ in range(50)))
    assert {one.id for one in callers} == {id_of(key)}
    wrong = with_wrong_secret(key)
    hashed.clear()
    for _ in range(3):
        assert await check._slow.fits(secret_of(wrong), *_slow_hash_of(key)) is False
    assert hashed == [True]


def _slow_hash_of(key: str) -> tuple[HashedSecret, KnownKey]:
    record = api_keys.ApiKeyRecord.from_json_bytes(upstreams_record(key, iterations=10))
    secrets = record.hashed_secrets()
    return secrets[0], KnownKey(record, 1, secrets, None, True)


async def test_guessing_at_a_slow_key_has_a_bound(
    store: Store, check: KeyCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_keys, "CACHED_MAX", 4)
    key = await with_slow_key(store, check)
    guesses = [caller(check, with_wrong_secret(key)) for _ in range(slow_keys.WAITING_MAX * 2)]
    refused = await asyncio.gather(*guesses, return_exceptions=True)
    assert {type(one) for one in refused} == {Forbidden, Limited}
    assert len(check._slow._answers) <= 4
    assert (await caller(check, key)).id == id_of(key)


async def test_a_revocation_meanwhile_is_not_undone_by_the_rewrite(
    store: Store, check: KeyCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await with_slow_key(store, check)
    rewrite = check._slow._rewrite

    async def revoke_first(*arguments: object) -> None:
        await revoke_key(store, id_of(key))
        await rewrite(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(check._slow, "_rewrite", revoke_first)
    with contextlib.suppress(Forbidden):  # it depends on who is told first
        await caller(check, key)
    record = await record_of(store, key)
    assert record.is_revoked()
    assert record.kdf == "pbkdf2_hmac_sha256"
    await until(lambda: (found := check.table.find(id_of(key))) and found.record.is_revoked())
    with pytest.raises(Forbidden):
        await caller(check, key)


async def test_a_stream_asks_whether_its_caller_is_still_good(store: Store, check: KeyCheck) -> None:
    key = await known(check, await new_key(store))
    streaming = await caller(check, key)
    assert check.still_good(streaming)
    await revoke_key(store, id_of(key))
    await until(lambda: not check.still_good(streaming))
    assert not check.still_good(ANONYMOUS)


def test_scopes_limit_and_the_administrators_means_all() -> None:
    reader = Caller(tenant_id="acme", scopes=frozenset({"runs:read"}))
    assert (reader.may(Scope.RUNS_READ), reader.may(Scope.RUNS_WRITE)) == (True, False)
    with pytest.raises(Forbidden, match="runs:write"):
        reader.require(Scope.RUNS_WRITE)
    for everything in (ANONYMOUS, Caller(tenant_id="acme", scopes=frozenset({"admin"}))):
        assert all(everything.may(scope) for scope in Scope)
    assert not any(Caller(tenant_id="acme", scopes=frozenset()).may(scope) for scope in Scope)
