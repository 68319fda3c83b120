"""What the pages about rechecks and tokens show works: the file, the commands, what a flow returns."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pyoco_server.http_api.faces.recheck.errors import WORDS
from pyoco_server.operations.identity.callers import Scope
from pyoco_server.recheck.catalogue import parse_catalogue
from pyoco_server.recheck.judging import artifacts_in, judge, returned_by_strategy
from pyoco_server.recheck.thresholds import BUILT_IN, StrategyHealth
from tests import issuer
from tests.docs.test_examples import blocks, typed, up

PAGE = "docs/how-to/recheck.md"
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, import_, ask = blocks(PAGE, "sh")
    assert demo == "make demo-recheck\n"
    (catalogue,) = blocks(PAGE, "yaml")
    (tmp_path / "strategies.yaml").write_text(catalogue, encoding="utf-8")
    assert [one.id for one in parse_catalogue(catalogue).strategies] == ["strat.meanrev.m1", "strat.carry.h4"]
    monkeypatch.setenv("PYOCO_STRATEGIES_FILE", str(tmp_path / "strategies.yaml"))
    with up(tmp_path) as port:
        imported = typed(f"{import_.strip()} --data-dir data", port, tmp_path)
        assert json.loads(imported.stdout) == {"tenant": "demo", "written": 2, "unchanged": 0}
        first, again = (json.loads(typed(ask, port, tmp_path).stdout) for _ in range(2))
        assert first == again
        assert first["estimated"] == {"strategies": 1, "batches": 1}


def test_what_a_flow_returns_on_the_page_is_healthy() -> None:
    (returned,) = blocks(PAGE, "json")
    of_one = returned_by_strategy(json.loads(returned), ["strat.meanrev.m1"])["strat.meanrev.m1"]
    assert judge("strat.meanrev.m1", of_one, BUILT_IN).health is StrategyHealth.HEALTHY
    assert [one.content for one in artifacts_in(of_one)] == [b"<svg/>"]


def test_every_error_and_scope_stands_on_the_page() -> None:
    page = (ROOT / PAGE).read_text()
    assert [word for word in WORDS if f"| `{word}` |" not in page] == []
    scopes = [scope for scope in Scope if scope.startswith("pdca:")]
    assert [scope for scope in scopes if f"`{scope}`" not in page] == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_tokens_open_a_server_that_asks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (start,) = blocks("docs/operations/jwt.md", "sh")
    mode, jwks, *_ = start.split()
    issuer.write_jwks(tmp_path / "jwks.json", "k1")
    monkeypatch.setenv(*mode.split("="))
    monkeypatch.setenv(jwks.partition("=")[0], os.fspath(tmp_path / "jwks.json"))
    with up(tmp_path) as port:
        token = issuer.token(aud="pyoco-server", scope="runs:read")
        ask = "curl -s -o answer -w '%{http_code}' localhost:8000/runs"
        assert typed(ask, port, tmp_path).stdout == "401"
        assert typed(f"{ask} -H 'Authorization: Bearer {token}'", port, tmp_path).stdout == "200"
