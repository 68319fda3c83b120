"""The text of a graph as tokens with their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

TOKENS_MAX = 50_000

PUNCTUATION = {
    "(": "LPAREN",
    ")": "RPAREN",
    "{": "LBRACE",
    "}": "RBRACE",
    ":": "COLON",
    ";": "SEMI",
    ",": "COMMA",
    "=": "EQUAL",
}
NAMES = {kind: f"'{letter}'" for letter, kind in PUNCTUATION.items()} | {
    "SHIFT": "'>>'",
    "IDENT": "a name",
    "NUMBER": "a number",
    "STRING": "a text in quotes",
    "TEMPLATE": "{{…}}",
    "EOF": "the end of the graph",
}
_DIGITS = frozenset("0123456789")


class GraphError(Exception):
    """The graph cannot be parsed from this position on."""

    def __init__(self, msg: str, at: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.at = at


class Token(NamedTuple):
    kind: str
    value: str
    at: int
    origins: Sequence[int] = ()  # positions of the characters of a text in quotes


def tokens_of(text: str, origins: Sequence[int]) -> list[Token]:
    """`origins`: the position of every character in the file. Raises GraphError."""
    return _Lexer(text, origins).tokens()


class _Lexer:
    def __init__(self, text: str, origins: Sequence[int]) -> None:
        self._text = text
        self._origins = origins
        self._pos = 0

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        while (token := self._next()) is not None:
            found.append(token)
            if len(found) > TOKENS_MAX:
                raise GraphError(f"The graph has more than {TOKENS_MAX} words and signs.", token.at)
        end = self._origins[-1] + 1 if self._origins else 0
        return [*found, Token("EOF", "", end)]

    def _next(self) -> Token | None:
        self._skip_space()
        if self._pos >= len(self._text):
            return None
        letter = self._text[self._pos]
        if self._text.startswith(">>", self._pos):
            return self._take("SHIFT", 2)
        if self._text.startswith("{{", self._pos):
            return self._template()
        if letter in "'\"":
            return self._string(letter)
        if letter in _DIGITS:
            return self._take("NUMBER", self._length(lambda one: one in _DIGITS))
        if letter.isalpha() or letter == "_":
            return self._take("IDENT", self._length(lambda one: one.isalnum() or one == "_"))
        if letter in PUNCTUATION:
            return self._take(PUNCTUATION[letter], 1)
        if letter == ".":
            raise GraphError("A path stands in brackets or quotes: {{like.this}}.", self._here())
        if letter == ">":
            raise GraphError("A single '>' means nothing here; tasks are joined with '>>'.", self._here())
        raise GraphError("This sign has no place in a graph; names have letters, digits and _.", self._here())

    def _skip_space(self) -> None:
        text, size = self._text, len(self._text)
        while self._pos < size and text[self._pos] in " \t\r\n#":
            if text[self._pos] == "#":
                line_end = text.find("\n", self._pos)
                self._pos = size if line_end < 0 else line_end
            else:
                self._pos += 1

    def _length(self, belongs: Callable[[str], bool]) -> int:
        end = self._pos
        while end < len(self._text) and belongs(self._text[end]):
            end += 1
        return end - self._pos

    def _take(self, kind: str, length: int) -> Token:
        token = Token(kind, self._text[self._pos : self._pos + length], self._here())
        self._pos += length
        return token

    def _template(self) -> Token:
        at, end = self._here(), self._text.find("}}", self._pos + 2)
        if end < 0:
            raise GraphError("This '{{' has no '}}'.", at)
        body = self._text[self._pos + 2 : end].strip()
        self._pos = end + 2
        return Token("TEMPLATE", "{{" + body + "}}", at)

    def _string(self, quote: str) -> Token:
        at = self._here()
        letters: list[str] = []
        places: list[int] = []
        self._pos += 1
        while self._pos < len(self._text):
            letter = self._text[self._pos]
            if letter == quote:
                self._pos += 1
                return Token("STRING", "".join(letters), at, places)
            if letter == "\\":
                self._pos += 1
                if self._pos >= len(self._text):
                    break
            letters.append(self._text[self._pos])
            places.append(self._here())
            self._pos += 1
        raise GraphError("This quote is never closed.", at)

    def _here(self) -> int:
        return self._origins[self._pos]
