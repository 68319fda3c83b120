"""What earlier claims of a run have completed. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """By record name. A failure counts where it is final: of a wait, or of a task that fails alone."""

    results: Mapping[str, Any] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
