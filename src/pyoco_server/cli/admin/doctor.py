"""`pyoco-server-admin doctor`: check this machine, its settings and the broker, and print what to do."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.broker.data_folder import recorded_broker_url
from pyoco_server.cli import settings
from pyoco_server.cli.admin.broker import DataDirOption, NatsUrlOption
from pyoco_server.cli.admin.examination import Finding, FindingLevel, as_json, at_broker, here
from pyoco_server.cli.entry import CANNOT
from pyoco_server.config import (
    SECRETS,
    NatsBackendConfig,
    as_written,
    field_names,
    origins,
    variable_of,
    without_credentials,
)
from pyoco_server.errors import ConfigError
from pyoco_server.printable import one_line

COLOURS = {
    FindingLevel.OK: typer.colors.GREEN,
    FindingLevel.WARN: typer.colors.YELLOW,
    FindingLevel.FAIL: typer.colors.RED,
}


def add_to(app: typer.Typer) -> None:
    @app.command(epilog="Example: pyoco-server-admin doctor --json")
    def doctor(
        nats_url: NatsUrlOption = None,
        data_dir: DataDirOption = None,
        json: Annotated[bool, typer.Option("--json", help="One JSON object, with every setting.")] = False,
    ) -> None:
        """Check this machine, its settings and the broker. Exit code 1: something is wrong."""
        findings, used = asyncio.run(_examine(nats_url, data_dir))
        if json:
            _print_json(as_json(findings, used))
        else:
            _print_text(findings, used)
        raise typer.Exit(CANNOT if any(one.level is FindingLevel.FAIL for one in findings) else 0)


async def _examine(
    nats_url: str | None, data_dir: str | None
) -> tuple[list[Finding], list[dict[str, object]]]:
    try:
        flags = {"nats_url": nats_url, "data_dir": data_dir}
        config = settings.config_near_broker(settings.read_settings(**flags))
    except ConfigError as wrong:
        page = "docs/reference/configuration.md"
        return [Finding("configuration", FindingLevel.FAIL, wrong.message, f"See {page}.")], []
    used = _settings(config, {name for name, value in flags.items() if value is not None})
    changed = sum(one["origin"] != "default" for one in used)
    differ = (
        "1 setting differs from its default"
        if changed == 1
        else f"{changed} settings differ from their defaults"
    )
    findings = [Finding("configuration", FindingLevel.OK, differ)]
    findings += here(config)
    findings += [finding async for finding in at_broker(config)]
    return findings, used


def _settings(config: NatsBackendConfig, flags: set[str]) -> list[dict[str, object]]:
    """Every setting: its value without secrets, and its origin."""
    origin_of = origins() | dict.fromkeys(flags, "command line")
    recorded = recorded_broker_url(Path(config.data_dir))
    if origin_of["nats_url"] == "default" and recorded is not None and recorded == config.nats_url:
        origin_of["nats_url"] = "data folder"
    return [
        {
            "name": variable_of(name),
            "value": _value(name, getattr(config, name)),
            "origin": origin_of[name],
        }
        for name in field_names()
    ]


def _value(name: str, value: object) -> str:
    """As it is written in the environment, without secrets and without passwords in addresses."""
    text = as_written(value)
    if name in SECRETS and text:
        return "***"
    return without_credentials(text) if name == "nats_url" else text


def _print_text(findings: list[Finding], used: list[dict[str, object]]) -> None:
    for finding in findings:
        typer.secho(f"{finding.level:<5}", fg=COLOURS[finding.level], nl=False)
        typer.echo(one_line(f"{finding.name}: {finding.what}"))
        if finding.do:
            typer.echo(f"      {finding.do}")
    for one in used:
        if one["origin"] != "default":
            typer.echo(one_line(f"      {one['name']}={one['value']} ({one['origin']})"))


def _print_json(answer: dict[str, object]) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n")
