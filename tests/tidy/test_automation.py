"""The files of the automation are valid and call what a developer calls."""

from pathlib import Path
from typing import Any

import yaml

from tests.tidy.repository import ROOT

WORKFLOW = ROOT / ".github/workflows/ci.yml"
HOOKS = ROOT / ".pre-commit-config.yaml"


def test_ci_runs_our_own_command_on_every_version_of_python() -> None:
    workflow = _parsed(WORKFLOW)
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    [command] = [step for step in job["steps"] if "run" in step]
    assert command["run"] == ".ci/run"
    assert command["env"] == {"PYTHON": "python${{ matrix.python }}"}
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_ci_runs_on_pushes_and_pull_requests_and_needs_no_secret() -> None:
    workflow = _parsed(WORKFLOW)
    # YAML 1.1 reads the key `on` as true.
    assert set(workflow[True]) == {"push", "pull_request"}
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in WORKFLOW.read_text(encoding="utf-8")


def test_actions_are_pinned_to_a_major_version_and_what_they_cache_exists() -> None:
    steps = [step for step in _parsed(WORKFLOW)["jobs"]["test"]["steps"] if "uses" in step]
    versions = [step["uses"].partition("@")[2] for step in steps]
    assert [version for version in versions if not version.removeprefix("v").isdigit()] == []
    cached = [step["with"]["cache-dependency-path"] for step in steps if "cache" in step["with"]]
    assert cached
    assert [name for name in cached if not (ROOT / name).is_file()] == []


def test_hooks_are_local_and_use_the_tools_of_the_environment() -> None:
    repositories = _parsed(HOOKS)["repos"]
    assert [one["repo"] for one in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["ruff-check", "ruff-format", "mypy"]
    assert all(hook["language"] == "system" for hook in hooks)
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)


def _parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
