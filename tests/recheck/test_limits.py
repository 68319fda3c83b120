"""Limits hold for a client on all gateways together, and say how much is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.limits import RateLimits
from pyoco_server.store.store import Store
from tests import issuer
from tests.conftest import NatsServer
from tests.recheck.faces import asked, expect_flat, jwt_headers, post, recheck_config, recheck_face

ALL = {"filter": {}, "reason": "x"}


async def test_the_eleventh_of_a_burst_is_refused_on_the_other_gateway_too(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    keys = issuer.write_jwks(tmp_path / "jwks.json", "k1")
    config = recheck_config(nats_server, tmp_path, jwt_jwks=str(keys))
    async with recheck_face(config) as one, recheck_face(config) as two:
        mine, theirs = jwt_headers(sub="mine", tenant_id=None), jwt_headers(sub="theirs", tenant_id=None)
        for number in range(10):
            gateway = (one, two)[number % 2]
            answer = await post(gateway, ALL, path="/pdca/recheck_all", **mine)
            assert answer.status_code == 202
            assert answer.headers["x-ratelimit-limit"] == "10"
            # A token comes back every six seconds, in which a loaded machine may have got here.
            assert 9 - number <= int(answer.headers["x-ratelimit-remaining"]) <= 10 - number
        refusals = []
        for gateway in (one, two):
            for _ in range(4):  # whatever came back meanwhile is used up
                answer = await post(gateway, ALL, path="/pdca/recheck_all", **mine)
                if answer.status_code == 429:
                    refusals.append(answer)
                    break
        assert len(refusals) == 2
        for refused in refusals:
            body = expect_flat(refused, 429, "RATE_LIMITED")
            assert 1 <= body["retry_after"] <= 6
            assert refused.headers["retry-after"] == str(body["retry_after"])
            assert refused.headers["x-ratelimit-remaining"] == "0"
            assert refused.headers["ratelimit-policy"] == '"recheck_all";q=10;w=60'
            assert refused.headers["ratelimit"].startswith('"recheck_all";r=0;t=')
        assert (await post(two, ALL, path="/pdca/recheck_all", **theirs)).status_code == 202
        other_tenant = jwt_headers(sub="mine", tenant_id="acme")
        assert (await post(two, ALL, path="/pdca/recheck_all", **other_tenant)).status_code == 202
        reading = jwt_headers(sub="mine", tenant_id=None, aud="pdca.gui", scope="pdca:read")
        assert (await one.get("/gui/strategies", headers=reading)).status_code == 200


async def test_the_limits_are_those_of_the_document(nats_server: NatsServer, tmp_path: Path) -> None:
    async with recheck_face(recheck_config(nats_server, tmp_path)) as face:
        one, many = await post(face, asked()), await post(face, ALL, path="/pdca/recheck_all")
        read = await face.get("/gui/strategies")
        status = await face.get(f"/pdca/recheck/{one.json()['request_id']}")
    limits = [answer.headers["x-ratelimit-limit"] for answer in (one, many, read, status)]
    assert limits == ["120", "10", "600", "600"]
    policies = [answer.headers["ratelimit-policy"] for answer in (one, many, read)]
    assert policies == ['"recheck";q=120;w=60', '"recheck_all";q=10;w=60', '"reads";q=600;w=60']


async def test_a_refused_body_counts_and_a_stranger_does_not(nats_server: NatsServer, tmp_path: Path) -> None:
    keys = issuer.write_jwks(tmp_path / "jwks.json", "k1")
    config = recheck_config(nats_server, tmp_path, jwt_jwks=str(keys), recheck_per_min=1)
    async with recheck_face(config) as face:
        for wrong in (jwt_headers(aud="pdca.gui"), issuer.bearer("rubbish")):
            assert (await post(face, b"{", **wrong)).status_code in (401, 403)
        first = await post(face, b"{", **jwt_headers())
        assert (first.status_code, first.headers["x-ratelimit-remaining"]) == (400, "0")
        # Limits come before syntax.
        expect_flat(await post(face, b"{", **jwt_headers()), 429, "RATE_LIMITED")


async def test_two_who_count_at_once_give_away_no_more_than_there_is(
    store: Store, config: NatsBackendConfig
) -> None:
    many = [RateLimits(store.jetstream, config) for _ in range(4)]
    asking = [one.take("tenant", "client", "x", per_minute=20) for one in many for _ in range(10)]
    taken = await asyncio.gather(*asking)
    allowed = [one for one in taken if one.allowed]
    assert 20 <= len(allowed) <= 22
    assert {one.limit for one in taken} == {20}
    assert (await many[0].take("tenant", "other", "x", per_minute=20)).remaining == 19


async def test_a_bucket_that_was_lost_with_the_broker_is_full_again(store: Store) -> None:
    for _ in range(3):
        await store.limits.take("t", per_minute=5)
    await store.jetstream.api(f"STREAM.PURGE.KV_{store.config.limits_kv_bucket}")
    assert (await store.limits.take("t", per_minute=5)).remaining in (1, 4)
    assert (await RateLimits(store.jetstream, store.config).take("t", per_minute=5)).allowed
