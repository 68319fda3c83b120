"""Plain YAML scalars as JSON values. Scalars that YAML 1.1 reads in an unexpected way are refused."""

from __future__ import annotations

import math
import re
from typing import Any

from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

JsonScalar = str | int | float | bool | None

INT_DIGITS_MAX = 20
INT_MIN, INT_MAX = -(2**63), 2**64 - 1  # integers that all JSON parsers accept

_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset({"yes", "true", "on"})
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_BASED = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|b[01_]+)")
_resolver: Any = Resolver()  # its methods have no types


class OddScalar(Exception):
    """The message says what YAML would read, and what to write instead."""


def plain_value(text: str) -> JsonScalar:
    """Raises OddScalar for a value that is not JSON, or that YAML reads as another type than expected."""
    match str(_resolver.resolve(ScalarNode, text, (True, False))).removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() in _TRUE
        case "int":
            return _integer(text)
        case "float":
            return _number(text)
        case "timestamp":
            raise OddScalar("A date is not a JSON value; put it in quotes.")
        case "merge":
            raise OddScalar("Merge keys (<<) are not accepted; write the entries out.")
        case "value":
            raise OddScalar("A lone = has a meaning of its own in YAML; put it in quotes.")
        case _:
            return text


def _integer(text: str) -> int:
    bare = text.replace("_", "")
    if len(bare) > INT_DIGITS_MAX + 1 and not _BASED.fullmatch(text):
        raise OddScalar("This whole number has too many digits; put it in quotes.")
    if _DECIMAL.fullmatch(text):
        return _in_range(int(bare))
    if _BASED.fullmatch(text) and len(bare) < 80:
        return _in_range(int(bare, 0))
    raise OddScalar("YAML reads this as an octal or base 60 number; put it in quotes or write it in decimal.")


def _in_range(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise OddScalar("This whole number does not fit into 64 bits; put it in quotes.")
    return number


def _number(text: str) -> float:
    if ":" in text:
        raise OddScalar("YAML reads this as a base 60 number; put it in quotes.")
    bare = text.replace("_", "").lower()
    number = math.nan if bare.lstrip("+-") in (".inf", ".nan") else float(bare)
    if not math.isfinite(number):
        raise OddScalar("This number is not finite, which JSON cannot say; put it in quotes.")
    return number
