"""The commands of the how-to guides, in their order, against a real `up`; examples/ has tests of its own."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml

from tests.conftest import until
from tests.docs.test_examples import ROOT, blocks, typed, up

GUIDES = "docs/how-to"
SNIPPET = re.compile(r'^ *--8<-- "([^":]+)(?::(\w+))?"$', re.MULTILINE)


def test_a_secret_of_the_worker_reaches_the_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = f"{GUIDES}/secrets.md"
    [flow] = blocks(page, "python")
    (tmp_path / "sync_flows.py").write_text(flow)
    start, submit = blocks(page, "sh")[0].splitlines()
    setting, _, _, *options = start.split()
    monkeypatch.setenv(*setting.split("="))
    with up(tmp_path, *options) as port:
        run_id = json.loads(typed(submit, port, tmp_path).stdout)["run_id"]
        result = typed(f"pyoco-client result {run_id}", port, tmp_path).stdout
    assert json.loads(result) == "synchronised with a token of 14 characters"


async def test_a_wheel_with_flows_is_deployed_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = f"{GUIDES}/deploy-flows.md"
    for block in (*blocks(page, "toml"), *blocks(page, "python")):
        (tmp_path / block.splitlines()[0].removeprefix("# ")).write_text(block)
    start, build, upload, submit = blocks(page, "sh")[0].splitlines()
    setting, _, _, *options = start.split()
    monkeypatch.setenv(*setting.split("="))
    # The test has hatchling already: it builds without fetching it.
    build = build.replace("python -m pip wheel", f"{sys.executable} -m pip wheel --no-build-isolation")

    def is_result(port: int, wanted: str) -> bool:
        ended = typed(submit, port, tmp_path)
        if ended.returncode:
            return False
        run_id = json.loads(ended.stdout)["run_id"]
        return bool(json.loads(typed(f"pyoco-client result {run_id}", port, tmp_path).stdout) == wanted)

    with up(tmp_path, *options) as port:
        for version in ("1.0", "1.1"):
            for name in ("pyproject.toml", "shop_flows.py"):
                text = (tmp_path / name).read_text()
                (tmp_path / name).write_text(text.replace("1.0", version))
            for line in (build, upload.replace("1.0", version)):
                done = typed(line, port, tmp_path)
                assert done.returncode == 0, done.stderr
            await until(partial(is_result, port, f"report of version {version}"), within_sec=60)
        again = typed(upload, port, tmp_path)
        assert (again.returncode, "ERR-PYOCO-0022" in again.stderr) == (1, True)


def test_the_batch_of_the_page_is_submitted(tmp_path: Path) -> None:
    [commands] = blocks(f"{GUIDES}/batches.md", "sh")
    with up(tmp_path) as port:
        for line in commands.splitlines():
            done = typed(line, port, tmp_path)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
        [batch] = json.loads(done.stdout)
    assert (batch["accepted"], batch["refused"]) == (2, 0)


def test_the_key_of_a_pipeline_can_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_HTTP_AUTH_MODE", "api_key")
    create = blocks(f"{GUIDES}/deploy-flows.md", "sh")[1].strip()
    with up(tmp_path, "--no-worker") as port:
        made = json.loads(typed(f"{create} --data-dir data", port, tmp_path).stdout)
    assert made["scopes"] == ["wheels:write"]


def test_every_day_of_the_loop_is_submitted(tmp_path: Path) -> None:
    page = f"{GUIDES}/nightly-etl.md"
    [loop] = blocks(page, "sh")
    with up(tmp_path, "--no-worker") as port:
        assert typed(loop, port, tmp_path).returncode == 0
        runs = httpx.get(f"http://127.0.0.1:{port}/runs?flow=nightly").json()
    assert len(runs) == 3


def test_the_commands_of_an_upgrade_and_of_a_failed_run_work(tmp_path: Path) -> None:
    doctor, drain, check = (block.strip() for block in blocks(f"{GUIDES}/upgrading.md", "sh"))
    [submit] = (block.strip() for block in blocks(f"{GUIDES}/alerts.md", "sh"))
    with up(tmp_path, "--worker-id", "w1") as port:
        assert "the run failed" in typed(submit, port, tmp_path).stdout
        first, verify = check.splitlines()
        assert first == doctor
        for line in (f"{doctor} --data-dir data", f"{verify} --data-dir data"):
            done = typed(line, port, tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr
        drained = typed(drain.replace("<worker_id>", "w1"), port, tmp_path)
        assert drained.returncode == 0, drained.stderr


def test_the_rules_for_alerts_name_metrics_that_exist(tmp_path: Path) -> None:
    rules, receivers = (yaml.safe_load(block) for block in blocks(f"{GUIDES}/alerts.md", "yaml"))
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    used = set(re.findall(r"\bpyoco_\w+", " ".join(expressions)))
    known = set(re.findall(r"`(pyoco_\w+)", (ROOT / "docs/reference/metrics.md").read_text()))
    assert used <= known
    assert receivers["route"]["receiver"] in {one["name"] for one in receivers["receivers"]}


def test_what_the_guides_include_exists() -> None:
    included = [found for path in (ROOT / GUIDES).glob("*.md") for found in SNIPPET.findall(path.read_text())]
    assert len(included) >= 5
    for name, section in included:
        text = (ROOT / name).read_text()
        assert not section or f"[start:{section}]" in text
