"""Bodies of JSON: declared as such, how much of one is read at all, and where it is read.

What a body may bring is bounded elsewhere, after it was read; but reading it costs time, too, a value at a
time. So one that is certain to be refused is refused before it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import TooLarge
from pyoco_server.http_api.responses.error_table import FrameworkRefusal

# Where a few words are all there is to say.
SMALL_BYTES_MAX = 65_536
# What a body may bring besides parameters.
AROUND_PARAMS_BYTES = 65_536
# The longest way to write parameters: a character of one byte as an escape of six; and some white space.
WRITTEN_TIMES = 8
# Above this reading takes long enough that others should be answered meanwhile.
ASIDE_BYTES = 32 * 1024

P = ParamSpec("P")
R = TypeVar("R")


def is_json(content_type: str) -> bool:
    """Also `application/*+json`, with any parameters, and no declaration at all."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("application/json", "") or (kind.startswith("application/") and kind.endswith("+json"))


def check_json(body: bytes, content_type: str) -> None:
    """A form, or text, is what pages of other sites can make a browser send."""
    if body and not is_json(content_type):
        raise FrameworkRefusal(415, "The body must be JSON: send it with Content-Type: application/json.")


async def small_body(request: Request) -> bytes:
    body = await request.body()
    check_json(body, request.headers.get("content-type", ""))
    if len(body) > SMALL_BYTES_MAX:
        raise TooLarge(f"The body has {len(body)} bytes; at most {SMALL_BYTES_MAX} are accepted here.")
    return body


async def params_body(request: Request, config: NatsBackendConfig) -> bytes:
    """Of a request that brings parameters."""
    body = await request.body()
    check_json(body, request.headers.get("content-type", ""))
    params_max = config.params_max_bytes
    if len(body) <= params_max:
        return body
    bytes_max = WRITTEN_TIMES * params_max + AROUND_PARAMS_BYTES
    # Each of these is a byte of its own in every way to write the same value.
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if len(body) > bytes_max or values > params_max + AROUND_PARAMS_BYTES:
        raise TooLarge(
            f"The body has {len(body)} bytes: params have more than {params_max} bytes, of which at most "
            f"{params_max} are accepted (PYOCO_PARAMS_MAX_BYTES). "
            "Store the data elsewhere and pass its address.",
            err_id="ERR-PYOCO-0002",
        )
    return body


async def read_aside(body: bytes, read: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `read` makes of a body; of a large one in a thread."""
    if len(body) <= ASIDE_BYTES:
        return read(*args, **kwargs)
    return await asyncio.to_thread(read, *args, **kwargs)
