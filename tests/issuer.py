"""An issuer of tokens for tests: its keys, their JWKS, and valid and invalid tokens."""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm


def private_key(kid: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    return _made(kid, bits)


@cache
def _made(kid: str, bits: int) -> rsa.RSAPrivateKey:
    """One key for each name, cached for the whole test process because generating one is slow."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def public_pem(kid: str) -> bytes:
    return private_key(kid).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(kid: str, bits: int = 2048) -> dict[str, Any]:
    described: dict[str, Any] = RSAAlgorithm.to_jwk(private_key(kid, bits).public_key(), as_dict=True)
    return described | {"kid": kid, "alg": "RS256", "use": "sig"}


def jwks(*kids: str) -> bytes:
    return json.dumps({"keys": [jwk(kid) for kid in kids]}).encode()


def write_jwks(path: Path, *kids: str) -> Path:
    """Replaces the file atomically, as a rotation of keys should."""
    beside = path.with_suffix(".new")
    beside.write_bytes(jwks(*kids))
    return beside.replace(path)


def claims(**changes: Any) -> dict[str, Any]:
    """A change to None leaves the claim out."""
    now = time.time()
    usual: dict[str, Any] = {
        "iss": "noctria.auth",
        "sub": "client-1",
        "aud": "pdca",
        "iat": int(now),
        "exp": int(now) + 600,
        "scope": "pdca:recheck pdca:recheck_all",
        "tenant_id": "acme",
    }
    return {name: value for name, value in (usual | changes).items() if value is not None}


def token(*, kid: str = "k1", signed_by: str | None = None, headers: dict[str, Any] | None = None,
          **changes: Any) -> str:  # fmt: skip
    key = private_key(signed_by or kid)
    return jwt.encode(claims(**changes), key, algorithm="RS256", headers={"kid": kid} | (headers or {}))


def bearer(made: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {made}"}
