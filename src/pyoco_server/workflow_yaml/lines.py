"""Positions of characters in the text, and the characters of the text that a YAML scalar was made of."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from pyoco_server.workflow_yaml.problems import SourcePosition

# The line ends of YAML 1.1.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_BLOCK_STYLES = ("|", ">")


class Lines:
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
