"""Existing streams with other settings: which settings lose data, and which deserve a warning.

Existing streams are used as they are (REQ-0007). Only a setting that would lose the event log, or missing
subjects, keep a process from being ready; everything else is logged once. A table with a row per setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Literal, NamedTuple

from pyoco_server.jetstream.descriptions import StreamSettings

_Limit = Literal["max_age", "max_bytes", "max_msgs", "max_msgs_per_subject"]
# The limits at which a stream drops its oldest messages, or refuses new ones.
_SIZES: tuple[_Limit, ...] = ("max_bytes", "max_msgs", "max_msgs_per_subject")


class ProblemLevel(StrEnum):
    FATAL = "fatal"
    WARNING = "warning"


class StreamProblem(NamedTuple):
    """`what`: the stream, what is wrong with it, and what to do. `public`: the same without names."""

    level: ProblemLevel
    what: str
    public: str


class _Row(NamedTuple):
    """`in_log`: how bad it is for the event log; `elsewhere`: for any other stream, None if it is nothing."""

    is_wrong: Callable[[StreamSettings, StreamSettings], bool]
    in_log: ProblemLevel
    elsewhere: ProblemLevel | None
    public: str
    says: str
    remedy: str


def _lacks_subjects(existing: StreamSettings, wanted: StreamSettings) -> bool:
    return not set(wanted["subjects"] or ()) <= set(existing.get("subjects") or ())


def _has_age_limit(existing: StreamSettings, wanted: StreamSettings) -> bool:
    return _limit(existing, "max_age") > 0 and not _limit(wanted, "max_age")


def _drops_the_oldest(existing: StreamSettings, wanted: StreamSettings) -> bool:
    if existing.get("discard", "old") != "old":
        return False
    return any(_limit(existing, size) > 0 and not _limit(wanted, size) for size in _SIZES)


def _may_fill_up(existing: StreamSettings, wanted: StreamSettings) -> bool:
    if existing.get("discard", "old") != "new":
        return False
    return any(_limit(existing, size) > 0 and not _limit(wanted, size) for size in _SIZES)


def _is_kept_otherwise(existing: StreamSettings, wanted: StreamSettings) -> bool:
    return existing.get("retention", "limits") != wanted["retention"]


def _is_in_memory(existing: StreamSettings, wanted: StreamSettings) -> bool:
    return existing.get("storage", "file") == "memory" and wanted["storage"] == "file"


def _has_fewer_replicas(existing: StreamSettings, wanted: StreamSettings) -> bool:
    return existing.get("num_replicas", 1) < wanted["num_replicas"]


_TABLE = (
    _Row(
        _lacks_subjects,
        ProblemLevel.FATAL,
        ProblemLevel.FATAL,
        "has other subjects than configured",
        "exists with other subjects ({existing[subjects]}). It must carry {wanted[subjects]}",
        "rename it, or choose other names in the configuration",
    ),
    _Row(
        _is_kept_otherwise,
        ProblemLevel.FATAL,
        ProblemLevel.FATAL,
        "has another retention than configured",
        "has retention {existing[retention]} instead of {wanted[retention]}",
        "rename it, or choose other names in the configuration",
    ),
    _Row(
        _has_age_limit,
        ProblemLevel.FATAL,
        ProblemLevel.WARNING,
        "drops messages by age",
        "drops messages by age (max_age)",
        "remove the limit: nats stream edit {wanted[name]} --max-age=0",
    ),
    _Row(
        _drops_the_oldest,
        ProblemLevel.FATAL,
        ProblemLevel.WARNING,
        "drops its oldest messages at a limit",
        "drops its oldest messages when a limit is reached (max_bytes, max_msgs or max_msgs_per_subject)",
        "remove the limits with nats stream edit {wanted[name]}",
    ),
    _Row(
        _is_in_memory,
        ProblemLevel.FATAL,
        ProblemLevel.WARNING,
        "is kept in memory",
        "is kept in memory and lost with a restart of the broker",
        "create it again with storage file",
    ),
    _Row(
        _may_fill_up,
        ProblemLevel.WARNING,
        None,
        "refuses new messages at a limit",
        "refuses new messages when a limit is reached (max_bytes, max_msgs or max_msgs_per_subject)",
        "remove the limits with nats stream edit {wanted[name]}, or watch how full it is",
    ),
    _Row(
        _has_fewer_replicas,
        ProblemLevel.FATAL,
        ProblemLevel.WARNING,
        "has fewer copies than configured",
        "has {existing[num_replicas]} copies, and PYOCO_NATS_REPLICAS is {wanted[num_replicas]}",
        "nats stream edit {wanted[name]} --replicas={wanted[num_replicas]}, or change the setting",
    ),
)


def problems(existing: StreamSettings, wanted: StreamSettings, *, is_log: bool) -> Iterator[StreamProblem]:
    for row in _TABLE:
        level = row.in_log if is_log else row.elsewhere
        if level is not None and row.is_wrong(existing, wanted):
            said = f"Stream {wanted['name']} {row.says}: {row.remedy}."
            whose = "The event log" if is_log else "A stream"
            public = f"{whose} at the broker {row.public}. The log of the gateway says what to do."
            yield StreamProblem(level, said.format(existing=existing, wanted=wanted), public)


def _limit(settings: StreamSettings, name: _Limit) -> int:
    """0 for none; the broker writes -1 for some of them."""
    return max(0, settings.get(name) or 0)
