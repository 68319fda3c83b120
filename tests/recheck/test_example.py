"""The example: thirty strategies, numbers that follow from a seed, and a demonstration that ends."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from examples.recheck import flows

from pyoco_server.config import NatsBackendConfig, as_written, default_of, field_names, variable_of
from pyoco_server.operations.rechecks.catalogue import catalogue_of_file
from pyoco_server.store.store import Store
from tests.cli.programs import Programs, clean_environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "recheck"


def test_the_catalogue_has_thirty_strategies_that_the_flow_can_evaluate() -> None:
    catalogue = catalogue_of_file(str(EXAMPLE / "strategies.yaml"))
    assert len(catalogue.strategies) == 30
    assert sum(one.enabled for one in catalogue.strategies) == 28
    for one in catalogue.strategies:
        metrics = flows.evaluated(one.id, 180)["metrics"]
        assert 0 <= metrics["winrate"] <= 1
        assert 0 <= metrics["max_dd"] < 1
        assert metrics == flows.evaluated(one.id, 180)["metrics"]


def test_the_numbers_are_what_their_names_say() -> None:
    returns = [0.10, -0.05, 0.0, 0.02]
    equity = flows.equity_of(returns)
    assert equity[-1] == pytest.approx(1.1 * 0.95 * 1.02)
    assert flows.winrate(returns) == pytest.approx(2 / 3)
    assert flows.max_drawdown(equity) == pytest.approx(0.05)
    assert flows.max_drawdown([1.0, 0.5, 2.0, 1.5]) == pytest.approx(0.5)
    assert flows.sharpe([0.01, 0.03]) == pytest.approx(2.0 * 252**0.5)
    assert flows.sharpe([0.01, 0.01]) is None
    assert flows.winrate([0.0]) is None


@pytest.mark.heavy
async def test_the_demonstration_runs_to_its_end() -> None:
    demo = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE / "demo.py"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, errors = (text.decode() for text in await asyncio.wait_for(demo.communicate(), 150))
    assert demo.returncode == 0, said + errors
    assert "{'strategies': 28, 'batches': 3}" in said
    assert "success: {'success': 28, 'failed': 0," in said
    assert "56 artifacts" in said
    assert said.rstrip().endswith("30 strategies")


def programs_on(config: NatsBackendConfig, folder: Path) -> Programs:
    changed = {name for name in field_names() if getattr(config, name) != default_of(name)}
    settings = {variable_of(name): as_written(getattr(config, name)) for name in changed}
    return Programs(folder, clean_environment(**settings))


async def test_a_catalogue_is_imported_for_any_tenant(
    config: NatsBackendConfig, store: Store, tmp_path: Path
) -> None:
    programs = programs_on(config, tmp_path)
    command = ("pyoco-server-admin", "strategy", "import", EXAMPLE / "strategies.yaml", "--tenant", "acme")
    for written, unchanged in ((30, 0), (0, 30)):
        done = programs.run(*command)
        assert done.ended() == 0, done.errors
        assert json.loads(done.output) == {"tenant": "acme", "written": written, "unchanged": unchanged}
    assert len(await store.rechecks.strategies("acme")) == 30
    assert list(await store.rechecks.profiles("acme")) == ["gold"]
    assert await store.rechecks.strategies("default") == {}
    (tmp_path / "wrong.yaml").write_text("strategies: [{id: X}]", encoding="utf-8")
    for arguments, sentence in (
        (("wrong.yaml",), "strategies.0.id must match"),
        (("missing.yaml",), "cannot be read"),
        ((EXAMPLE / "strategies.yaml", "--tenant", "a.b"), "A tenant's name"),
    ):
        refused = programs.run("pyoco-server-admin", "strategy", "import", *arguments)
        assert refused.ended() == 1
        assert sentence in refused.errors
