"""The start screen of `pyoco-server up`: addresses, folders, and the next command to type.

In colours on a terminal, plain otherwise; always on stderr, because stdout has the log.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pyoco_server.cli.server.listening import Listening
from pyoco_server.cli.server.up_plan import UpPlan
from pyoco_server.config import default_of, without_credentials

if TYPE_CHECKING:
    from rich.console import Console

DURABILITY = {
    "always": "always: every write is on disk before it is acknowledged",
    "interval": "interval: a power cut may cost the last 100 ms",
}


class Screen:
    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(highlight=False, soft_wrap=True, stderr=True)

    def ready(self, plan: UpPlan, listening: Listening) -> None:
        url = listening.url
        self._print("[bold green]pyoco-server is ready[/]\n")
        for name, value in facts(plan, listening):
            self._print(f"  {name:<10} [cyan]{_plain(value)}[/]")
        self._print(f"\n  Try        [bold]{_plain(as_typed(next_command(plan, url)))}[/]")
        self._print("  Stop       Ctrl-C\n")

    def waiting(self, reasons: list[str]) -> None:
        self._print(f"[yellow]not ready yet:[/] {_plain('; '.join(reasons) or 'the gateway is starting')}")

    def other_broker(self, description: str, url: str) -> None:
        command = f"pyoco-server up --nats-url {url}"
        self._print(f"There is a {_plain(description)}; to use that one: [bold]{command}[/]")

    def stopping(self, *, by_signal: bool) -> None:
        self._print("stopping" if by_signal else "[red]stopping, because a part of it ended by itself[/]")

    def _print(self, line: str) -> None:
        self._console.print(line)
        sys.stderr.flush()


def facts(plan: UpPlan, listening: Listening) -> Iterator[tuple[str, str]]:
    url = listening.url
    yield "API", url
    every = " (every address of this machine)" if listening.is_everywhere else ""
    yield "Listening", f"{listening.bound}{every}"
    from pyoco_server.http_api import pages  # the whole gateway; the worker must be started before it

    if pages.is_built():
        yield "Dashboard", f"{url}/"
    yield "Reference", f"{url}/docs"
    broker = without_credentials(plan.config.nats_url)
    if plan.embedded:
        yield "Broker", f"{broker} (embedded; durability {DURABILITY[plan.config.durability]})"
        yield "Data", plan.config.data_dir
    else:
        yield "Broker", broker
    yield "Worker", _worker_fact(plan)


def as_typed(command: str) -> str:
    """With its path if the shell does not find it: it is in the folder of this interpreter."""
    name = command.split()[0]
    if shutil.which(name) is not None:
        return command
    beside = Path(sys.executable).with_name(name)
    here = beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside
    return f"{here}{command.removeprefix(name)}" if beside.exists() else command


def next_command(plan: UpPlan, url: str) -> str:
    if "api_key" in plan.config.auth_methods:
        return f"pyoco-server-admin api-key create {_broker_flag(plan)}--tenant demo --scope admin"
    if plan.config.auth_methods:
        return f"curl -H 'Authorization: Bearer TOKEN' {url}/runs"
    if plan.worker is None:
        return _worker_command(plan)
    server = "" if url == "http://127.0.0.1:8000" else f"--server {url} "
    if plan.worker.flow_resolver is None:
        return f"pyoco-client {server}submit hello --tag demo --param name=you"
    return f"pyoco-client {server}submit NAME_OF_YOUR_FLOW"


def _worker_fact(plan: UpPlan) -> str:
    if plan.worker is None:
        return f"none; start one with {as_typed(_worker_command(plan))}"
    if plan.worker.flow_resolver is None:
        ignored = (
            f" (--tags {','.join(plan.ignored_tags)} needs --flow-resolver)" if plan.ignored_tags else ""
        )
        return f"demo flows on tag demo{ignored}"
    return f"flows of {plan.worker.flow_resolver} on tags {', '.join(plan.worker.tags)}"


def _worker_command(plan: UpPlan) -> str:
    return f"pyoco-worker {_broker_flag(plan)}--flow-resolver my_flows.py:resolve"


def _broker_flag(plan: UpPlan) -> str:
    if plan.config.auth_methods and plan.embedded:  # its credentials are in the folder
        folder = Path(plan.config.data_dir)
        return "" if folder == Path(default_of("data_dir")).resolve() else f"--data-dir {folder} "
    found_without = plan.config.nats_url == default_of("nats_url")
    return "" if found_without else f"--nats-url {without_credentials(plan.config.nats_url)} "


def _plain(text: str) -> str:
    """Escape brackets, which rich reads as markup."""
    return text.replace("[", "\\[")
