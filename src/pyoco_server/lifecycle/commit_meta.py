"""Who requested a commit, and why. Stored beside the events; folding does not use it."""

from enum import StrEnum

import msgspec


class ActorKind(StrEnum):
    SYSTEM = "system"
    USER = "user"
    SCHEDULER = "scheduler"
    EXTERNAL = "external"


class Actor(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: ActorKind
    id: str | None = None


class CommitMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`causation_id`: the command that caused the commit."""

    actor: Actor | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
