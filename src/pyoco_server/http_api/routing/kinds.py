"""Kinds of parameters. A kind parses a text and describes its values as JSON Schema.

`read` raises `Unfit` with the rest of a sentence that begins with the name of the parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pyoco_server.http_api.routing.schemas import BOOLEAN, TEXT, Schema

T_co = TypeVar("T_co", covariant=True)


class Unfit(ValueError):
    """Carries the rest of the sentence: `must be …`."""


class Kind(Protocol[T_co]):
    def read(self, text: str) -> T_co: ...

    def schema(self) -> Schema: ...


@dataclass(frozen=True, slots=True)
class TextKind:
    most: int | None = None
    more: Schema = field(default_factory=dict)

    def read(self, text: str) -> str:
        if self.most is not None and len(text) > self.most:
            raise Unfit(f"has at most {self.most} characters.")
        return text

    def schema(self) -> Schema:
        return TEXT | ({} if self.most is None else {"maxLength": self.most}) | self.more


@dataclass(frozen=True, slots=True)
class IntegerKind:
    """ASCII digits only. `digits`: the longest text that is parsed; by default that of `most`."""

    least: int
    most: int
    digits: int = 0
    says: str = "must be a whole number from {least} to {most}."

    def read(self, text: str) -> int:
        digits = self.digits or len(str(self.most))
        is_number = text.isascii() and text.isdigit() and len(text) <= digits
        if not is_number or not self.least <= int(text) <= self.most:
            raise Unfit(self.says.format(least=self.least, most=self.most))
        return int(text)

    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class NumberKind:
    """Any finite number from `least` to `most`."""

    says: str
    least: float | None = None
    most: float | None = None

    def read(self, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        above = self.least is None or number >= self.least
        if not (math.isfinite(number) and above and (self.most is None or number <= self.most)):
            raise Unfit(self.says)
        return number

    def schema(self) -> Schema:
        limits = {"minimum": self.least, "maximum": self.most}
        return {"type": "number"} | {name: value for name, value in limits.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ChoiceKind:
    """One of `values`. `fold`: applied to the text first."""

    values: Sequence[str]
    says: str = ""
    fold: Callable[[str], str] = str

    def read(self, text: str) -> str:
        chosen = self.fold(text)
        if chosen not in self.values:
            raise Unfit(self.says or f"must be one of {', '.join(self.values)}.")
        return chosen

    def schema(self) -> Schema:
        return {"enum": list(self.values)}


STRICT_WORDS: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}
_YES, _NO = ("true", "1", "yes", "on", "t", "y"), ("false", "0", "no", "off", "f", "n")
LENIENT_WORDS: Mapping[str, bool] = dict.fromkeys(_YES, True) | dict.fromkeys(_NO, False)


@dataclass(frozen=True, slots=True)
class FlagKind:
    words: Mapping[str, bool] = field(default_factory=lambda: STRICT_WORDS)
    fold: Callable[[str], str] = str

    def read(self, text: str) -> bool:
        try:
            return self.words[self.fold(text)]
        except KeyError:
            raise Unfit("must be true or false.") from None

    def schema(self) -> Schema:
        return dict(BOOLEAN)


def lowered(text: str) -> str:
    return text.strip().lower()


def uppered(text: str) -> str:
    return text.strip().upper()
