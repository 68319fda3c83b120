"""What a schedule runs and when, read from a form or a body. An error says what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec
from msgspec import structs
from starlette.datastructures import FormData

from pyoco_server.errors import ErrorDetail, Invalid
from pyoco_server.http_api.faces.runs.wire import WhatToRun, decoded, submission_of
from pyoco_server.http_api.faces.runs.yaml_form import not_single, problem, text_in
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.submit import Submission
from pyoco_server.schedules.timing import ZONE_DEFAULT, ScheduleKind, Timing, bad_cron_field, is_cron, zone_of

FIELDS = ("run_at", "interval_seconds", "start_at", "cron", "timezone")
# The fields that set the time with their kinds of schedule, and the fields that need one of them.
_KINDS = {"run_at": ScheduleKind.ONCE, "interval_seconds": ScheduleKind.INTERVAL, "cron": ScheduleKind.CRON}
_GOES_WITH = {"start_at": "interval_seconds", "timezone": "cron"}

INTERVAL_SEC_MIN, INTERVAL_SEC_MAX = 0.1, 366 * 86_400.0

_ONE_OF = "Give exactly one of run_at, interval_seconds and cron."
_INSTANT = "Write an instant in ISO 8601 with its offset, like 2030-01-31T08:00:00+09:00 or ending in Z."
_PAST = "This instant is over: write one that is to come."
_INTERVAL = f"Write a number of seconds from {INTERVAL_SEC_MIN:g} to {INTERVAL_SEC_MAX:g}."
_CRON_FIELD = "The {name} is not valid. Its values are {values}; *, lists, ranges and steps are allowed."
_CRON = "Write five fields: minute, hour, day of month, month, day of week, like 30 8 * * mon-fri."
_ZONE = "Write the name of a time zone, like Asia/Tokyo."


class ScheduleRequest(WhatToRun):
    run_at: str | None = None
    interval_seconds: float | None = None
    start_at: str | None = None
    cron: str | None = None
    timezone: str | None = None


_decode = msgspec.json.Decoder(ScheduleRequest).decode


class _Unfit(ValueError):
    """Carries the sentence that says what to write."""


def asked_in(body: bytes, headers: Mapping[str, str], caller: Caller) -> tuple[Submission, dict[str, str]]:
    """The submission of its runs, and the fields of `FIELDS` that were sent, as texts."""
    asked = decoded(_decode, body)
    given = {name: str(value) for name in FIELDS if (value := getattr(asked, name)) not in (None, "")}
    return submission_of(asked, headers, caller), given


def timing_in(form: FormData, now: float) -> Timing:
    given = {name: text for name in FIELDS if (text := text_in(form, name)) is not None}
    if problems := not_single(form, FIELDS):
        raise _invalid(problems)
    return timing_of(given, now)


def timing_of(given: Mapping[str, str], now: float) -> Timing:
    """`given`: the fields of `FIELDS` that were sent, as texts."""
    problems = _does_not_fit(given)
    if problems:
        raise _invalid(problems)
    members: dict[str, float | str] = {}
    for name, text in given.items():
        try:
            members[name] = _READ[name](text)
        except _Unfit as unfit:
            problems.append(problem(name, str(unfit)))
    if problems:
        raise _invalid(problems)
    timing = _whole(members, now)
    if timing.run_at is not None and timing.run_at <= now:
        raise _invalid([problem("run_at", _PAST)])
    return timing


def _does_not_fit(given: Mapping[str, str]) -> list[ErrorDetail]:
    chosen = [name for name in _KINDS if name in given]
    if len(chosen) != 1:
        return [problem(name, _ONE_OF) for name in chosen or _KINDS]
    return [
        problem(name, f"{name} goes with {main}: leave it out.", "extra_forbidden")
        for name, main in _GOES_WITH.items()
        if name in given and main not in given
    ]


def _whole(members: dict[str, float | str], now: float) -> Timing:
    (kind,) = (kind for name, kind in _KINDS.items() if name in members)
    timing = msgspec.convert(members | {"kind": kind}, Timing)
    if kind is ScheduleKind.INTERVAL and timing.start_at is None and timing.interval_seconds is not None:
        return structs.replace(timing, start_at=round(now + timing.interval_seconds, 6))
    if kind is ScheduleKind.CRON and timing.timezone is None:
        return structs.replace(timing, timezone=ZONE_DEFAULT)
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


def _cron(text: str) -> str:
    if not is_cron(text):
        bad = bad_cron_field(text)
        raise _Unfit(_CRON if bad is None else _CRON_FIELD.format(name=bad[0], values=bad[1]))
    return " ".join(text.split())


def _zone(text: str) -> str:
    if zone_of(text) is None:
        raise _Unfit(_ZONE)
    return text


_READ: Mapping[str, Callable[[str], float | str]] = {
    "run_at": _instant,
    "interval_seconds": _interval,
    "start_at": _instant,
    "cron": _cron,
    "timezone": _zone,
}


def _invalid(problems: list[ErrorDetail]) -> Invalid:
    return Invalid("The schedule does not say when.", details=problems)
