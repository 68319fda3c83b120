"""Positions of sorted lists as integers, because tokens contain nothing else."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_WORD_BYTES = 8


def packed(value: float, run_id: str) -> list[int]:
    """The bits of the value, and the id in pieces of eight bytes."""
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    text = run_id.encode()
    pieces = (text[start : start + _WORD_BYTES] for start in range(0, len(text), _WORD_BYTES))
    return [bits, len(text), *(int.from_bytes(piece) for piece in pieces)]


def unpacked(position: Sequence[int]) -> tuple[float, str]:
    bits, length, *pieces = position
    (value,) = struct.unpack(">d", struct.pack(">q", bits))
    sizes = (min(_WORD_BYTES, length - start) for start in range(0, length, _WORD_BYTES))
    text = b"".join(piece.to_bytes(size) for piece, size in zip(pieces, sizes, strict=True))
    return value, text.decode()
