"""Read strategies, results, requests and artifacts, from the index after it has caught up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from pyoco_server import clock
from pyoco_server.cursors import TokenRefused, seal, unseal
from pyoco_server.errors import Forbidden, NotFound, Unavailable
from pyoco_server.operations.rechecks.catalogue import unknown_strategy
from pyoco_server.operations.rechecks.context import RecheckContext
from pyoco_server.read_model.recheck_queries import KeptArtifact, ListedStrategy, PastResult
from pyoco_server.read_model.recheck_table import StrategySearch
from pyoco_server.recheck.records import Request, RequestStatus, Tally, status_of

SIGNED_FOR_SEC = 300
ARTIFACTS_SHOWN_MAX = 200
DAY_SEC = 86_400.0

_SIGNED = "artifact"


class RequestProgress(NamedTuple):
    request: Request
    status: RequestStatus
    tally: Tally
    artifacts: list[KeptArtifact]


class Detail(NamedTuple):
    listed: ListedStrategy
    averages: dict[str, float | None]
    results: list[PastResult]
    artifacts: list[KeptArtifact]


async def page(
    context: RecheckContext, search: StrategySearch, order: str, limit: int, offset: int
) -> tuple[list[ListedStrategy], int]:
    return (await context.model.catch_up()).page(search, order, limit, offset)


async def detail(
    context: RecheckContext, tenant: str, strategy_id: str, *, window_days: int, limit: int
) -> Detail:
    reading = await context.model.catch_up()
    listed = reading.find(tenant, strategy_id)
    if listed is None:
        raise unknown_strategy(strategy_id)
    since = clock.now() - window_days * DAY_SEC
    return Detail(
        listed=listed,
        averages=reading.averages(tenant, strategy_id, since),
        results=reading.results(tenant, strategy_id, limit),
        artifacts=reading.artifacts_of(tenant, strategy_id, ARTIFACTS_SHOWN_MAX),
    )


async def results(
    context: RecheckContext, tenant: str, strategy_id: str, *, begin: float, end: float, limit: int
) -> list[PastResult]:
    reading = await context.model.catch_up()
    if reading.find(tenant, strategy_id) is None:
        raise unknown_strategy(strategy_id)
    return reading.results(tenant, strategy_id, limit, begin, end)


async def progress(context: RecheckContext, tenant: str, request_id: str) -> RequestProgress:
    reading = await context.model.catch_up()
    request = reading.request(request_id, tenant)
    if request is None:
        # On a cluster the index may have read from a broker that was cut off from the others.
        if context.store.has_copies and await context.store.rechecks.request(tenant, request_id) is not None:
            raise Unavailable("This request is stored, and not in the list yet. Try again.")
        raise NotFound("There is no such request. Check the id.", err_id="")
    tally = reading.tally(request_id)
    shown = reading.artifacts_in(request_id, ARTIFACTS_SHOWN_MAX)
    return RequestProgress(request, status_of(request, tally), tally, shown)


async def sign_artifact(context: RecheckContext, tenant: str, artifact_id: int) -> tuple[KeptArtifact, str]:
    """The artifact, and a token that opens it for `SIGNED_FOR_SEC` without other credentials."""
    artifact = (await context.model.catch_up()).artifact(artifact_id, tenant)
    if artifact is None:
        raise _no_artifact()
    secret = await context.store.secrets.for_tokens()
    expires_at = int(clock.now()) + SIGNED_FOR_SEC
    return artifact, seal(secret, _SIGNED, {"tenant": tenant}, [artifact_id, expires_at])


async def check_signature(context: RecheckContext, tenant: str, artifact_id: int, token: str) -> None:
    try:
        opened = unseal(await context.store.secrets.for_tokens(), _SIGNED, {"tenant": tenant}, token)
    except TokenRefused:
        opened = []
    if len(opened) != 2 or opened[0] != artifact_id:
        raise Forbidden("This address was not signed by us. Ask for a new one.", err_id="")
    if clock.now() >= opened[1]:
        raise Forbidden("This address has expired. Ask for a new one.", err_id="")


async def open_artifact(
    context: RecheckContext, tenant: str, artifact_id: int
) -> tuple[KeptArtifact, AsyncIterator[bytes]]:
    artifact = (await context.model.catch_up()).artifact(artifact_id, tenant)
    if artifact is None or await context.store.artifacts.info(artifact.object) is None:
        raise _no_artifact()
    return artifact, context.store.artifacts.stream(artifact.object)


def _no_artifact() -> NotFound:
    return NotFound("There is no such artifact. Check its number.", err_id="")
