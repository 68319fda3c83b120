"""What a schedule runs and when, read from a form or a body. An error says what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec.structs import asdict, replace
from starlette.datastructures import FormData

from pyoco_server.errors import ErrorDetail, Invalid
from pyoco_server.http_api.faces.runs.wire import WhatToRun, decoded, submission_of
from pyoco_server.http_api.faces.runs.yaml_form import not_single, problem, text_in
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.operations.schedules import NO_OPTIONS, Options
from pyoco_server.printable import has_control
from pyoco_server.schedules.record import CatchUp, Overlap, Policies
from pyoco_server.schedules.timing import ZONE_DEFAULT, ScheduleKind, Timing, bad_cron_field, is_cron, zone_of

FIELDS = ("run_at", "interval_seconds", "start_at", "cron", "timezone", "end_at", "jitter_seconds")
# What a schedule has beside its timing.
OPTIONS = (
    "name",
    "overlap",
    "catch_up",
    "catch_up_within_seconds",
    "planned_at_param",
    "paused",
)
# The fields that set the time with their kinds of schedule, and the fields that need one of them.
_KINDS = {"run_at": ScheduleKind.ONCE, "interval_seconds": ScheduleKind.INTERVAL, "cron": ScheduleKind.CRON}
_REPEATED = ("interval_seconds", "cron")
_GOES_WITH = {"start_at": _REPEATED, "timezone": ("cron",), "end_at": _REPEATED}

E = TypeVar("E", bound=StrEnum)

INTERVAL_SEC_MIN, INTERVAL_SEC_MAX = 0.1, 366 * 86_400.0
JITTER_SEC_MAX = 86_400.0
NAME_CHARS_MAX = 128

_ONE_OF = "Give exactly one of run_at, interval_seconds and cron."
_INSTANT = "Write an instant in ISO 8601 with its offset, like 2030-01-31T08:00:00+09:00 or ending in Z."
_PAST = "This instant is over: write one that is to come."
_INTERVAL = f"Write a number of seconds from {INTERVAL_SEC_MIN:g} to {INTERVAL_SEC_MAX:g}."
_CRON_FIELD = "The {name} is not valid. Its values are {values}; *, lists, ranges and steps are allowed."
_CRON = "Write five fields: minute, hour, day of month, month, day of week, like 30 8 * * mon-fri."
_ZONE = "Write the name of a time zone, like Asia/Tokyo."
_JITTER = f"Write a number of seconds from 0 to {JITTER_SEC_MAX:g}."
_SECONDS = "Write a number of seconds."
_NAME = f"Write 1 to {NAME_CHARS_MAX} characters without line breaks."
_PAUSED = "Write true or false."


class ScheduleRequest(WhatToRun):
    run_at: str | None = None
    interval_seconds: float | None = None
    start_at: str | None = None
    cron: str | None = None
    timezone: str | None = None
    end_at: str | None = None
    jitter_seconds: float | None = None
    name: str | None = None
    overlap: str | None = None
    catch_up: str | None = None
    catch_up_within_seconds: float | None = None
    planned_at_param: str | None = None
    paused: bool | None = None


_decode = msgspec.json.Decoder(ScheduleRequest).decode


class _Unfit(ValueError):
    """Carries the sentence that says what to write."""


def asked_in(body: bytes, headers: Mapping[str, str], caller: Caller) -> tuple[Submission, dict[str, str]]:
    """The submission of its runs, and the fields that were sent, as texts."""
    asked = decoded(_decode, body)
    names = (*FIELDS, *OPTIONS)
    given = {name: str(value) for name in names if (value := getattr(asked, name)) not in (None, "")}
    return submission_of(asked, headers, caller), given


def fields_in(form: FormData) -> dict[str, str]:
    """The fields that were sent, as texts."""
    names = (*FIELDS, *OPTIONS)
    if problems := not_single(form, names):
        raise _invalid(problems)
    return {name: text for name in names if (text := text_in(form, name)) is not None}


def timing_of(given: Mapping[str, str], now: float) -> Timing:
    """`given`: the fields of `FIELDS` that were sent, as texts."""
    given = {name: text for name, text in given.items() if name in FIELDS}
    if problems := _does_not_fit(given):
        raise _invalid(problems)
    return _whole(_members(given, now), now)


def changed_timing(timing: Timing, given: Mapping[str, str | None], now: float) -> Timing:
    """The timing with the fields that were sent; None removes one. Another kind replaces all of the old."""
    sent = {name: text for name, text in given.items() if name in FIELDS}
    if not sent:
        return timing
    values = {name: value for name in FIELDS if (value := getattr(timing, name)) not in (None, 0.0)}
    chosen = [name for name in _KINDS if sent.get(name) is not None]
    if chosen and chosen != [name for name in _KINDS if name in values]:
        fitting = ("end_at", "jitter_seconds") if chosen != ["run_at"] else ("jitter_seconds",)
        values = {name: value for name, value in values.items() if name in fitting}
    values = {name: value for name, value in values.items() if name not in sent}
    texts = {name: text for name, text in sent.items() if text is not None}
    if problems := _does_not_fit(values | texts):
        raise _invalid(problems)
    return _whole(values | _members(texts, now), now)


def options_of(given: Mapping[str, str | None], before: Options = NO_OPTIONS) -> Options:
    """`before`: what holds for fields that were not sent. None: the default."""
    problems: list[ErrorDetail] = []
    members: dict[str, object] = {}
    for name in OPTIONS:
        text = given.get(name)
        try:
            if text is not None:
                members[name] = _READ_OPTION[name](text)
            elif name in given:
                members[name] = _DEFAULTS.get(name)
        except _Unfit as unfit:
            problems.append(problem(name, str(unfit)))
    if problems:
        raise _invalid(problems)
    policies = {name: members[name] for name in Policies.__struct_fields__ if name in members}
    if policies.get("catch_up", CatchUp.ALL_WITHIN) is not CatchUp.ALL_WITHIN:
        policies.setdefault("catch_up_within_seconds", None)
    named: dict[str, object] = {
        "name": before.name,
        "planned_at_param": before.planned_at_param,
        "paused": before.is_paused,
    }
    named |= {name: members[name] for name in named if name in members}
    return Options(
        name=None if named["name"] is None else str(named["name"]),
        policies=msgspec.convert(asdict(before.policies) | policies, Policies),
        planned_at_param=None if named["planned_at_param"] is None else str(named["planned_at_param"]),
        is_paused=bool(named["paused"]),
    )


def instant_of(name: str, text: str) -> float:
    try:
        return _instant(text)
    except _Unfit as unfit:
        raise _invalid([problem(name, str(unfit))]) from None


def _members(given: Mapping[str, str], now: float) -> dict[str, object]:
    problems: list[ErrorDetail] = []
    members: dict[str, object] = {}
    for name, text in given.items():
        try:
            members[name] = _READ[name](text)
        except _Unfit as unfit:
            problems.append(problem(name, str(unfit)))
    instants = ((name, members.get(name)) for name in ("run_at", "end_at"))
    ended = [name for name, instant in instants if isinstance(instant, float) and instant <= now]
    problems += [problem(name, _PAST) for name in ended]
    if problems:
        raise _invalid(problems)
    return members


def _does_not_fit(given: Mapping[str, object]) -> list[ErrorDetail]:
    chosen = [name for name in _KINDS if name in given]
    if len(chosen) != 1:
        return [problem(name, _ONE_OF) for name in chosen or _KINDS]
    return [
        problem(name, f"{name} goes with {' or '.join(mains)}: leave it out.", "extra_forbidden")
        for name, mains in _GOES_WITH.items()
        if name in given and not any(main in given for main in mains)
    ]


def _whole(members: dict[str, object], now: float) -> Timing:
    (kind,) = (kind for name, kind in _KINDS.items() if name in members)
    timing = msgspec.convert(members | {"kind": kind}, Timing)
    if timing.interval_seconds is not None and timing.start_at is None:
        return replace(timing, start_at=round(now + timing.interval_seconds, 6))
    if timing.cron is not None and timing.timezone is None:
        return replace(timing, timezone=ZONE_DEFAULT)
    return timing


def _instant(text: str) -> float:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise _Unfit(_INSTANT) from None
    if instant.tzinfo is None:
        raise _Unfit(_INSTANT)
    return instant.timestamp()


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise _Unfit(_INTERVAL) from None
    if not INTERVAL_SEC_MIN <= seconds <= INTERVAL_SEC_MAX:
        raise _Unfit(_INTERVAL)
    return seconds


def _jitter(text: str) -> float:
    seconds = _seconds(text)
    if not 0.0 <= seconds <= JITTER_SEC_MAX:
        raise _Unfit(_JITTER)
    return seconds


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _Unfit(_SECONDS) from None


def _name(text: str) -> str:
    if not 1 <= len(text.strip()) <= NAME_CHARS_MAX or has_control(text):
        raise _Unfit(_NAME)
    return text.strip()


def _one_of(kind: type[E]) -> Callable[[str], E]:
    def read(text: str) -> E:
        try:
            return kind(text)
        except ValueError:
            raise _Unfit(f"Write one of {', '.join(kind)}.") from None

    return read


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _Unfit(_PAUSED)
    return text.lower() == "true"


def _cron(text: str) -> str:
    if not is_cron(text):
        bad = bad_cron_field(text)
        raise _Unfit(_CRON if bad is None else _CRON_FIELD.format(name=bad[0], values=bad[1]))
    return " ".join(text.split())


def _zone(text: str) -> str:
    if zone_of(text) is None:
        raise _Unfit(_ZONE)
    return text


_READ: Mapping[str, Callable[[str], object]] = {
    "run_at": _instant,
    "interval_seconds": _interval,
    "start_at": _instant,
    "cron": _cron,
    "timezone": _zone,
    "end_at": _instant,
    "jitter_seconds": _jitter,
}
_READ_OPTION: Mapping[str, Callable[[str], object]] = {
    "name": _name,
    "overlap": _one_of(Overlap),
    "catch_up": _one_of(CatchUp),
    "catch_up_within_seconds": _seconds,
    "planned_at_param": _name,
    "paused": _flag,
}
_DEFAULTS: Mapping[str, object] = {"overlap": Overlap.ALLOW, "catch_up": CatchUp.LAST, "paused": False}


def _invalid(problems: list[ErrorDetail]) -> Invalid:
    return Invalid("The schedule does not say when.", details=problems)
