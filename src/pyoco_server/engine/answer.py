"""What a wait came to. A value."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """The task's result; or, with an error, why it failed: it was rejected, or its time was up."""

    output: Any = None
    error: str | None = None
