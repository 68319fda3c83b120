"""JSON bodies: content type, size, and parsing in a thread.

Limits of the content are checked after parsing. Parsing itself costs time for each value, so a body that is
certain to be refused is refused before it is parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import TooLarge
from pyoco_server.http_api.responses.error_table import FrameworkRefusal

# For bodies of a few members.
SMALL_BYTES_MAX = 65_536
# Room for members besides the parameters.
AROUND_PARAMS_BYTES = 65_536
# The longest encoding of parameters: an escape of six bytes for a character of one byte; and white space.
WRITTEN_TIMES = 8
# Larger bodies are parsed in a thread, so that other requests are served meanwhile.
ASIDE_BYTES = 32 * 1024
# Longer numbers in Content-Length are refused without parsing.
LENGTH_DIGITS_MAX = 18

P = ParamSpec("P")
R = TypeVar("R")


def is_json(content_type: str) -> bool:
    """Also `application/*+json`, with any parameters, and a missing header."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("application/json", "") or (kind.startswith("application/") and kind.endswith("+json"))


def check_json(body: bytes, content_type: str) -> None:
    """Pages of other sites can make a browser send a form or text, but not JSON."""
    if body and not is_json(content_type):
        raise FrameworkRefusal(415, "The body must be JSON: send it with Content-Type: application/json.")


async def small_body(request: Request) -> bytes:
    body = await request.body()
    check_json(body, request.headers.get("content-type", ""))
    if len(body) > SMALL_BYTES_MAX:
        raise TooLarge(f"The body has {len(body)} bytes; at most {SMALL_BYTES_MAX} are accepted here.")
    return body


async def params_body(request: Request, config: NatsBackendConfig) -> bytes:
    """The body of a request with parameters."""
    body = await request.body()
    check_json(body, request.headers.get("content-type", ""))
    check_around_params(body, config)
    return body


def check_around_params(body: bytes, config: NatsBackendConfig) -> None:
    """TooLarge for a body whose parameters are certain to be refused."""
    params_max = config.params_max_bytes
    if len(body) <= params_max:
        return
    bytes_max = WRITTEN_TIMES * params_max + AROUND_PARAMS_BYTES
    # Each of these takes one byte in every encoding of the same value.
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if len(body) > bytes_max or values > params_max + AROUND_PARAMS_BYTES:
        raise TooLarge(
            f"The body has {len(body)} bytes: params have more than {params_max} bytes, of which at most "
            f"{params_max} are accepted (PYOCO_PARAMS_MAX_BYTES). "
            "Store the data elsewhere and pass its address.",
            err_id="ERR-PYOCO-0002",
        )


async def read_aside(body: bytes, read: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Calls `read`; in a thread if the body is large."""
    if len(body) <= ASIDE_BYTES:
        return read(*args, **kwargs)
    return await asyncio.to_thread(read, *args, **kwargs)
