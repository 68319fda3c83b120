"""`schedule show`, `edit`, `pause`, `resume`, `backfill`, `stop-backfill` and `occurrences`."""

from __future__ import annotations

from typing import Annotated

import typer

from pyoco_server.cli.client.commands.schedules import (
    CatchUpOption,
    CronOption,
    EndAtOption,
    IdArgument,
    IdOption,
    IntervalOption,
    JitterOption,
    NameOption,
    OverlapOption,
    PlannedAtOption,
    RunAtOption,
    StartAtOption,
    WithinOption,
    ZoneOption,
    only_schedule_id,
    timing,
)
from pyoco_server.cli.client.ids import short_id, whole_schedule_id
from pyoco_server.cli.client.options import LimitOption, OutputOption, RoutingTagOption, connect
from pyoco_server.cli.client.output import show_items, show_outcome
from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.client.place import place_of
from pyoco_server.cli.client.tables import Column, Item, at, id_of, text, whole_instant, words_of
from pyoco_server.cli.entry import WrongArguments

SHOW_EXAMPLE = "pyoco-client schedule show SCHEDULE_ID"
EDIT_EXAMPLE = "pyoco-client schedule edit SCHEDULE_ID --cron '0 3 * * *' --overlap skip"
PAUSE_EXAMPLE = "pyoco-client schedule pause SCHEDULE_ID"
RESUME_EXAMPLE = "pyoco-client schedule resume SCHEDULE_ID"
BACKFILL_EXAMPLE = (
    "pyoco-client schedule backfill SCHEDULE_ID --from 2026-01-01T00:00:00Z --to 2026-01-31T00:00:00Z"
)
STOP_EXAMPLE = "pyoco-client schedule stop-backfill SCHEDULE_ID"
OCCURRENCES_EXAMPLE = "pyoco-client schedule occurrences SCHEDULE_ID --limit 20"

_INSTANTS = ("end_at", "paused_at", "queued_at", "next_at", "last_at")
_FACTS = {
    "name": "Name",
    "flow_name": "Flow",
    "tag": "Tag",
    "status": "Status",
    "revision": "Revision",
    "end_at": "Ends",
    "jitter_seconds": "Jitter",
    "overlap": "Overlap",
    "catch_up": "Catch-up",
    "paused_at": "Paused",
    "next_at": "Next",
    "queued_at": "Waits",
    "last_at": "Last",
    "last_run_id": "Last run",
    "last_status": "Last status",
    "dispatch_count": "Started",
    "skip_count": "Skipped",
    "last_error": "Error",
}


def show(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    output: OutputOption = None,
) -> None:
    """Show a schedule: its policies, its next instants, and how its runs ended."""
    wanted = only_schedule_id(schedule, schedule_id, "show")
    with connect(ctx) as client:
        found = client.get_schedule(whole_schedule_id(client, wanted))
    show_outcome(found, _lines_of(found), output)


def edit(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A parameter of the next runs; these replace all."),
    ] = None,
    tag: RoutingTagOption = None,
    run_at: RunAtOption = None,
    interval_seconds: IntervalOption = None,
    start_at: StartAtOption = None,
    cron: CronOption = None,
    timezone: ZoneOption = None,
    end_at: EndAtOption = None,
    jitter_seconds: JitterOption = None,
    name: NameOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    catch_up_within_seconds: WithinOption = None,
    planned_at_param: PlannedAtOption = None,
    clear: Annotated[
        list[str] | None, typer.Option(metavar="MEMBER", help="Remove this, like end_at; repeatable.")
    ] = None,
    revision: Annotated[
        int | None, typer.Option(help="Only if it is at this revision. [default: as it is now]")
    ] = None,
    output: OutputOption = None,
) -> None:
    """Change a schedule. What is not given stays as it is."""
    wanted = only_schedule_id(schedule, schedule_id, "edit")
    given: dict[str, object] = {
        "tag": tag,
        "run_at": run_at,
        "interval_seconds": interval_seconds,
        "start_at": start_at,
        "cron": cron,
        "timezone": timezone,
        "end_at": end_at,
        "jitter_seconds": jitter_seconds,
        "name": name,
        "overlap": overlap,
        "catch_up": catch_up,
        "catch_up_within_seconds": catch_up_within_seconds,
        "planned_at_param": planned_at_param,
        "params": merged_params(None, None, param) if param else None,
    }
    changes = {key: value for key, value in given.items() if value is not None}
    changes |= dict.fromkeys(clear or [])
    if not changes:
        raise WrongArguments("Say what to change.", hint=EDIT_EXAMPLE)
    with connect(ctx) as client:
        wanted = whole_schedule_id(client, wanted)
        if revision is None:
            revision = client.get_schedule(wanted, upcoming=0)["revision"]
        edited = client.edit_schedule(wanted, changes, revision=revision)
    show_outcome(edited, _lines_of(edited), output)


