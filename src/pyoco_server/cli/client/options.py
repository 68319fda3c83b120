"""Options and steps that the commands of `pyoco-client` share: connect, read a file, wait for a run."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pyoco_server.cli.client.connection import chosen_connection
from pyoco_server.cli.client.output import OutputForm, is_json, show_outcome, show_run
from pyoco_server.cli.client.place import place_of
from pyoco_server.cli.client.waiting_hint import WaitingHint
from pyoco_server.cli.entry import WrongArguments

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient
    from pyoco_server.http_client.answers import RunAnswer, SubmittedRunAnswer

FAILED, CANCELLED, STILL_RUNNING = 2, 3, 8
EXIT_CODES = {"COMPLETED": 0, "FAILED": FAILED, "CANCELLED": CANCELLED}

RunIdArgument = Annotated[
    str | None, typer.Argument(metavar="RUN_ID", help="The run's id, or its first four characters or more.")
]
RunIdOption = Annotated[str | None, typer.Option("--run-id", help="The run's id, as an option.")]
OutputOption = Annotated[
    OutputForm | None,
    typer.Option(help="json, or text (also: table) for people. [default: text on a terminal, else json]"),
]
RecordsOption = Annotated[
    bool, typer.Option("--records", help="Include inputs, outputs and errors of tasks.")
]
RoutingTagOption = Annotated[
    str | None, typer.Option(help="Routing tag: which workers may run it. [default: default]")
]
LimitOption = Annotated[int | None, typer.Option(help="How many at most, up to 200. [default: 50]")]
CursorOption = Annotated[
    str | None, typer.Option(help="The next_cursor of the page before, with the same filters.")
]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until it has ended; the exit code shows how.")]
WaitTimeoutOption = Annotated[
    float | None, typer.Option(min=0, help="With --wait: give up after this many seconds. [default: never]")
]


class Waits(NamedTuple):
    """The options of a command that starts a run and may wait for its end."""

    wait: bool = False
    timeout_sec: float | None = None
    output: OutputForm | None = None


def connect(ctx: typer.Context) -> AbstractContextManager[PyocoHttpClient]:
    """A client of the gateway that the options before the command name."""
    from pyoco_server.cli.client.gateway import gateway_client

    return gateway_client(chosen_connection(ctx.obj))


def check_timeout(wait: bool, timeout_sec: float | None, example: str) -> None:
    """A limit of a wait that was not asked for is a mistake: the command would return at once."""
    if timeout_sec is not None and not wait:
        raise WrongArguments("--timeout-sec is the limit of --wait: give both.", hint=example)


def only_file(argument: Path | None, option: Path | None, noun: str, example: str) -> Path:
    """The file, given once: by position or as an option."""
    if argument is not None and option is not None:
        raise WrongArguments(f"Name the {noun} file once.", hint=example)
    file = argument or option
    if file is None:
        raise WrongArguments(f"Name the {noun} file.", hint=example)
    return file


def read_workflow(path: Path, example: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WrongArguments(f"--workflow-file {path} cannot be read: {error}", hint=example) from error


def show_accepted(
    ctx: typer.Context,
    client: PyocoHttpClient,
    accepted: SubmittedRunAnswer,
    sentence: str,
    waits: Waits,
) -> None:
    """Show what was accepted. With `--wait`: how the run ended, also as the exit code."""
    run_id, output = accepted["run_id"], waits.output
    if not waits.wait:
        return show_outcome(accepted, place_of(ctx).after_submission(run_id, sentence), output)
    if sys.stdout.isatty() and not is_json(output) and waits.timeout_sec is None:
        from pyoco_server.cli.client.live_view import watch_live

        with WaitingHint(ctx, run_id, is_drawn=True) as hint:
            status = watch_live(client.follow_run(run_id, include_records=True), hint=hint)
        sys.stdout.write(f"{place_of(ctx).link('runs', run_id)}\n")
    else:
        with WaitingHint(ctx, run_id):
            ended = wait_for_run(client, run_id, waits.timeout_sec)
        show_run(ended, output, link=place_of(ctx).link("runs", run_id))
        status = ended["status"]
    raise typer.Exit(EXIT_CODES.get(status, STILL_RUNNING))


def wait_for_run(client: PyocoHttpClient, run_id: str, timeout_sec: float | None) -> RunAnswer:
    """The run as it ended, or as it is after `timeout_sec`."""
    try:
        return client.wait_run(run_id, timeout_sec)
    except TimeoutError:
        return client.get_run(run_id)
