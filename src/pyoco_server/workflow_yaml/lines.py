"""Where a character of the text stands, and which characters of the text a YAML scalar was made of."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from pyoco_server.workflow_yaml.problems import SourcePosition

# What YAML 1.1 takes for the end of a line.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_BLOCK_STYLES = ("|", ">")


class Lines:
    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(end.end() for end in _BREAK.finditer(text))]

    def place(self, index: int) -> SourcePosition:
        line = bisect_right(self._starts, index) - 1
        return SourcePosition(line + 1, index - self._starts[line] + 1)

    def index(self, line: int, column: int) -> int:
        """Of line and column counted from 0, as YAML's marks are."""
        if line >= len(self._starts):
            return len(self._text)
        return min(self._starts[line] + column, len(self._text))

    def origins(self, value: str, style: str | None, begin: int, end: int) -> Sequence[int]:
        """For every character of a scalar's value the index in the text that it came from.

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
                if at < 0:  # written as an escape: from here on only the beginning is certain
                    return [*found, *[begin] * (len(value) - len(found))]
            found.append(at)
            at += not letter.isspace()
        return found
