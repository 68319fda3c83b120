"""The body of `POST /schedules`: what to run, as `POST /runs` has it, and when."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pyoco_server.http_api.faces.runs.schedules.form import FIELDS
from pyoco_server.http_api.faces.runs.wire import WhatToRun, decoded, submission_of
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.submit import Submission


class ScheduleRequest(WhatToRun):
    run_at: str | None = None
    interval_seconds: float | None = None
    start_at: str | None = None
    cron: str | None = None
    timezone: str | None = None


_decode = msgspec.json.Decoder(ScheduleRequest).decode


def asked_in(body: bytes, headers: Mapping[str, str], caller: Caller) -> tuple[Submission, dict[str, str]]:
    """What its runs begin with; and of what says when, that which was given, as texts."""
    asked = decoded(_decode, body)
    given = {name: str(value) for name in FIELDS if (value := getattr(asked, name)) not in (None, "")}
    return submission_of(asked, headers, caller), given
