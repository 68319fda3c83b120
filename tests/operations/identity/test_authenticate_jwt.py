"""From a token to its caller: what proves something, what does not, and keys that come and go."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import jwt
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError, Unavailable
from pyoco_server.operations.identity import jwks
from pyoco_server.operations.identity.authenticate_jwt import JwtCheck
from pyoco_server.operations.identity.jwks import keys_in
from pyoco_server.operations.identity.tokens import InvalidToken
from tests import issuer
from tests.conftest import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return issuer.write_jwks(tmp_path / "jwks.json", "k1")


@pytest.fixture
async def check(file: Path) -> AsyncIterator[JwtCheck]:
    checking = JwtCheck(NatsBackendConfig(jwt_jwks=str(file)))
    yield checking
    await checking.stop()


async def test_a_good_token_is_a_caller(check: JwtCheck) -> None:
    caller = await check.caller(issuer.token(exp=4_000_000_000))
    assert (caller.tenant_id, caller.id) == ("acme", "client-1")
    assert caller.scopes == frozenset({"pdca:recheck", "pdca:recheck_all"})
    assert caller.audiences == frozenset({"pdca"})
    assert caller.good_until == 4_000_000_120.0


async def test_without_a_tenant_it_is_of_the_default_one(check: JwtCheck) -> None:
    assert (await check.caller(issuer.token(tenant_id=None))).tenant_id == "default"


@pytest.mark.parametrize("scope", ["PDCA:Read  pdca:download", ["pdca:READ", "pdca:download"]])
async def test_scopes_are_words_or_a_list_in_any_case(check: JwtCheck, scope: Any) -> None:
    assert (await check.caller(issuer.token(scope=scope))).scopes == frozenset({"pdca:read", "pdca:download"})


async def test_several_audiences_are_those_that_are_known(check: JwtCheck) -> None:
    made = issuer.token(aud=["elsewhere", "pdca", "pdca.gui"])
    assert (await check.caller(made)).audiences == frozenset({"pdca", "pdca.gui"})
    assert (await check.caller(issuer.token(aud="pyoco-server"))).audiences == frozenset({"pyoco-server"})


@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
async def test_clocks_may_differ_by_the_leeway(check: JwtCheck, claim: str) -> None:
    off = -100 if claim == "exp" else 100
    changed: dict[str, Any] = {claim: soon(off)}
    assert await check.caller(issuer.token(**changed))


def forged(header: dict[str, Any], key: bytes = b"") -> str:
    parts = [json.dumps(one).encode() for one in (header, issuer.claims())]
    text = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    code = hmac.digest(key, text, "sha256") if key else b""
    return (text + b"." + urlsafe_b64encode(code).rstrip(b"=")).decode()


def soon(seconds: float) -> int:
    return int(time.time() + seconds)


def signed_as(member: str, **changes: Any) -> str:
    """A token with a good signature and a claim that is written like this."""
    written = json.dumps(issuer.claims(**changes))
    payload = f"{written[:-1]}, {member}}}".encode()
    return jwt.PyJWS().encode(payload, issuer.private_key("k1"), algorithm="RS256", headers={"kid": "k1"})


async def test_a_claim_written_by_hand_can_be_good(check: JwtCheck) -> None:
    """So that the bad ones below are refused for what they say, not for their signature."""
    caller = await check.caller(signed_as(f'"nbf": {soon(-10)}.5'))
    assert (caller.tenant_id, caller.id) == ("acme", "client-1")


BAD: dict[str, Any] = {
    "nothing": lambda: "",
    "no JWT": lambda: "abc",
    "three parts of nothing": lambda: "a.b.c",
    "expired beyond the leeway": lambda: issuer.token(exp=soon(-130)),
    "not yet valid": lambda: issuer.token(nbf=soon(130)),
    "issued in the future": lambda: issuer.token(iat=soon(130)),
    "signed by another key": lambda: issuer.token(signed_by="other"),
    "a key that is not known": lambda: issuer.token(kid="other"),
    "no kid": lambda: jwt.encode(issuer.claims(), issuer.private_key("k1"), algorithm="RS256"),
    "alg none": lambda: forged({"alg": "none", "kid": "k1"}),
    "alg none, with a signature": lambda: forged({"alg": "None", "kid": "k1"}, b"x"),
    "HS256 with the public key": lambda: forged({"alg": "HS256", "kid": "k1"}, issuer.public_pem("k1")),
    "RS384": lambda: jwt.encode(
        issuer.claims(), issuer.private_key("k1"), algorithm="RS384", headers={"kid": "k1"}
    ),
    "something critical": lambda: issuer.token(headers={"crit": ["b64"], "b64": True}),
    "wrong issuer": lambda: issuer.token(iss="somebody"),
    "no issuer": lambda: issuer.token(iss=None),
    "unknown audience": lambda: issuer.token(aud="elsewhere"),
    "no audience": lambda: issuer.token(aud=None),
    "an audience that is none": lambda: issuer.token(aud=[7]),
    "no exp": lambda: issuer.token(exp=None),
    "exp that never comes": lambda: issuer.token(exp=float("inf")),
    "no sub": lambda: issuer.token(sub=None),
    "sub that is no text": lambda: issuer.token(sub=7),
    "empty sub": lambda: issuer.token(sub=""),
    "sub with an escape sequence": lambda: issuer.token(sub="a\x1b[2J"),
    "sub with a line break": lambda: issuer.token(sub="a\nb"),
    "sub with half a character": lambda: issuer.token(sub="\ud800"),
    "no scope": lambda: issuer.token(scope=None),
    "scope that is a number": lambda: issuer.token(scope=7),
    "a tenant that cannot be one": lambda: issuer.token(tenant_id="a.b"),
    "a tenant that is no text": lambda: issuer.token(tenant_id=7),
    "exp as text": lambda: issuer.token(exp=str(soon(600))),
    "exp as a truth value": lambda: issuer.token(exp=True),
    "exp in a list": lambda: issuer.token(exp=[soon(600)]),
    "exp beyond all numbers": lambda: signed_as('"exp": 1e999', exp=None),
    "exp that is no number": lambda: signed_as('"exp": NaN', exp=None),
    "exp null": lambda: signed_as('"exp": null', exp=None),
    "nbf as text": lambda: issuer.token(nbf=str(soon(-10))),
    "nbf null": lambda: signed_as('"nbf": null'),
    "iat as text": lambda: issuer.token(iat=str(soon(-10))),
    "iat null": lambda: signed_as('"iat": null', iat=None),
    "iat beyond all numbers": lambda: signed_as('"iat": -1e999', iat=None),
    "a list of issuers": lambda: signed_as('"iss": ["noctria.auth"]', iss=None),
    "issuer null": lambda: signed_as('"iss": null', iss=None),
    "tenant null": lambda: signed_as('"tenant_id": null', tenant_id=None),
    "tenant in a list": lambda: issuer.token(tenant_id=["acme"]),
    "sub null": lambda: signed_as('"sub": null', sub=None),
    "scope null": lambda: signed_as('"scope": null', scope=None),
    "too long": lambda: issuer.token(more="x" * 9000),
}


@pytest.mark.parametrize("kind", BAD)
async def test_what_is_no_proof_is_refused(check: JwtCheck, kind: str) -> None:
    with pytest.raises(InvalidToken):
        await check.caller(BAD[kind]())


async def test_a_token_of_ours_that_was_changed_is_refused(check: JwtCheck) -> None:
    header, _, code = issuer.token().split(".")
    claims = urlsafe_b64encode(json.dumps(issuer.claims(sub="root")).encode()).rstrip(b"=").decode()
    with pytest.raises(InvalidToken, match="signature"):
        await check.caller(f"{header}.{claims}.{code}")


class _Later(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> _Later:
        return cls.fromtimestamp(time.time(), tz)


async def test_a_remembered_token_ends_when_it_expires(
    check: JwtCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = issuer.token(exp=soon(10))
    assert await check.caller(made)
    later = time.time() + 10 + 121
    monkeypatch.setattr(time, "time", lambda: later)
    monkeypatch.setattr(jwt.api_jwt, "datetime", _Later)
    with pytest.raises(InvalidToken, match="expired"):
        await check.caller(made)


async def test_a_new_key_is_usable_and_an_old_one_ends(
    check: JwtCheck, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "LOOK_AGAIN_PAUSE_SEC", 0.0)
    old = issuer.token()
    assert await check.caller(old)
    issuer.write_jwks(file, "k2")
    assert await check.caller(issuer.token(kid="k2"))
    with pytest.raises(InvalidToken):
        await check.caller(old)


async def test_a_stream_of_a_token_ends_when_its_key_leaves_the_jwks(
    check: JwtCheck, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "LOOK_AGAIN_PAUSE_SEC", 0.0)
    caller = await check.caller(issuer.token())
    issuer.write_jwks(file, "k1", "k2")
    assert await check.caller(issuer.token(kid="k2"))
    assert check.still_good(caller)
    issuer.write_jwks(file, "k2")
    with pytest.raises(InvalidToken):
        await check.caller(issuer.token(kid="k3"))  # has it read again
    assert not check.still_good(caller)


@pytest.mark.slow
async def test_keys_are_read_again_by_themselves(
    check: JwtCheck, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "LOOK_AGAIN_PAUSE_SEC", 0.0)
    monkeypatch.setattr(jwks, "REFRESH_SEC", 0.02)
    check.start()
    await until(lambda: check.jwks.version == 1)
    issuer.write_jwks(file, "k2")
    await until(lambda: check.jwks.version == 2)


@pytest.mark.parametrize("broken", [b"", b'{"keys": [', b"{}", b"[]", b"\xff", b"[" * 100_000])
async def test_what_cannot_be_read_keeps_the_keys(
    check: JwtCheck, file: Path, monkeypatch: pytest.MonkeyPatch, broken: bytes
) -> None:
    monkeypatch.setattr(jwks, "LOOK_AGAIN_PAUSE_SEC", 0.0)
    assert await check.caller(issuer.token())
    await asyncio.to_thread(file.write_bytes, broken)
    with pytest.raises(InvalidToken):
        await check.caller(issuer.token(kid="k2"))
    assert await check.caller(issuer.token(sub="another"))
    await asyncio.to_thread(file.unlink)
    assert await check.caller(issuer.token(sub="a third"))


async def test_strangers_cannot_make_us_read_all_the_time(
    check: JwtCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[Path] = []

    def read(path: Path) -> bytes:
        times.append(path)
        return issuer.jwks("k1")

    monkeypatch.setattr(jwks, "_file", read)
    for number in range(20):
        with pytest.raises(InvalidToken):
            await check.caller(issuer.token(kid=f"n{number}", signed_by="k1"))
    assert len(times) == 1


async def test_without_any_keys_nobody_can_be_judged(tmp_path: Path) -> None:
    check = JwtCheck(NatsBackendConfig(jwt_jwks=str(tmp_path / "missing.json")))
    with pytest.raises(Unavailable):
        await check.caller(issuer.token())


async def test_keys_may_come_from_a_server() -> None:
    served = [issuer.jwks("k1")]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        status = b"200 OK" if served else b"503 Away"
        body = served[0] if served else b""
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        check = JwtCheck(NatsBackendConfig(jwt_jwks=f"http://127.0.0.1:{port}/jwks.json"))
        assert await check.caller(issuer.token())
        served.clear()
        check.jwks._looked_at = float("-inf")
        with pytest.raises(InvalidToken):
            await check.caller(issuer.token(kid="k2"))
        assert await check.caller(issuer.token(sub="another"))


def test_keys_that_are_not_for_us_are_left_out() -> None:
    listed = [
        issuer.jwk("k1"),
        issuer.jwk("short", 1024),
        issuer.jwk("k1") | {"use": "enc", "kid": "crypt"},
        issuer.jwk("k1") | {"alg": "RS512", "kid": "other"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {"kty": "RSA", "kid": "broken", "n": 7, "e": "AQAB"},
        {name: value for name, value in issuer.jwk("k1").items() if name != "kid"},
        7,
    ]
    assert list(keys_in(json.dumps({"keys": listed}).encode())) == ["k1"]


def test_tokens_need_keys_to_be_checked_with() -> None:
    with pytest.raises(ConfigError, match="PYOCO_JWT_JWKS"):
        NatsBackendConfig(http_auth_mode="jwt")
