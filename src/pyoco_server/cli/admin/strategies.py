"""`pyoco-server-admin strategy …`: fill a tenant's catalogue from a file, directly at the broker."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from pyoco_server.api_keys import is_tenant_id
from pyoco_server.cli.admin.broker import DataDirOption, NatsUrlOption, ask_broker
from pyoco_server.cli.entry import WrongArguments
from pyoco_server.errors import ConfigError
from pyoco_server.operations.identity.callers import DEFAULT_TENANT
from pyoco_server.operations.rechecks.catalogue import Imported, catalogue_of_file, import_catalogue
from pyoco_server.store.store import Store

EXAMPLE = "pyoco-server-admin strategy import strategies.yaml --tenant demo"

app = typer.Typer(rich_markup_mode=None, epilog=f"Example: {EXAMPLE}")


def add_to(admin: typer.Typer) -> None:
    admin.add_typer(app, name="strategy", help="Fill the catalogue of strategies.")


@app.callback()
def strategy() -> None:
    """Fill the catalogue of strategies."""


@app.command("import", epilog=f"Example: {EXAMPLE}")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="YAML with strategies and threshold_profiles.")],
    tenant: Annotated[str, typer.Option(help="Tenant of the catalogue.")] = DEFAULT_TENANT,
    nats_url: NatsUrlOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Write the entries of the file that are new or different. Other entries of the catalogue stay."""
    if not is_tenant_id(tenant):
        raise WrongArguments("A tenant's name is 1 to 64 letters, digits, '_' or '-'.", hint=EXAMPLE)
    try:
        catalogue = catalogue_of_file(file)
    except ConfigError as wrong:
        raise WrongArguments(wrong.message, hint=EXAMPLE) from wrong

    async def write(store: Store) -> Imported:
        return await import_catalogue(store, tenant, catalogue)

    imported = ask_broker(nats_url, data_dir, write)
    sys.stdout.write(json.dumps({"tenant": tenant} | imported._asdict()) + "\n")
