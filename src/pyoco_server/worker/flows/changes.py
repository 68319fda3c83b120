"""Does a flow still have the waits that a run has come to? A newer version of it may have lost one.

Going on would mean to guess what the answer was given for. Light: a slot imports it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyoco.core.models import Flow

from pyoco_server.flows.waits import WaitTask

# `release#2[0]`: of the task `release`, the second place in the program, the first iteration.
_PLACE_AND_ITERATION = re.compile(r"(?:#\d+)?(?:\[\d+\])*$")


def lost_wait(flow: Flow, awaited: Iterable[str]) -> str | None:
    """The first of these record names for which the flow has no waiting task any more."""
    names = list(awaited)
    if not names:
        return None
    waits = {task.name for task in flow.tasks if type(task.func) is WaitTask}
    lost = (name for name in names if name not in waits and _PLACE_AND_ITERATION.sub("", name) not in waits)
    return next(lost, None)


def why_lost(name: str) -> str:
    return (
        f"The flow has changed: it has no wait '{name}' any more, which this run has come to. "
        "Submit it again, or bring the wait back before you answer it."
    )
