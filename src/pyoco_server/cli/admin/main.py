"""`pyoco-server-admin`: inspect what is stored, directly at the broker. For operators; needs no gateway."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pyoco_server.cli.admin import doctor, keys, strategies
from pyoco_server.cli.admin.broker import DataDirOption, NatsUrlOption, ask_broker
from pyoco_server.cli.entry import CANNOT, CliRefusal, WrongArguments, run
from pyoco_server.names import is_run_id
from pyoco_server.printable import json_text
from pyoco_server.store.store import Store

app = typer.Typer(rich_markup_mode=None, epilog="Example: pyoco-server-admin verify RUN_ID")

RunIdArgument = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run's id.")]

keys.add_to(app)
strategies.add_to(app)
doctor.add_to(app)


@app.callback()
def pyoco_server_admin(ctx: typer.Context, nats_url: NatsUrlOption = None) -> None:
    """Inspect what is stored, directly at the broker."""
    if nats_url is not None:
        ctx.default_map = _for_every_command(ctx.command, {"nats_url": nats_url})


@app.command(epilog="Example: pyoco-server-admin verify RUN_ID")
def verify(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN_ID", help="The run's id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every stored run.")] = False,
    nats_url: NatsUrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Check a run's log and its snapshot. Prints ok (exit code 0) or each problem (exit code 1)."""
    from pyoco_server.cli.admin.verify import report_all, report_run

    sound: bool | None
    if everything:
        sound = ask_broker(nats_url, data_dir, lambda store: report_all(store, _say))
    elif run_id is None:
        raise WrongArguments("Which run?", hint="pyoco-server-admin verify RUN_ID")
    else:
        sound = ask_broker(nats_url, data_dir, lambda store: report_run(store, _checked(run_id), _say))
    if sound is None:
        raise _unknown(run_id or "")
    raise typer.Exit(0 if sound else CANNOT)


@app.command(epilog="Example: pyoco-server-admin events RUN_ID")
def events(run_id: RunIdArgument, nats_url: NatsUrlOption = None, data_dir: DataDirOption = None) -> None:
    """Print a run's log: one JSON object per event, with the sequence of its commit."""
    import msgspec

    commits = ask_broker(nats_url, data_dir, lambda store: store.runs.events(_checked(run_id)))
    if not commits:
        raise _unknown(run_id)
    for seq, committed in commits:
        for event in committed:
            line: dict[str, object] = {"seq": seq, **msgspec.to_builtins(event)}
            _say(msgspec.json.encode(line).decode())


@app.command(epilog="Example: pyoco-server-admin logs RUN_ID")
def logs(run_id: RunIdArgument, nats_url: NatsUrlOption = None, data_dir: DataDirOption = None) -> None:
    """Print the output of a run and its notices, as JSON lines."""
    import msgspec

    from pyoco_server.operations.logs.unwritten import log_entries

    for entry in ask_broker(nats_url, data_dir, lambda store: log_entries(store, _checked(run_id))):
        _say(msgspec.json.encode(entry).decode())


@app.command(epilog="Example: pyoco-server-admin resources --nats-url nats://127.0.0.1:4222")
def resources(nats_url: NatsUrlOption = None, data_dir: DataDirOption = None) -> None:
    """Create the streams and buckets that are missing, and list all of them as JSON lines."""
    import msgspec

    for line in ask_broker(nats_url, data_dir, _sizes):
        _say(msgspec.json.encode(line).decode())


@app.command(name="accept-lost-log", epilog="Example: pyoco-server-admin accept-lost-log --yes")
def accept_lost_log(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    nats_url: NatsUrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Create an empty event log after the old one was lost. The runs of the old log are given up."""
    from pyoco_server.store.resources import accept_lost_log

    if not yes:
        typer.confirm("All runs of the lost log are given up. Go on?", abort=True)
    is_created = ask_broker(
        nats_url,
        data_dir,
        lambda store: accept_lost_log(store.jetstream, store.config),
        as_it_is=True,
    )
    _say("An empty event log was created." if is_created else "There is an event log. Nothing was changed.")


def _for_every_command(command: object, defaults: dict[str, object]) -> dict[str, object]:
    """Use an option before the command's name as the default of the command and its subcommands."""
    below = getattr(command, "commands", {})
    return defaults | {name: _for_every_command(one, defaults) for name, one in below.items()}


async def _sizes(store: Store) -> list[dict[str, object]]:
    """Every stream and bucket. The store has created missing ones when it was opened."""
    found = (await store.streams()).items()
    return [
        {
            "kind": "bucket" if name.startswith("KV_") else "stream",
            "name": name.removeprefix("KV_"),
            "messages": info.state.messages,
            "bytes": info.state.bytes,
            "replicas": info.config["num_replicas"],
        }
        for name, info in found
    ]


def _checked(run_id: str) -> str:
    if not is_run_id(run_id):
        raise _unknown(run_id)
    return run_id


def _unknown(run_id: str) -> CliRefusal:
    return CliRefusal(f"There is no run {run_id!r}.", hint="pyoco-client list", err_id="ERR-PYOCO-0005")


def _say(line: str) -> None:
    sys.stdout.write(f"{json_text(line)}\n")


def main() -> None:
    run(app, "pyoco-server-admin")


if __name__ == "__main__":
    main()
