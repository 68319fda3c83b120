"""Text that is safe for a terminal: control characters are escaped. Owns the set of these characters, and the
longest line of output.

Names, messages and output come from callers and from user code. Raw, an ESC could rename a window or clear a
screen, a line break could forge a line of the log, and a direction mark could show text in another order.
"""

from __future__ import annotations

import re

# C0, DEL and C1; marks of direction; the line and paragraph separators; halves of surrogate pairs.
_CONTROL = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_ONE_LINE = re.compile(f"[{_CONTROL}]")
_LINES = re.compile(f"(?![\n\t])[{_CONTROL}]")
# Select graphic rendition: colours and weights, which change nothing but how text looks.
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_COLOUR_OFF = "\x1b[0m"
# For schemas: what `has_control` and `has_control_beside_breaks` do not find.
_IN_PATTERN = r"\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
ONE_LINE_PATTERN = rf"^[^\x00-\x0a{_IN_PATTERN}]*$"
LINES_PATTERN = rf"^[^\x00-\x08{_IN_PATTERN}]*$"
# Of a line of output. A character is a byte at least.
LINE_BYTES_MAX = 8 * 1024
LINE_CHARS_MAX = LINE_BYTES_MAX
CUT_MARK = " … cut"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """For a name, a value or a message: no line break either."""
    return text if text.isprintable() and text.isascii() else _ONE_LINE.sub(_escape, text)


def lines(text: str) -> str:
    """For text of several lines: its line breaks and tabs stay."""
    return _LINES.sub(_escape, text)


def coloured_line(text: str) -> str:
    """One line of output with its colours, which end with the line."""
    if "\x1b" not in text:
        return one_line(text)
    plain = [one_line(part) for part in _COLOUR.split(text)]
    colours = _COLOUR.findall(text)
    shown = "".join(part + colour for part, colour in zip(plain, [*colours, ""], strict=True))
    return shown + _COLOUR_OFF if colours else shown


def as_line(text: str) -> str:
    """The final text of a line that overwrites itself, as a progress bar does; bounded and valid UTF-8."""
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    if text.isascii():
        return text if len(text) <= LINE_CHARS_MAX else text[:LINE_CHARS_MAX] + CUT_MARK
    encoded = text[: LINE_CHARS_MAX + 1].encode("utf-8", "backslashreplace")
    if len(encoded) <= LINE_BYTES_MAX:
        return encoded.decode()
    return encoded[:LINE_BYTES_MAX].decode("utf-8", "ignore") + CUT_MARK


def json_text(written: str) -> str:
    """JSON with the same values that is safe for a terminal. JSON itself escapes C0 only."""
    if written.isascii() and "\x7f" not in written:
        return written
    return _LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def has_control(text: str) -> bool:
    """Whether a text of one line contains characters that must be escaped."""
    return _ONE_LINE.search(text) is not None


def has_control_beside_breaks(text: str) -> bool:
    """The same for a comment, which may have several lines and tabs."""
    return _LINES.search(text) is not None


def _escape(found: re.Match[str]) -> str:
    letter = found[0]
    code = ord(letter)
    return _SHORT.get(letter) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
