"""The items of a batch: a JSON array, or one item in each line. Read as a whole, parsed in portions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from starlette.requests import Request

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ErrorDetail, Invalid, PyocoError, TooLarge, problem_at
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.requests.bodies import LENGTH_DIGITS_MAX, is_json
from pyoco_server.http_api.responses.error_table import FrameworkRefusal
from pyoco_server.operations.batches.submit import PORTION, BatchItem
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs import submit

NDJSON = "application/x-ndjson"
_LINES = frozenset({NDJSON, "application/jsonl", "application/ndjson"})
ITEMS_MAX = 10_000
BODY_BYTES_MAX = 32 * 2**20
# A portion ends early when its items are large, so that it is parsed and submitted in little memory.
PORTION_BYTES_MAX = 4 * 2**20
PROBLEMS_MAX = 100

_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


async def items_of(request: Request) -> list[bytes]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await _read(request)
    if kind in _LINES:
        items = [line for line in body.split(b"\n") if line.strip()]
    elif is_json(kind):
        items = await asyncio.to_thread(_array, body)
    else:
        raise FrameworkRefusal(415, f"Send a JSON array as application/json, or lines of JSON as {NDJSON}.")
    if not items:
        raise Invalid.at(["body"], "The batch has no items.")
    if len(items) > ITEMS_MAX:
        raise TooLarge(
            f"The batch has {len(items)} items; at most {ITEMS_MAX} are accepted. Send several batches.",
            err_id="ERR-PYOCO-0002",
        )
    return items


async def _read(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdigit() and (len(length) > LENGTH_DIGITS_MAX or int(length) > BODY_BYTES_MAX):
        raise _too_large()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise _too_large()
    return bytes(body)


def _too_large() -> TooLarge:
    message = f"The body has more than {BODY_BYTES_MAX} bytes. Send several batches."
    return TooLarge(message, err_id="ERR-PYOCO-0002")


def _array(body: bytes) -> list[bytes]:
    try:
        return [bytes(item) for item in _decode_array(body)]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid("The body is not a JSON array.", details=[problem_at(["body"], str(error))]) from error


class ItemReader:
    """Parses and validates items as submissions of this caller."""

    def __init__(self, headers: Mapping[str, str], caller: Caller, config: NatsBackendConfig) -> None:
        self._headers = headers
        self._caller = caller
        self._config = config

    def portions(self, items: Sequence[bytes]) -> Iterator[list[BatchItem]]:
        portion: list[BatchItem] = []
        size = 0
        for index, item in enumerate(items):
            portion.append(self._read(index, item))
            size += len(item)
            if len(portion) == PORTION or size > PORTION_BYTES_MAX:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion

    async def check_all(self, items: Sequence[bytes]) -> None:
        """Raises Invalid, with what is wrong in which items."""
        problems: list[tuple[int, PyocoError]] = []
        for portion in self.portions(items):
            problems += [(one.position, one.wanted) for one in portion if isinstance(one.wanted, PyocoError)]
            await asyncio.sleep(0)
        if problems:
            found = [_problem(index, error) for index, error in problems[:PROBLEMS_MAX]]
            message = f"{len(problems)} of {len(items)} items are invalid; nothing was submitted."
            raise Invalid(message, details=found)

    def _read(self, index: int, item: bytes) -> BatchItem:
        try:
            return BatchItem(
                index, submit.validate(wire.submission(item, self._headers, self._caller), self._config)
            )
        except PyocoError as error:
            return BatchItem(index, error)


def _problem(index: int, error: PyocoError) -> ErrorDetail:
    details = error.details if isinstance(error, Invalid) and isinstance(error.details, list) else []
    first = details[0] if details else {}
    place = [step for step in first.get("loc", ()) if step != "body"]
    return problem_at(["body", index, *place], first.get("msg", error.public_message))
