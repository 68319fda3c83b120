"""The problems of a workflow with their positions in its text, and the error that contains them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyoco_server.errors import ErrorDetail, Invalid

PROBLEMS_MAX = 20
NAME_CHARS_MAX = 64
# The line ends of YAML 1.1.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_BLOCK_STYLES = ("|", ">")


class SourcePosition(NamedTuple):
    """Line and column as editors count them, from 1."""

    line: int
    column: int


Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class WorkflowProblem:
    """`type` is a fixed word for programs, `msg` a sentence for people, `path` the keys that lead there."""

    type: str
    msg: str
    place: SourcePosition
    path: Path = ()

    def described(self) -> ErrorDetail:
        return {
            "loc": ["workflow", *self.path],
            "msg": self.msg,
            "type": self.type,
            "line": self.place.line,
            "column": self.place.column,
        }


class WorkflowYamlValidationError(Invalid, ValueError):
    """`reason` is the type of the first problem; `problems` are all that were found, up to a limit."""

    def __init__(self, reason: str, problems: Sequence[WorkflowProblem] = ()) -> None:
        self.reason = reason
        self.problems = tuple(problems)
        super().__init__(_sentence(reason, self.problems), details=[one.described() for one in self.problems])


@dataclass(slots=True)
class Problems:
    """Collects problems up to the limit."""

    found: list[WorkflowProblem] = field(default_factory=list)

    def add(self, kind: str, msg: str, place: SourcePosition, path: Path = ()) -> None:
        if not self.is_full:
            self.found.append(WorkflowProblem(kind, msg, place, path))

    @property
    def is_full(self) -> bool:
        return len(self.found) >= PROBLEMS_MAX

    def fail(
        self, kind: str, msg: str, place: SourcePosition, path: Path = ()
    ) -> WorkflowYamlValidationError:
        """The error to raise if nothing can be checked after this problem."""
        self.add(kind, msg, place, path)
        return self.error()

    def error(self) -> WorkflowYamlValidationError:
        return WorkflowYamlValidationError(self.found[0].type, self.found)


def quoted(name: str) -> str:
    """A name of the author in a sentence: shortened, and on one line."""
    shown = name if len(name) <= NAME_CHARS_MAX else name[: NAME_CHARS_MAX - 1] + "…"
    return "'" + "".join(letter if letter.isprintable() else "?" for letter in shown) + "'"


def _sentence(reason: str, problems: Sequence[WorkflowProblem]) -> str:
    if not problems:
        return f"The workflow is not valid: {reason}."
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    where = f"line {first.place.line}, column {first.place.column}"
    return f"The workflow is not valid: {where}: {first.msg}{more}"


class Lines:
    """Positions of characters in the text, also of those that a YAML scalar was made of."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(end.end() for end in _BREAK.finditer(text))]

    def position(self, index: int) -> SourcePosition:
        line = bisect_right(self._starts, index) - 1
        return SourcePosition(line + 1, index - self._starts[line] + 1)

    def index(self, line: int, column: int) -> int:
        """The index of a line and column, counted from 0 like YAML's marks."""
        if line >= len(self._starts):
            return len(self._text)
        return min(self._starts[line] + column, len(self._text))

    def origins(self, value: str, style: str | None, begin: int, end: int) -> Sequence[int]:
        """For every character of a scalar's value its index in the text.

        Exact for blocks and plain text. Around escapes in quotes it may be off by the length of one.
        """
        at = begin
        if style in _BLOCK_STYLES:
            header_end = _BREAK.search(self._text, begin, end)
            at = header_end.end() if header_end else end
        found: list[int] = []
        for letter in value:
            if not letter.isspace():
                at = self._text.find(letter, at, end)
                if at < 0:  # written as an escape: from here on only the start of the scalar is certain
                    return [*found, *[begin] * (len(value) - len(found))]
            found.append(at)
            at += not letter.isspace()
        return found
