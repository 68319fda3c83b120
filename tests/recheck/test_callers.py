"""Who may do what, and the exact answer for every kind of token; tenants; the line written of a request."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server import clock
from pyoco_server.config import NatsBackendConfig
from pyoco_server.ids import new_ulid
from pyoco_server.store.store import Store
from tests import issuer
from tests.conftest import NatsServer, until
from tests.http_api.serving import serving
from tests.keyring import new_key, with_wrong_secret
from tests.operations.identity.test_authenticate_jwt import BAD
from tests.recheck.faces import asked, expect_flat, jwt_headers, post, recheck_config, recheck_face
from tests.recheck.stage import evaluating

READER = {"aud": "pdca.gui", "scope": "pdca:read"}


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    keys = issuer.write_jwks(tmp_path / "jwks.json", "k1")
    return recheck_config(nats_server, tmp_path, jwt_jwks=str(keys))


@pytest.fixture
async def face(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    async with recheck_face(config) as client:
        yield client


async def test_whatever_is_no_proof_is_401_with_a_challenge(face: httpx.AsyncClient) -> None:
    for kind, make in BAD.items():
        answer = await face.get("/gui/strategies", headers=issuer.bearer(make()))
        assert answer.status_code == 401, kind
        assert expect_flat(answer, 401, "UNAUTHORIZED")
        assert answer.headers["www-authenticate"].startswith("Bearer realm="), kind
    for headers in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}):
        answer = await face.get("/gui/strategies", headers=headers)
        expect_flat(answer, 401, "UNAUTHORIZED")
        assert answer.headers["www-authenticate"].startswith("Bearer realm=")
    expired = await face.get("/gui/strategies", headers=jwt_headers(exp=int(time.time()) - 130))
    assert 'error="invalid_token"' in expired.headers["www-authenticate"]
    # Who asks is found out before what they ask for.
    expect_flat(await face.get("/gui/nothing"), 401, "UNAUTHORIZED")
    expect_flat(await post(face, b"{"), 401, "UNAUTHORIZED")


ALL = "pdca:read pdca:recheck pdca:recheck_all pdca:download"
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "recheck": ("POST", "/pdca/recheck", asked()),
    "recheck_all": ("POST", "/pdca/recheck_all", {"filter": {}, "reason": "x"}),
    "list": ("GET", "/gui/strategies", None),
    "one": ("GET", "/gui/strategies/strat.a", None),
    "results": ("GET", "/gui/strategies/strat.a/results", None),
    "artifact": ("GET", "/gui/artifacts/1/url", None),
    "status": ("GET", "/pdca/recheck/01JABCXYZ", None),
    "gui status": ("GET", "/gui/requests/01JABCXYZ", None),
    "put": ("PUT", "/gui/strategies/strat.z", {}),
    "delete": ("DELETE", "/gui/strategies/strat.nobody", None),
}
# What each answers a caller of the default tenant who may: 404 is said to nobody else.
FINE = dict(zip(REQUESTS, (202, 202, 200, 200, 200, 404, 404, 404, 200, 404), strict=True))

# audience, scopes, and what is then possible
TABLE: list[tuple[str, str, set[str]]] = [
    ("pdca", "pdca:recheck", {"recheck", "status", "gui status"}),
    ("pdca", "pdca:recheck_all", {"recheck_all", "status", "gui status"}),
    ("pdca", "pdca:read", {"status", "gui status"}),
    ("pdca", ALL, {"recheck", "recheck_all", "status", "gui status"}),
    ("pdca", "", set()),
    ("pdca", "pdca:download", set()),
    ("pdca.gui", "pdca:read", {"list", "one", "results", "status", "gui status"}),
    ("pdca.gui", "pdca:recheck pdca:recheck_all", set()),
    ("pdca.gui", "pdca:download", {"artifact"}),
    ("pdca.gui", ALL, {"list", "one", "results", "status", "gui status", "artifact"}),
    ("pdca", "pdca:admin", {"put", "delete"}),
    ("pdca.gui", "pdca:admin", {"put", "delete"}),
    ("pyoco-server", ALL + " pdca:admin", set()),
]


@pytest.mark.parametrize(("audience", "scope", "may"), TABLE)
async def test_audience_and_scope_decide_together(
    face: httpx.AsyncClient, audience: str, scope: str, may: set[str]
) -> None:
    headers = jwt_headers(aud=audience, scope=scope, tenant_id=None)
    for name, (method, path, body) in REQUESTS.items():
        sent = headers | {"Idempotency-Key": new_ulid()}
        answer = await face.request(method, path, json=body, headers=sent)
        assert answer.status_code == (FINE[name] if name in may else 403), (name, answer.text)
        if name not in may:
            expect_flat(answer, 403, "FORBIDDEN")


async def test_both_audiences_in_one_token_open_both(face: httpx.AsyncClient) -> None:
    headers = jwt_headers(aud=["pdca", "pdca.gui"], scope=ALL.upper().split(), tenant_id=None)
    assert (await face.get("/gui/strategies", headers=headers)).status_code == 200
    assert (await post(face, asked(), **headers)).status_code == 202


async def test_tenants_do_not_meet(face: httpx.AsyncClient) -> None:
    def of(tenant: str, **changes: Any) -> dict[str, str]:
        return jwt_headers(tenant_id=tenant, **changes)

    for tenant in ("acme", "other"):
        headers = of(tenant, scope="pdca:admin")
        entry = {"title": f"of {tenant}"}
        assert (await face.put("/gui/strategies/mine", json=entry, headers=headers)).status_code == 200
    listed = (await face.get("/gui/strategies", headers=of("acme", **READER))).json()
    assert [(one["id"], one["title"]) for one in listed["items"]] == [("mine", "of acme")]
    expect_flat(await post(face, asked("strat.a"), **of("acme")), 400, "BAD_REQUEST")
    accepted = (await post(face, asked("mine"), **of("acme"))).json()
    path = f"/pdca/recheck/{accepted['request_id']}"
    assert (await face.get(path, headers=of("acme"))).status_code == 200
    expect_flat(await face.get(path, headers=of("other")), 404, "NOT_FOUND")


async def test_one_key_of_two_clients_is_two_keys(face: httpx.AsyncClient) -> None:
    key = new_ulid()
    one, two = jwt_headers(sub="one", tenant_id=None), jwt_headers(sub="two", tenant_id=None)
    first = await post(face, asked(), key=key, **one)
    second = await post(face, asked(), key=key, **two)
    assert first.json()["request_id"] != second.json()["request_id"]
    shown = await face.get(f"/idempotency/{key}", headers=one)
    assert shown.json()["answer"] == first.json()
    assert (await face.get(f"/idempotency/{key}", headers=jwt_headers(sub="three"))).status_code == 404
    assert (await face.get(f"/idempotency/{key}", headers=issuer.bearer("x.y.z"))).status_code == 401
    assert (await face.get(f"/idempotency/{key}")).status_code == 404


async def test_without_authentication_elsewhere_only_this_face_needs_a_caller(
    face: httpx.AsyncClient,
) -> None:
    assert (await face.get("/runs")).status_code == 200
    assert (await face.get("/runs", headers=issuer.bearer("rubbish"))).status_code == 200
    expect_flat(await face.get("/gui/strategies"), 401, "UNAUTHORIZED")


async def test_api_keys_may_carry_the_scopes_instead(
    face: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    store = await Store.connect(config, name="test")
    key = await new_key(store, "default", scopes=("pdca:read",))
    everything = await new_key(store, "default")
    await store.close()

    async def known() -> bool:
        return (await face.get("/gui/strategies", headers={"X-API-Key": everything})).status_code == 200

    await until(known)
    assert (await face.get("/gui/strategies", headers={"X-API-Key": key})).status_code == 200
    expect_flat(await post(face, asked(), **{"X-API-Key": key}), 403, "FORBIDDEN")
    assert (await post(face, asked(), **{"X-API-Key": everything})).status_code == 202
    for wrong in (with_wrong_secret(key), "rubbish"):
        expect_flat(await face.get("/gui/strategies", headers={"X-API-Key": wrong}), 401, "UNAUTHORIZED")


async def test_runs_of_a_request_are_its_tenants(nats_server: NatsServer, tmp_path: Path) -> None:
    keys = issuer.write_jwks(tmp_path / "jwks.json", "k1")
    config = recheck_config(nats_server, tmp_path, jwt_jwks=str(keys), http_auth_mode="jwt")
    scope = "runs:read runs:write pdca:admin pdca:recheck"
    async with recheck_face(config) as face:
        acme, other = (jwt_headers(tenant_id=tenant, scope=scope) for tenant in ("acme", "other"))
        await face.put("/gui/strategies/mine", json={}, headers=acme)
        accepted = (await post(face, asked("mine", dry_run=False), **acme)).json()
        path = f"/runs/{accepted['dag']['run_id']}"
        assert (await face.get(path, headers=acme)).status_code == 200
        assert (await face.get(path, headers=other)).status_code == 404
        for wrong in (
            {},
            issuer.bearer("rubbish"),
            jwt_headers(aud="elsewhere"),
            {"X-API-Key": "pyoco_12345678.x"},
        ):
            answer = await face.get("/runs", headers=wrong)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (await face.get("/runs", headers=jwt_headers())).status_code == 403
        schemes = (await face.get("/openapi.json")).json()["components"]["securitySchemes"]
        assert list(schemes) == ["jwt"]
        operation = (await face.get("/openapi.json")).json()["paths"]["/pdca/recheck"]["post"]
        assert operation["security"] == [{"jwt": []}]


async def test_a_signed_address_is_its_own_proof_until_it_is_changed_or_old(
    face: httpx.AsyncClient, config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = {"kind": "chart", "name": "équité.svg", "content_type": "image/svg+xml", "content": "<svg/>"}
    reader = jwt_headers(aud="pdca.gui", scope=ALL, tenant_id=None)
    writer = jwt_headers(tenant_id=None)
    async with evaluating(config, a={"metrics": {}, "artifacts": [chart]}):
        accepted = (await post(face, asked(dry_run=False), **writer)).json()

        async def kept() -> Any:
            return (await face.get(f"/gui/requests/{accepted['request_id']}", headers=reader)).json()[
                "artifacts"
            ]

        listed: Any = await until(kept)
        (artifact,) = listed
    assert (artifact["kind"], artifact["bytes_size"]) == ("chart", 6)
    where = f"/gui/artifacts/{artifact['artifact_id']}/url"
    expect_flat(await face.get(where, headers=jwt_headers(aud="pdca.gui", scope=ALL)), 404, "NOT_FOUND")
    signed = (await face.get(where, headers=reader)).json()
    await _expect_own_host(config, where, reader, signed["signed_url"].partition("/gui/")[0])
    assert (signed["expires_in"], signed["kind"], signed["content_type"]) == (300, "chart", "image/svg+xml")
    content = await face.get(signed["signed_url"])
    assert (content.status_code, content.content) == (200, b"<svg/>")
    assert content.headers["content-type"] == "image/svg+xml"
    assert content.headers["content-disposition"].startswith("attachment;")
    assert content.headers["x-content-type-options"] == "nosniff"
    url = signed["signed_url"]
    for changed in (
        url[:-2] + "xx",
        url.replace("default", "acme"),
        url.partition("?")[0],
        url.replace("/gui/artifacts/", "/gui/artifacts/1"),
    ):
        expect_flat(await face.get(changed), 403, "FORBIDDEN")
    later = time.time() + 301
    monkeypatch.setattr(clock, "now", lambda: later)
    assert "expired" in expect_flat(await face.get(url), 403, "FORBIDDEN")["message"]


async def test_addresses_that_were_not_signed_are_not_counted_anywhere(
    face: httpx.AsyncClient, store: Store
) -> None:
    before = len(await _limits_kept(store))
    for number in range(20):
        expect_flat(await face.get(f"/gui/artifacts/{number}/content?token=x"), 403, "FORBIDDEN")
        expect_flat(await face.get(f"/gui/artifacts/odd-{number}/content"), 403, "FORBIDDEN")
    assert len(await _limits_kept(store)) == before


async def _limits_kept(store: Store) -> list[str]:
    subjects = await store.jetstream.api(
        f"STREAM.INFO.KV_{store.config.limits_kv_bucket}", {"subjects_filter": ">"}
    )
    return list(subjects["state"].get("subjects") or {})


async def test_every_request_leaves_one_line_without_secrets(
    face: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyoco_server.audit")
    key = f"secret-key-{new_ulid()}"
    token = issuer.token(tenant_id=None)
    answer = await post(face, asked(reason="hush-hush"), key=key, **issuer.bearer(token))
    await post(face, b"{", key=key, **issuer.bearer("bad.bad.bad"))
    good, bad = (vars(one) for one in caplog.records if one.name == "pyoco_server.audit")
    assert good["x_request_id"] == answer.headers["x-request-id"]
    assert good["request_id"] == answer.json()["request_id"]
    assert (good["client_id"], good["endpoint"], good["http_status"]) == ("client-1", "/pdca/recheck", 202)
    assert good["latency_ms"] > 0
    assert len(good["idempotency_key_hash"]) == 16
    assert (bad["client_id"], bad["http_status"]) == ("anonymous", 401)
    written = "\n".join(str(vars(one)) for one in caplog.records)
    assert not any(secret in written for secret in (key, token, "hush-hush"))


async def test_numbers_are_those_of_the_document(face: httpx.AsyncClient) -> None:
    key, headers = new_ulid(), jwt_headers(tenant_id=None)
    await post(face, asked(), key=key, **headers)
    await post(face, asked("strat.b"), key=key, **headers)
    said = (await face.get("/metrics")).text
    assert 'pdca_api_requests_total{endpoint="/pdca/recheck",outcome="ok"} 1\n' in said
    assert 'pdca_api_requests_total{endpoint="/pdca/recheck",outcome="IDEMPOTENCY_CONFLICT"} 1\n' in said
    assert 'pdca_api_latency_ms_count{endpoint="/pdca/recheck"} 2\n' in said
    assert "pdca_api_idempotency_conflicts_total 1\n" in said


async def _expect_own_host(config: NatsBackendConfig, where: str, reader: dict[str, str], here: str) -> None:
    """With authentication on any Host is served; where the proof is sent is not the caller's choice."""
    closed = replace(config, http_auth_mode="jwt")
    public = replace(closed, public_url="https://pyoco.example/api/")
    for served, start in ((closed, here), (public, "https://pyoco.example/api")):
        async with serving(served) as client:
            answer = await client.get(where, headers=reader | {"Host": "evil.example"})
            assert answer.json()["signed_url"].startswith(f"{start}/gui/artifacts/")
