"""The items of a batch: a JSON array, or one item in each line. Read as a whole, parsed in portions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec
from starlette.requests import Request

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ErrorDetail, Invalid, PyocoError, TooLarge, problem_at
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.requests.bodies import LENGTH_DIGITS_MAX, check_around_params, is_json
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

# An array with more commas has its items counted before it is decoded: 16 million numbers take gigabytes.
COMMAS_MAX = 20 * ITEMS_MAX

_LINE = re.compile(rb"\S[^\n]*")
# A text is one sign, whatever is in it.
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{},]', re.DOTALL)
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


async def items_of(request: Request) -> list[bytes]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await _read(request)
    if kind in _LINES:
        items = await asyncio.to_thread(_lines, body)
    elif is_json(kind):
        items = await asyncio.to_thread(_array, body)
    else:
        raise FrameworkRefusal(415, f"Send a JSON array as application/json, or lines of JSON as {NDJSON}.")
    if not items:
        raise Invalid.at(["body"], "The batch has no items.")
    if len(items) > ITEMS_MAX:
        raise _too_many()
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


def _too_many() -> TooLarge:
    message = f"The batch has more than {ITEMS_MAX} items. Send several batches."
    return TooLarge(message, err_id="ERR-PYOCO-0002")


def _lines(body: bytes) -> list[bytes]:
    """Those that are not blank; no more than it takes to see that there are too many."""
    return [found[0] for found in islice(_LINE.finditer(body), ITEMS_MAX + 1)]


def _array(body: bytes) -> list[bytes]:
    if body.count(b",") > COMMAS_MAX:
        _count_items(body)
    try:
        return [bytes(item) for item in _decode_array(body)]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid("The body is not a JSON array.", details=[problem_at(["body"], str(error))]) from error


def _count_items(body: bytes) -> None:
    """Raises TooLarge for an array with too many items. What is no array is refused by the decoder."""
    depth, commas = 0, 0
    for found in _STRUCTURE.finditer(body):
        sign = body[found.start()]
        if sign == 0x2C:  # a comma
            commas += depth == 1
            if commas >= ITEMS_MAX:
                raise _too_many()
        elif sign in b"[{":
            depth += 1
        elif sign in b"]}":
            depth -= 1


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
            check_around_params(item, self._config)
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
