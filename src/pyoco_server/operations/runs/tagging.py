"""Add a tag to a run, or remove one: at any time, also after its end, without effect on its execution."""

from __future__ import annotations

from pyoco_server.errors import Invalid
from pyoco_server.lifecycle.commands import AddTag, RemoveTag
from pyoco_server.lifecycle.decide import Reason
from pyoco_server.names import TAGS_MAX, as_tag, check_tag
from pyoco_server.operations.runs.apply import Reading, apply
from pyoco_server.operations.runs.query import get_run, visible
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store


async def add_tag(store: Store, run_id: str, text: str, *, tenant_id: str | None = None) -> StoredRun:
    """The run with the tag. Nothing changes if it has the tag already."""
    return await _change_tags(store, run_id, AddTag(tag=check_tag(text), tags_max=TAGS_MAX), tenant_id)


async def remove_tag(store: Store, run_id: str, text: str, *, tenant_id: str | None = None) -> StoredRun:
    """The run without the tag. Nothing changes if it does not have the tag."""
    return await _change_tags(store, run_id, RemoveTag(tag=as_tag(text)), tenant_id)


async def _change_tags(
    store: Store, run_id: str, command: AddTag | RemoveTag, tenant_id: str | None
) -> StoredRun:
    held = await get_run(store, run_id, tenant_id=tenant_id)
    applied = await apply(store, run_id, command, reading=Reading(held=held))
    if applied.refused is not None and applied.refused.reason is Reason.TOO_MANY_TAGS:
        message = f"A run has at most {TAGS_MAX} tags. Remove one first."
        raise Invalid.at(["tag"], message)
    return visible(applied.after if applied.refused is None else None, run_id, tenant_id)
