"""Streams with several copies: refusals are confirmed, and what was right with one copy stays right."""

from __future__ import annotations

import pytest

from pyoco_server.errors import NotFound
from pyoco_server.http_api.faces.executions.chronicle import Chronicle
from pyoco_server.lifecycle.commands import AddTag
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.operations.apply import apply
from pyoco_server.operations.cancel import cancel_run
from pyoco_server.operations.erase import erase_run
from pyoco_server.operations.histories import Histories
from pyoco_server.store.read_model import ReadModel
from pyoco_server.store.store import Store
from tests.faults.copies import with_copies
from tests.worker.stage import submitted


async def test_an_erased_run_is_said_to_be_gone_and_not_to_be_busy(store: Store) -> None:
    """What is left of it in the log is the mark of its erasure: that is no later commit to wait for."""
    with_copies(store)
    run_id = await _erased(store)
    applied = await apply(store, run_id, AddTag(tag="late", tags_max=10))
    assert applied.refused is not None
    assert applied.refused.reason is Reason.UNKNOWN


async def test_the_history_of_an_erased_run_is_not_found(store: Store) -> None:
    with_copies(store)
    run_id = await _erased(store)
    model = ReadModel(store.client, store.jetstream, store.config)
    with pytest.raises(NotFound):
        await Histories(store, model, Chronicle).read(run_id)


async def _erased(store: Store) -> str:
    run_id = await submitted(store)
    await cancel_run(store, run_id)
    await erase_run(store, run_id, by=None, tenant_id=None)
    return run_id
