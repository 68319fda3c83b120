"""What clients were told during a scenario: the audit holds it against what the broker has afterwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Wanted(NamedTuple):
    """A request with a key, as it is sent until it is answered."""

    key: str
    path: str
    body: dict[str, Any]
    key_header: str = "Idempotency-Key"
    method: str = "POST"


@dataclass
class Created:
    """A request that makes a run. `answers`: every body that was sent for this key with a 2xx."""

    wanted: Wanted
    run_id: str
    answers: list[bytes]
    flow: str
    params: dict[str, Any]


class Reported(NamedTuple):
    """A progress report to a node that was answered with a 2xx."""

    run_id: str
    task: str
    message: str


@dataclass
class Evidence:
    created: dict[str, Created] = field(default_factory=dict)
    reported: list[Reported] = field(default_factory=list)
    succeeded: set[tuple[str, str]] = field(default_factory=set)  # run and node, told by a client
    cancelled: set[str] = field(default_factory=set)
    approved: dict[str, Any] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    # Requests that got an answer that they must not get, and requests that got none after healing.
    refused: list[tuple[str, str]] = field(default_factory=list)
    unanswered: list[tuple[str, str]] = field(default_factory=list)
    # How often each answer was given; 0 stands for none.
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def run_ids(self) -> set[str]:
        return {one.run_id for one in self.created.values()}
