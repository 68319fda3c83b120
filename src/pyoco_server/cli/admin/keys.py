"""`pyoco-server-admin api-key …`: create, list, change, revoke and rotate API keys. Answers are JSON lines.

A key is printed once, by the command that creates it. Neither it nor its secret is written anywhere else.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from pyoco_server.api_keys import ApiKeyRecord
from pyoco_server.cli.admin.broker import DataDirOption, NatsUrlOption, ask_broker
from pyoco_server.cli.entry import CliRefusal, WrongArguments, print_refusal
from pyoco_server.errors import ConfigError, Conflict, Invalid, NotFound
from pyoco_server.operations.identity import api_keys
from pyoco_server.operations.identity.callers import BY_NAME, Scope
from pyoco_server.store.store import Store

CREATE_EXAMPLE = "pyoco-server-admin api-key create --tenant demo"
LIST_EXAMPLE = "pyoco-server-admin api-key list"
SCOPES_EXAMPLE = "pyoco-server-admin api-key scopes --key-id KEY_ID --scope admin"
REVOKE_EXAMPLE = "pyoco-server-admin api-key revoke --key-id KEY_ID"
ROTATE_EXAMPLE = "pyoco-server-admin api-key rotate --key-id KEY_ID --grace 24h"
NOT_FOUND = 2

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd]?)")

T = TypeVar("T")

app = typer.Typer(rich_markup_mode=None, epilog=f"Example: {CREATE_EXAMPLE}")

KeyIdOption = Annotated[str, typer.Option("--key-id", help="The key's id, as `list` shows it.")]


def add_to(admin: typer.Typer) -> None:
    admin.add_typer(app, name="api-key", help="Create, list, change, revoke and rotate API keys.")


@app.command(epilog=f"Example: {CREATE_EXAMPLE}")
def create(
    tenant: Annotated[str, typer.Option(help="Tenant of the key. A caller sees runs of its tenant only.")],
    name: Annotated[str | None, typer.Option(help="A description for people.")] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help=f"What it may do; repeatable: {', '.join(Scope)}. "
            f"[default: all within its tenant, without {', '.join(sorted(BY_NAME))}]"
        ),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(help="How long it is valid: 12h, 30d. [default: without limit]")
    ] = None,
    nats_url: NatsUrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Create a key. This command prints it once: store it."""
    expires_in_sec = None if expires_in is None else _seconds("--expires-in", expires_in)

    async def create_key(store: Store) -> tuple[str, ApiKeyRecord]:
        return await api_keys.create_key(
            store, tenant, name=name, scopes=scope, expires_in_sec=expires_in_sec
        )

    api_key, record = _ask(nats_url, data_dir, create_key)
    _say(_named(record) | {"api_key": api_key, "created_at": record.created_at} | _ours(record))


@app.command("list", epilog=f"Example: {LIST_EXAMPLE}")
def list_(nats_url: NatsUrlOption = None, data_dir: DataDirOption = None) -> None:
    """Print all keys as one JSON array, the latest first, without their secrets."""
    records = _ask(nats_url, data_dir, api_keys.list_keys)
    _say([_named(one) | {"created_at": one.created_at, "revoked_at": one.revoked_at} | _ours(one)
          for one in records])  # fmt: skip


@app.command(epilog=f"Example: {SCOPES_EXAMPLE}")
def scopes(
    key_id: KeyIdOption,
    scope: Annotated[list[str], typer.Option(help=f"What it may do; repeatable: {', '.join(Scope)}.")],
    nats_url: NatsUrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Change the scopes of a key; its secret stays. Takes effect on every gateway at once."""
    record = _ask(nats_url, data_dir, lambda store: api_keys.set_scopes(store, key_id, scope), key_id)
    _say(_named(record) | {"created_at": record.created_at} | _ours(record))


@app.command(epilog=f"Example: {REVOKE_EXAMPLE}")
def revoke(key_id: KeyIdOption, nats_url: NatsUrlOption = None, data_dir: DataDirOption = None) -> None:
    """Revoke a key for good, on every gateway."""
    record = _ask(nats_url, data_dir, lambda store: api_keys.revoke_key(store, key_id), key_id)
    _say({"key_id": record.key_id, "revoked_at": record.revoked_at})


@app.command(epilog=f"Example: {ROTATE_EXAMPLE}")
def rotate(
    key_id: KeyIdOption,
    grace: Annotated[str, typer.Option(help="How long the old secret stays valid: 0, 90m, 7d.")] = "24h",
    nats_url: NatsUrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Give a key a new secret; the old one stays valid for the grace period."""
    grace_sec = _seconds("--grace", grace)
    api_key, record = _ask(
        nats_url, data_dir, lambda store: api_keys.rotate_key(store, key_id, grace_sec=grace_sec), key_id
    )
    _say(_named(record) | {"api_key": api_key, "created_at": record.created_at} | _ours(record))


def _ask(
    nats_url: str | None, data_dir: str | None, ask: Callable[[Store], Awaitable[T]], key_id: str = ""
) -> T:
    try:
        return ask_broker(nats_url, data_dir, ask)
    except ConfigError:
        raise  # its message says what to change
    except Invalid as wrong:
        raise WrongArguments(wrong.message, hint=CREATE_EXAMPLE) from wrong
    except Conflict as refused:
        raise CliRefusal(refused.message, hint=CREATE_EXAMPLE) from refused
    except NotFound as missing:
        # Scripts depend on this answer and this exit code; the sentence is for people.
        _say({"error": "not_found", "key_id": key_id})
        print_refusal(CliRefusal(missing.message, hint=LIST_EXAMPLE))
        raise typer.Exit(NOT_FOUND) from missing


def _named(record: ApiKeyRecord) -> dict[str, object]:
    return {"key_id": record.key_id, "tenant_id": record.tenant_id}


def _ours(record: ApiKeyRecord) -> dict[str, object]:
    """Members of this server, after those of upstream. They are always present."""
    previous = record.previous.valid_until if record.previous else None
    return {
        "name": record.name,
        "scopes": None if record.scopes is None else list(record.scopes),
        "expires_at": record.expires_at,
        "previous_secret_until": previous,
    }


def _seconds(option: str, text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise WrongArguments(f"{option} {text!r} is no duration.", hint=f"{option} 30d")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer, ensure_ascii=True) + "\n")
