"""Write messages of the bucket of rechecks into rows of its tables. Decides nothing."""

from __future__ import annotations

import msgspec

from pyoco_server.read_model.recheck_table import RecheckTable, Row
from pyoco_server.recheck.catalogue import Strategy
from pyoco_server.recheck.records import BatchOutcome, Request, StrategyResult, run_id_of, run_ids_of
from pyoco_server.recheck.thresholds import METRICS, StrategyHealth

# The id of an artifact is the sequence of its outcome, times this, plus its index in the outcome.
ARTIFACT_PLACES = 4096

_encode = msgspec.json.Encoder().encode


def write_strategy(table: RecheckTable, tenant: str, strategy: Strategy) -> None:
    erase_strategy(table, tenant, strategy.id)
    latest = table.row(
        "SELECT health, completed_at FROM results WHERE tenant = ? AND strategy = ? "
        "ORDER BY completed_at DESC LIMIT 1",
        tenant,
        strategy.id,
    )
    health, checked_at = latest or (StrategyHealth.UNKNOWN.value, None)
    table.run(
        "INSERT INTO strategies (tenant, id, title, instrument, enabled, flow, profile, health, checked_at, "
        "entry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        tenant, strategy.id, strategy.title, strategy.instrument, int(strategy.enabled), strategy.flow,
        strategy.threshold_profile, health, checked_at, _encode(strategy),
    )  # fmt: skip
    sid = _sid(table, tenant, strategy.id)
    table.run("INSERT INTO search (rowid, id, title) VALUES (?, ?, ?)", sid, strategy.id, strategy.title)
    table.run_many(
        "INSERT OR IGNORE INTO tags VALUES (?, ?, ?)", ((tenant, tag, sid) for tag in strategy.tags)
    )


def erase_strategy(table: RecheckTable, tenant: str, strategy_id: str) -> None:
    sid = _sid(table, tenant, strategy_id)
    if sid is not None:
        table.run("DELETE FROM tags WHERE sid = ?", sid)
        table.run("DELETE FROM search WHERE rowid = ?", sid)
        table.run("DELETE FROM strategies WHERE sid = ?", sid)


def write_request(table: RecheckTable, request: Request) -> None:
    row = (request.request_id, request.tenant, request.submitted_at, _encode(request))
    table.run("INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)", *row)
    if request.dry_run:
        return
    done = {
        batch
        for (batch,) in table.rows("SELECT batch FROM outcomes WHERE request_id = ?", request.request_id)
    }
    runs = enumerate(run_ids_of(request.request_id, request.batches))
    table.run_many(
        "INSERT OR REPLACE INTO open_batches VALUES (?, ?, ?)",
        ((run_id, request.request_id, batch) for batch, run_id in runs if batch not in done),
    )


def write_outcome(table: RecheckTable, tenant: str, seq: int, outcome: BatchOutcome) -> None:
    """`seq`: of its message, which exists once."""
    table.run("DELETE FROM open_batches WHERE run_id = ?", run_id_of(outcome.request_id, outcome.batch))
    table.run("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *_sums(outcome))
    place = 0
    for result in outcome.results:
        _write_result(table, tenant, outcome, result)
        for artifact in result.artifacts:
            table.run(
                "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                seq * ARTIFACT_PLACES + place, tenant, result.strategy, outcome.request_id,
                outcome.completed_at, artifact.kind, artifact.name, artifact.content_type,
                artifact.bytes_size, artifact.object,
            )  # fmt: skip
            place += 1


def forget_older(table: RecheckTable, than: float) -> None:
    """Delete rows of records that the broker has removed because of their age."""
    table.run("DELETE FROM results WHERE completed_at < ?", than)
    table.run("DELETE FROM artifacts WHERE created_at < ?", than)
    table.run(
        "DELETE FROM outcomes WHERE request_id IN (SELECT request_id FROM requests WHERE submitted_at < ?)",
        than,
    )
    table.run(
        "DELETE FROM open_batches WHERE request_id IN "
        "(SELECT request_id FROM requests WHERE submitted_at < ?)",
        than,
    )
    table.run("DELETE FROM requests WHERE submitted_at < ?", than)


def _write_result(table: RecheckTable, tenant: str, outcome: BatchOutcome, result: StrategyResult) -> None:
    measured = [result.metrics.get(name) for name in METRICS]
    table.run(
        "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        tenant, result.strategy, outcome.completed_at, outcome.request_id, result.health.value, *measured,
        result.digest,
    )  # fmt: skip
    table.run(
        "UPDATE strategies SET health = ?, checked_at = ? WHERE tenant = ? AND id = ? "
        "AND (checked_at IS NULL OR checked_at <= ?)",
        result.health.value, outcome.completed_at, tenant, result.strategy, outcome.completed_at,
    )  # fmt: skip


def _sums(outcome: BatchOutcome) -> Row:
    failed = sum(result.failed for result in outcome.results)
    by_health = [sum(one.health is health for one in outcome.results) for health in StrategyHealth]
    success = len(outcome.results) - failed
    return (outcome.request_id, outcome.batch, outcome.completed_at, success, failed, *by_health)


def _sid(table: RecheckTable, tenant: str, strategy_id: str) -> object:
    row = table.row("SELECT sid FROM strategies WHERE tenant = ? AND id = ?", tenant, strategy_id)
    return row[0] if row else None