def pause(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    output: OutputOption = None,
) -> None:
    """Pause a schedule: it starts no more runs until it is resumed."""
    wanted = only_schedule_id(schedule, schedule_id, "pause")
    with connect(ctx) as client:
        paused = client.pause_schedule(whole_schedule_id(client, wanted))
    resume_it = place_of(ctx).command("schedule resume " + short_id(paused["schedule_id"]))
    words = [f"Schedule {paused['schedule_id']} is paused.", f"  Resume     {resume_it}"]
    show_outcome(paused, words, output)


def resume(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    output: OutputOption = None,
) -> None:
    """Resume a schedule. What was due in the pause is not started."""
    wanted = only_schedule_id(schedule, schedule_id, "resume")
    with connect(ctx) as client:
        resumed = client.resume_schedule(whole_schedule_id(client, wanted))
    words = [
        f"Schedule {resumed['schedule_id']} starts runs again.",
        f"  Next run   {whole_instant(resumed['next_at'])}",
    ]
    show_outcome(resumed, words, output)


def backfill(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    begin: Annotated[
        str | None, typer.Option("--from", help="The first instant: ISO 8601 with an offset.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="The last instant.")] = None,
    max_running: Annotated[
        int | None, typer.Option(help="How many runs go on at a time. [default: 1]")
    ] = None,
    output: OutputOption = None,
) -> None:
    """Start the runs of what was due in a range of the past and has no run."""
    wanted = only_schedule_id(schedule, schedule_id, "backfill")
    if begin is None or end is None:
        raise WrongArguments("Give the range with --from and --to.", hint=BACKFILL_EXAMPLE)
    with connect(ctx) as client:
        found = client.backfill_schedule(
            whole_schedule_id(client, wanted), begin, end, max_running=max_running
        )
    show_outcome(found, _lines_of(found), output)


def stop_backfill(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    output: OutputOption = None,
) -> None:
    """Stop the backfill of a schedule. Runs that it has started go on."""
    wanted = only_schedule_id(schedule, schedule_id, "stop-backfill")
    with connect(ctx) as client:
        found = client.stop_backfill(whole_schedule_id(client, wanted))
    show_outcome(found, _lines_of(found), output)


def occurrences(
    ctx: typer.Context,
    schedule: IdArgument = None,
    schedule_id: IdOption = None,
    limit: LimitOption = None,
    before: Annotated[int | None, typer.Option(help="Entries with a lower number.")] = None,
    output: OutputOption = None,
) -> None:
    """List what happened to each planned instant, the latest first: its run, or why it has none."""
    wanted = only_schedule_id(schedule, schedule_id, "occurrences")
    with connect(ctx) as client:
        found = client.list_occurrences(whole_schedule_id(client, wanted), limit=limit, before=before)
    show_items(found["occurrences"], _OCCURRENCES, output, empty="Nothing was due yet.")


def _lines_of(found: Item) -> list[str]:
    facts = {label: _fact(found, name) for name, label in _FACTS.items() if found.get(name) not in (None, "")}
    facts["When"] = timing(found)
    ended = found.get("runs")
    if isinstance(ended, dict):
        facts["Runs"] = (
            ", ".join(f"{number} {status}" for status, number in ended.items() if number) or "none"
        )
    backfilled = found.get("backfill")
    if isinstance(backfilled, dict):
        done = f"{backfilled['started']} started, {backfilled['existing']} had a run"
        facts["Backfill"] = f"{backfilled['state']}: of {backfilled['total']}, {done}"
    return [f"Schedule {found['schedule_id']}", *(f"  {label:<12} {words}" for label, words in facts.items())]


def _fact(found: Item, name: str) -> str:
    return whole_instant(found[name]) if name in _INSTANTS else words_of(found[name])


def _outcome(item: Item) -> str:
    return words_of(item.get("reason") or item.get("outcome"))


_OCCURRENCES = (
    Column("NUMBER", text("number")),
    Column("PLANNED", at("first_at")),
    Column("UNTIL", at("last_at"), rank=1),
    Column("COUNT", text("count"), rank=2),
    Column("OUTCOME", _outcome),
    Column("RUN", id_of("run_id")),
    Column("BY", text("origin"), rank=3),
)
