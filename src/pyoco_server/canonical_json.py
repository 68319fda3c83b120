"""Canonical JSON, profile `pyoco-cj1`: one sequence of bytes for all the ways to write the same request.

Keys and strings NFC, keys sorted by code point, no white space, integral floats as integers. Owns strict
parsing, the canonical form and its digest. Each face maps a refusal to its own error.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections import Counter
from collections.abc import Collection
from typing import TypeAlias

PROFILE = "pyoco-cj1"
DEPTH_MAX = 64
COMBINING_IN_A_ROW_MAX = 30
INTEGER_DIGITS_MAX = 1000  # well below the limit of the interpreter
INTEGRAL_FLOAT_BELOW = 2**53  # from here on a float is not exactly one integer
_BYTE_ORDER_MARK = "\ufeff"
NOT_DIGESTED = ("trace_id", "idempotency_key")

# A place in the value: None at the top, else (place of the parent, key or index). A linked pair is cheap; it
# becomes text only in a refusal.
Place: TypeAlias = "tuple[Place, str | int] | None"


class CanonicalJsonError(ValueError):
    """The bytes or the value have no canonical form; the message says where and why."""


def parse(raw: bytes) -> object:
    """The value as it was written, if it is strict JSON that has a canonical form."""
    value = _loaded(raw)
    _canonical(value, None, 0)
    return value


def check_members(raw: bytes) -> None:
    """Refuse an object with a duplicate member, and anything else that is not JSON. Cheaper than `parse`."""
    _loaded(raw)


def canonical_bytes(value: object) -> bytes:
    """The canonical encoding of this value."""
    return _written(_canonical(value, None, 0))


def digest(raw_or_value: object, exclude: Collection[str] = NOT_DIGESTED) -> str:
    """`sha256:…` of the canonical bytes without the excluded members at top level; bytes are parsed first."""
    if isinstance(raw_or_value, bytes | bytearray | memoryview):
        raw_or_value = _loaded(bytes(raw_or_value))
    canonical = _canonical(raw_or_value, None, 0)
    if isinstance(canonical, dict):
        canonical = {key: member for key, member in canonical.items() if key not in exclude}
    return f"sha256:{hashlib.sha256(_written(canonical)).hexdigest()}"


def _loaded(raw: bytes) -> object:
    try:
        text = raw.decode("utf-8")
        if text.startswith(_BYTE_ORDER_MARK):
            raise json.JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
        return _decoder.decode(text)
    except UnicodeDecodeError as bad:
        raise CanonicalJsonError(f"not UTF-8 at byte {bad.start}") from None
    except json.JSONDecodeError as bad:
        raise CanonicalJsonError(f"{bad.msg} at line {bad.lineno}, column {bad.colno}") from None
    except RecursionError:
        raise CanonicalJsonError(f"nested deeper than {DEPTH_MAX}") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise CanonicalJsonError(f"member {_quoted(twice)} occurs twice in one object")
    return members


def _no_constant(name: str) -> object:
    raise CanonicalJsonError(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > INTEGER_DIGITS_MAX:
        raise CanonicalJsonError(f"an integer has {len(digits)} digits, more than {INTEGER_DIGITS_MAX}")
    return int(digits)


def _canonical(value: object, place: Place, depth: int) -> object:
    """The same value with every string and number in its canonical form and every object in order."""
    match value:
        case None | bool():
            return value
        case str():
            return _string(value, place)
        case int():
            return _whole(value, place)
        case float():
            return _real(value, place)
        case dict():
            return _members(value, place, _deeper(depth, place))
        case list() | tuple():
            below = _deeper(depth, place)
            return [_canonical(item, (place, index), below) for index, item in enumerate(value)]
    raise CanonicalJsonError(f"{_path(place)} is a {type(value).__name__}, which JSON cannot say")


def _string(value: str, place: Place) -> str:
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise CanonicalJsonError(f"{_path(place)} has half of a surrogate pair") from None
    try:
        return _nfc(value)
    except ValueError as refused:
        raise CanonicalJsonError(f"{_path(place)} {refused}") from None


def _nfc(text: str) -> str:
    """Unicode's normalization form C in linear time. Raises ValueError for too many combining characters.

    The standard library sorts a row of combining characters by insertion: a megabyte of them takes hours.
    Unicode's stream-safe format has at most 30 in a row, and no language uses more.
    """
    if text.isascii():
        return text
    # A row that is too long covers at least one of these places.
    for place in range(COMBINING_IN_A_ROW_MAX, len(text), COMBINING_IN_A_ROW_MAX):
        if unicodedata.combining(text[place]) and _row_at(text, place) > COMBINING_IN_A_ROW_MAX:
            raise ValueError(f"has more than {COMBINING_IN_A_ROW_MAX} combining characters in a row")
    return unicodedata.normalize("NFC", text)


def _row_at(text: str, place: int) -> int:
    """The length of the row at this place, counted only up to the limit."""
    first = last = place
    while first > 0 and place - first <= COMBINING_IN_A_ROW_MAX and unicodedata.combining(text[first - 1]):
        first -= 1
    while (
        last + 1 < len(text)
        and last - first <= COMBINING_IN_A_ROW_MAX
        and unicodedata.combining(text[last + 1])
    ):
        last += 1
    return last - first + 1


def _whole(value: int, place: Place) -> int:
    # 3.33 bits per digit: cheaper than writing the digits, and never refuses what _integer accepts.
    if value.bit_length() > INTEGER_DIGITS_MAX * 3.33:
        raise CanonicalJsonError(f"{_path(place)} has more than {INTEGER_DIGITS_MAX} digits")
    return value


def _real(value: float, place: Place) -> int | float:
    if not math.isfinite(value):
        raise CanonicalJsonError(f"{_path(place)} is not a finite number")
    return int(value) if value.is_integer() and abs(value) < INTEGRAL_FLOAT_BELOW else value


def _members(value: dict[object, object], place: Place, depth: int) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, member in value.items():
        if not isinstance(key, str):
            raise CanonicalJsonError(f"{_path(place)} has a key that is a {type(key).__name__}, not a string")
        name = _string(key, (place, key))
        if name in members:
            raise CanonicalJsonError(f"{_path((place, name))} occurs twice after normalisation")
        members[name] = _canonical(member, (place, key), depth)
    return dict(sorted(members.items()))


def _deeper(depth: int, place: Place) -> int:
    if depth >= DEPTH_MAX:
        raise CanonicalJsonError(f"{_path(place)} is nested deeper than {DEPTH_MAX}")
    return depth + 1


def _written(canonical: object) -> bytes:
    return json.dumps(canonical, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _path(place: Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{_quoted(step)}")
    return "$" + "".join(reversed(steps))


def _quoted(key: str) -> str:
    """Short, and safe to print."""
    return json.dumps(key[:40])


# Made once: `json.loads` with hooks makes a decoder for every call.
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer)
