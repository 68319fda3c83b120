"""The parameters of the operator's routes."""

from __future__ import annotations

from pyoco_server.http_api.routing.kinds import (
    LENIENT_WORDS,
    ChoiceKind,
    FlagKind,
    IntegerKind,
    Kind,
    TextKind,
    Unfit,
    lowered,
    uppered,
)
from pyoco_server.http_api.routing.params import Param, path, text
from pyoco_server.operations.fleet.dead_letters import LetterKind
from pyoco_server.operations.fleet.wheels import is_wheel_name
from pyoco_server.store.fleet.registry import WorkerState
from pyoco_server.store.fleet.wheels import WheelAction

WORKERS_WRONG = "ERR-PYOCO-0019"
STREAM_SEC_MAX = 600
_DIGITS_MAX = 18

FLAG = FlagKind(LENIENT_WORDS, lowered)


class _WheelName(TextKind):
    def read(self, text: str) -> str:
        name = text.strip()
        if not is_wheel_name(name):
            raise Unfit("must be like demo_pkg-1.0-py3-none-any.whl.")
        return name


def _limit(default: int, most: int, err_id: str | None = None) -> Param[int]:
    kind = IntegerKind(1, most, _DIGITS_MAX)
    return Param("limit", kind, default, "How many at most.", err_id=err_id)


SCOPE = Param(
    "scope",
    ChoiceKind(("active", "all"), "must be active or all.", lowered),
    "active",
    "Those alive, or all there were.",
    err_id=WORKERS_WRONG,
)
_STATE: Kind[str] = ChoiceKind(tuple(WorkerState), fold=uppered)
STATE = Param[str | None](
    "state", _STATE, None, "Only workers in this state.", skips="blank", err_id=WORKERS_WRONG
)
INCLUDE_HIDDEN = Param("include_hidden", FLAG, False, "Those hidden too.", err_id=WORKERS_WRONG)
WORKERS_LIMIT = _limit(100, 500, WORKERS_WRONG)
TIMEOUT_SEC = Param(
    "timeout_sec",
    IntegerKind(1, STREAM_SEC_MAX, _DIGITS_MAX),
    STREAM_SEC_MAX,
    "After how long it ends.",
    err_id=WORKERS_WRONG,
)
WORKER_ID = path("worker_id")

HISTORY_LIMIT = _limit(100, 500)
WHEEL_NAME = path("wheel_name")
ONLY_WHEEL = Param[str | None]("wheel_name", _WheelName(), None, "Only of this file name.", skips="blank")
_ACTION = ChoiceKind(tuple(WheelAction), f"must be {' or '.join(WheelAction)}.", lowered)
ACTION = Param[str | None]("action", _ACTION, None, "Only this action.", skips="blank")

LETTERS_LIMIT = _limit(50, 200)
REASON = text("reason", "Only letters with this reason, like execution_error.")
LETTER_KIND = Param[str | None](
    "kind",
    ChoiceKind(tuple(LetterKind), f"must be {' or '.join(LetterKind)}.", lowered),
    None,
    "`delivery`: what could not be delivered or started. `execution`: runs whose code failed.",
    skips="blank",
)
INCLUDE_DISMISSED = Param("include_dismissed", FLAG, False, "Also letters that were dismissed.")
CURSOR = text("cursor", "Where the page before ended: its `next_cursor`.")
LETTER_ID = path("letter_id")
APPROVALS_LIMIT = _limit(50, 200)
KEY = path("key")
