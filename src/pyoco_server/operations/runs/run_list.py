"""Runs by tag, newest first, in pages that do not shift while runs are added or change."""

from __future__ import annotations

import msgspec

from pyoco_server.cursors import Scope, TokenRefused, seal, unseal
from pyoco_server.errors import Invalid
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.positions import packed, unpacked
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.read_model.tag_table import SubmissionPosition, TagFilter
from pyoco_server.store.store import Store

TOKEN = "runs by tag"


class NotOfThisList(Invalid):
    """The token is of another list, or was not issued by this server."""


async def newest_runs(
    store: Store, read_model: ReadModel, wanted: TagFilter, limit: int, token: str | None
) -> tuple[list[Run], str | None]:
    """A page, and the token of the next one; None after the last page."""
    secret = await store.secrets.for_tokens()
    await read_model.catch_up()
    scope = _scope(wanted)
    found = read_model.runs.begun(wanted, limit + 1, _opened(secret, scope, token))
    runs = found[:limit]
    if len(found) <= limit:
        return runs, None
    return runs, seal(secret, TOKEN, scope, packed(runs[-1].submitted_at, runs[-1].run_id))


def _scope(wanted: TagFilter) -> Scope:
    tags = msgspec.json.encode(sorted(set(wanted.tags))).decode()
    return {"tags": tags, "stage": wanted.stage, "tenant": wanted.tenant}


def _opened(secret: bytes, scope: Scope, token: str | None) -> SubmissionPosition | None:
    if token is None:
        return None
    try:
        return SubmissionPosition(*unpacked(unseal(secret, TOKEN, scope, token)))
    except TokenRefused:
        raise NotOfThisList(
            "This token is not one of this list: pass it on unchanged, with the same filters."
        ) from None
