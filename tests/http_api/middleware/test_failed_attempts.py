"""Guessing keys: so many wrong ones from one address in a minute, and callers who are known keep working."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import httpx
import pytest

from pyoco_server.errors import Limited
from pyoco_server.http_api import create_app
from pyoco_server.operations.identity import failed_attempts
from pyoco_server.operations.identity.failed_attempts import FailedAttempts
from pyoco_server.store.store import Store
from tests import issuer
from tests.conftest import NatsServer, until
from tests.http_api.serving import is_ready
from tests.keyring import new_key, with_wrong_secret
from tests.worker.stage import config_on

LIMIT = 5


async def _status(client: httpx.AsyncClient, key: str, status: int) -> bool:
    return (await client.get("/caller", headers={"X-API-Key": key})).status_code == status


async def test_after_so_many_wrong_ones_an_address_waits_and_others_do_not(
    nats_server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jwks = str(issuer.write_jwks(tmp_path / "jwks.json", "k1"))
    config = config_on(nats_server, http_auth_mode="api_key,jwt", jwt_jwks=jwks, auth_failures_per_min=LIMIT)
    store = await Store.connect(config, name="test")
    key, unused = await new_key(store), await new_key(store)
    app = create_app(config)
    async with app.router.lifespan_context(app):
        near, far = (_client_from(app, address) for address in ("192.0.2.1", "192.0.2.2"))
        await until(partial(is_ready, near))
        await until(partial(_status, near, key, 200))
        wrong: list[dict[str, str]] = [{"X-API-Key": with_wrong_secret(key)}] * 3
        wrong += [issuer.bearer(issuer.token(signed_by="other"))] * 2
        for headers in wrong:
            assert (await near.get("/runs", headers=headers)).status_code in (401, 403)
        for path in ("/runs", "/executions", "/jobs", "/workers", "/gui/strategies"):
            for headers in (wrong[0], wrong[-1], {"X-API-Key": unused}):
                limited = await near.get(path, headers=headers)
                assert limited.status_code == 429, (path, limited.text)
                assert 1 <= int(limited.headers["retry-after"]) <= 60
        assert (await near.get("/runs")).status_code == 401
        assert await _status(near, key, 200)
        assert await _status(far, unused, 200)
    said = [record for record in caplog.records if record.message == "too many failed authentications"]
    assert [vars(record)["peer"] for record in said] == ["192.0.2.1"]
    await store.close()


def _client_from(app: object, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, client=(address, 1))  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30)


def test_what_is_remembered_of_addresses_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_attempts, "PEERS_MAX", 3)
    failures = FailedAttempts(1)
    for number in range(10):
        failures.note(f"192.0.2.{number}")
    assert len(failures) == 3
    failures.check("192.0.2.0")
    with pytest.raises(Limited):
        failures.check("192.0.2.9")


def test_addresses_of_one_subscriber_count_together() -> None:
    failures = FailedAttempts(2)
    failures.note("2001:db8::1")
    failures.note("2001:db8::2")
    with pytest.raises(Limited):
        failures.check("2001:db8::ffff")
    failures.check("2001:db8:0:1::1")
    failures.check("unix socket")


def test_failures_are_forgiven_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(failed_attempts, "elapsed", lambda: now[0])
    failures = FailedAttempts(1)
    failures.note("192.0.2.1")
    with pytest.raises(Limited) as refused:
        failures.check("192.0.2.1")
    now[0] += refused.value.retry_after_sec
    failures.check("192.0.2.1")
