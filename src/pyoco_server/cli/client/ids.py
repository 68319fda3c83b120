"""Ids as people type them: whole, or their beginning, as the dashboard shows it. Finds those that are short.

A whole id costs no extra request. A short id that several runs have is refused with the candidates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyoco_server.cli.entry import WrongArguments
from pyoco_server.printable import one_line

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

# The gateway searches for no shorter ones.
PREFIX_CHARS_MIN = 4
CANDIDATES_MAX = 10
_WHOLE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def only_id(argument: str | None, option: str | None, example: str, noun: str = "run") -> str:
    """The id, given once: by position or as an option."""
    if (argument is None) == (option is None):
        message = f"Name one {noun}." if option is None else f"Name the {noun} once."
        raise WrongArguments(message, hint=f"pyoco-client {example}")
    return argument or option or ""


def only_run_id(argument: str | None, option: str | None, command: str) -> str:
    return only_id(argument, option, f"run {command} RUN_ID")


def whole_run_id(client: PyocoHttpClient, given: str) -> str:
    """The id of the one run that it can mean. What begins no id is returned as it is: it has no run."""
    if is_whole(given) or len(given) < PREFIX_CHARS_MIN:
        return given
    found = client.find_runs(given, limit=CANDIDATES_MAX)
    candidates = {str(run["run_id"]): f"{run['status']}  {run['flow_name']}" for run in found}
    return the_one(given, candidates, "run")


def whole_schedule_id(client: PyocoHttpClient, given: str) -> str:
    if is_whole(given) or len(given) < PREFIX_CHARS_MIN:
        return given
    ids = {str(one["schedule_id"]): str(one["flow_name"]) for one in client.list_schedules()}
    return the_one(given, {id_: flow for id_, flow in ids.items() if id_.startswith(given)}, "schedule")


def is_whole(given: str) -> bool:
    return _WHOLE.fullmatch(given) is not None


def short_id(whole: str) -> str:
    """As the dashboard shows it. An id that is a name of its own stays whole."""
    return whole[:8] if is_whole(whole) else whole


def the_one(given: str, candidates: Mapping[str, str], noun: str) -> str:
    if given in candidates or not candidates:
        return given
    if len(candidates) == 1:
        return next(iter(candidates))
    listed = [one_line(f"  {id_}  {words}") for id_, words in candidates.items()]
    raise WrongArguments(
        "\n".join([f"{noun.capitalize()}s whose id begins with {given!r}:", *_bounded(listed)]),
        hint="the same command with more characters of the id",
    )


def _bounded(listed: Sequence[str]) -> Sequence[str]:
    """A full answer may lack further candidates."""
    return [*listed[:CANDIDATES_MAX], "  …"] if len(listed) >= CANDIDATES_MAX else listed
