"""The keys of JWTs: a JWKS from a file or a URL, read again every few seconds.

When a token names an unknown key, the JWKS is read at once (with a minimum pause between reads), so a new key
is usable before the next interval. If the JWKS cannot be read or parsed, the keys stay as they are.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import RSAAlgorithm
from jwt.exceptions import InvalidKeyError

from pyoco_server.errors import Unavailable
from pyoco_server.supervision import Loop

log = logging.getLogger(__name__)

ALGORITHM = "RS256"
REFRESH_SEC = 10.0
LOOK_AGAIN_PAUSE_SEC = 2.0
FETCH_TIMEOUT_SEC = 3.0
BYTES_MAX = 1_048_576
KEYS_MAX = 100
KEY_BITS_MIN = 2048  # RFC 7518, section 3.3

Keys = dict[str, RSAPublicKey]


class Jwks:
    """Lives as long as its gateway."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._keys: Keys = {}
        self._read: bytes | None = None
        self._looked_at = float("-inf")
        self._one_at_a_time = asyncio.Lock()
        self._loop = Loop("JWKS", self._look_unless_just_done, interval_sec=REFRESH_SEC)
        self.is_loaded = False
        # Incremented when the keys change: cached tokens must then be checked again.
        self.version = 0

    def start(self) -> None:
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop(FETCH_TIMEOUT_SEC)

    async def key(self, kid: str) -> RSAPublicKey | None:
        """Unavailable until the JWKS was read for the first time."""
        if kid not in self._keys:
            await self._look_unless_just_done()
        if not self.is_loaded:
            raise Unavailable("Tokens cannot be checked now: the keys (PYOCO_JWT_JWKS) cannot be read.")
        return self._keys.get(kid)

    def has(self, kid: str) -> bool:
        return kid in self._keys

    async def _look_unless_just_done(self) -> None:
        async with self._one_at_a_time:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at < LOOK_AGAIN_PAUSE_SEC:
                return
            self._looked_at = now
            try:
                self._take(await self._fetch())
            except (OSError, ValueError, msgspec.MsgspecError, RecursionError, httpx.HTTPError) as error:
                fields = {"source": self._source, "error": str(error) or type(error).__name__}
                log.warning("the JWKS cannot be read; its keys stay as they are", extra=fields)

    async def _fetch(self) -> bytes:
        if not self._source.startswith(("http://", "https://")):
            return await asyncio.to_thread(_file, Path(self._source))
        async with (
            httpx.AsyncClient(timeout=FETCH_TIMEOUT_SEC) as client,
            client.stream("GET", self._source, headers={"Accept": "application/json"}) as answer,
        ):
            answer.raise_for_status()
            read = b""
            async for piece in answer.aiter_bytes():
                read += piece
                if len(read) > BYTES_MAX:
                    raise ValueError(f"larger than {BYTES_MAX} bytes")
            return read

    def _take(self, read: bytes) -> None:
        if read == self._read:
            return
        keys = keys_in(read)
        self._read, self._keys, self.is_loaded = read, keys, True
        self.version += 1
        log.info("JWKS read", extra={"source": self._source, "kids": sorted(keys)})


def keys_in(read: bytes) -> Keys:
    """The usable keys by `kid`. ValueError if this is not a JWKS."""
    written = msgspec.json.decode(read)
    listed = written.get("keys") if isinstance(written, dict) else None
    if not isinstance(listed, list):
        raise ValueError("not a JWKS: it has no list of keys")
    usable = (one for one in listed[:KEYS_MAX] if isinstance(one, dict) and _is_for_us(one))
    found = ((str(one["kid"]), _public_key(one)) for one in usable)
    return {kid: key for kid, key in found if key is not None}


def _is_for_us(jwk: dict[str, object]) -> bool:
    return (
        jwk.get("kty") == "RSA"
        and isinstance(jwk.get("kid"), str)
        and jwk.get("use", "sig") == "sig"
        and jwk.get("alg", ALGORITHM) == ALGORITHM
    )


def _public_key(jwk: dict[str, object]) -> RSAPublicKey | None:
    """From the public members only, even if the file contains a private key."""
    try:
        key = RSAAlgorithm.from_jwk({name: jwk[name] for name in ("kty", "n", "e")})
    except (InvalidKeyError, KeyError, ValueError, TypeError, AttributeError):
        key = None
    if isinstance(key, RSAPublicKey) and key.key_size >= KEY_BITS_MIN:
        return key
    log.warning("a key of the JWKS cannot be used", extra={"kid": jwk["kid"]})
    return None


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        read = file.read(BYTES_MAX + 1)
    if len(read) > BYTES_MAX:
        raise ValueError(f"larger than {BYTES_MAX} bytes")
    return read
