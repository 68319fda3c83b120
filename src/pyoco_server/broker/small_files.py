"""The small files of a data folder: written atomically, and checked when they are read."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path


def write_atomically(path: Path, text: str, *, private: bool = False) -> None:
    """Readers see the old file or the new one, never half of it. `private`: no other user can read it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)  # a file that a crash left would keep its mode
    with os.fdopen(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "wb"
    ) as file:
        file.write(text.encode())
    draft.replace(path)


def read_json(path: Path) -> Mapping[str, object]:
    """The JSON object in that file; empty if there is none."""
    try:
        content: object = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def now() -> str:
    """The instant as these files write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
