"""Change the catalogue: one entry, or a whole file. Later reads see the change."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from pyoco_server.errors import ConfigError, Invalid, NotFound
from pyoco_server.operations.identity.callers import DEFAULT_TENANT
from pyoco_server.operations.rechecks.context import RecheckContext
from pyoco_server.recheck.catalogue import (
    Catalogue,
    Strategy,
    is_strategy_id,
    parse_catalogue,
    parse_strategy,
)
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 256 * 2**20


class Imported(NamedTuple):
    written: int
    unchanged: int


async def put_entry(context: RecheckContext, tenant: str, strategy_id: str, entry: object) -> Strategy:
    """Replace an entry. Members that are left out get their default, not their former value."""
    profiles = (await context.model.catch_up()).profiles(tenant)
    named = {"id": strategy_id} | entry if isinstance(entry, dict) else entry
    strategy = parse_strategy(named, "strategy", profiles)
    if strategy.id != strategy_id:
        raise Invalid(f"The entry is of {strategy.id!r}, and the address of {strategy_id!r}. Name it once.")
    await context.store.rechecks.put_strategy(tenant, strategy)
    return strategy


async def delete_entry(context: RecheckContext, tenant: str, strategy_id: str) -> None:
    """Delete an entry. Its results stay, and belong to it if it is created again."""
    if (await context.model.catch_up()).find(tenant, strategy_id) is None:
        raise unknown_strategy(strategy_id)
    await context.store.rechecks.delete_strategy(tenant, strategy_id)


async def import_catalogue(store: Store, tenant: str, catalogue: Catalogue) -> Imported:
    """Write the entries that differ from the stored ones. Entries that the file does not name stay."""
    known = await store.rechecks.strategies(tenant)
    changed = [one for one in catalogue.strategies if known.get(one.id) != one]
    profiles = await store.rechecks.profiles(tenant)
    if any(profiles.get(name) != rules for name, rules in catalogue.profiles.items()):
        await store.rechecks.put_profiles(tenant, profiles | catalogue.profiles)
    await store.rechecks.put_strategies(tenant, changed)
    return Imported(len(changed), len(catalogue.strategies) - len(changed))


async def import_at_start(store: Store, catalogue: Catalogue) -> None:
    imported = await import_catalogue(store, DEFAULT_TENANT, catalogue)
    log.info("catalogue imported", extra=imported._asdict())


def catalogue_of_file(path: str) -> Catalogue:
    """Raises ConfigError with the name of the file and the error."""
    try:
        if Path(path).stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX} bytes.")
        return parse_catalogue(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The catalogue {path} cannot be read: {error}.") from error
    except ConfigError:
        raise
    except Invalid as wrong:
        raise ConfigError(f"The catalogue {path} is not valid: {wrong.message}") from wrong


def unknown_strategy(strategy_id: str) -> NotFound:
    name = strategy_id if is_strategy_id(strategy_id) else "of this name"
    return NotFound(f"There is no strategy {name}. List them with GET /gui/strategies.", err_id="")
