"""Text in Unicode's normalization form C, in linear time.

The standard library sorts a row of combining characters by insertion: a megabyte of them takes hours.
Unicode's stream-safe format has at most 30 in a row, and no language uses more.
"""

from __future__ import annotations

import unicodedata

COMBINING_IN_A_ROW_MAX = 30


class TooManyCombining(ValueError):
    """More combining characters in a row than the limit."""

    def __init__(self) -> None:
        super().__init__(f"has more than {COMBINING_IN_A_ROW_MAX} combining characters in a row")


def nfc(text: str) -> str:
    """Raises TooManyCombining."""
    if text.isascii():
        return text
    # A row that is too long covers at least one of these places.
    for place in range(COMBINING_IN_A_ROW_MAX, len(text), COMBINING_IN_A_ROW_MAX):
        if unicodedata.combining(text[place]) and _row_at(text, place) > COMBINING_IN_A_ROW_MAX:
            raise TooManyCombining
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
