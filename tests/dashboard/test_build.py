"""The dashboard is part of what is built, wheel and editable install alike; missing Node is not fatal."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from pyoco_server.http_api.pages import BUILT
from tests.dashboard.browser import ROOT

SOURCES = ROOT / "dashboard"
LINES_MAX = 400
SCRIPT_BYTES_MAX = 260_000


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The hook's own module."""
    spec = importlib.util.spec_from_file_location("dashboard_build", SOURCES / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="the dashboard is not built: make dashboard")
def test_a_wheel_has_what_was_built(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "pyoco_server/http_api/dashboard/index.html" in names
    assert "pyoco_server/http_api/dashboard/docs.html" in names
    assert sum(name.startswith("pyoco_server/http_api/dashboard/static/") for name in names) > 5
    assert not [name for name in names if "node_modules" in name or name.endswith((".ts", ".tsx"))]


@pytest.mark.skipif(not (BUILT / ".built").is_file(), reason="the dashboard is not built: make dashboard")
def test_nothing_is_built_again_while_nothing_changed(build: ModuleType) -> None:
    before = (BUILT / "index.html").stat().st_mtime_ns
    assert build.build() is False
    assert (BUILT / "index.html").stat().st_mtime_ns == before


@pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="the dashboard is not built: make dashboard")
def test_the_scripts_are_small() -> None:
    """All scripts of the dashboard, as a server compresses them. The API reference is another page."""
    scripts = [path for path in (BUILT / "static").glob("*.js") if not path.name.startswith("docs-")]
    sizes = {path.name: len(gzip.compress(path.read_bytes(), compresslevel=9)) for path in scripts}
    assert 0 < sum(sizes.values()) <= SCRIPT_BYTES_MAX, sizes


@pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="the dashboard is not built: make dashboard")
def test_the_first_page_does_not_load_what_draws_graphs() -> None:
    loaded = re.findall(r"static/([\w-]+\.js)", (BUILT / "index.html").read_text(encoding="utf-8"))
    assert loaded
    for name in loaded:
        assert "react-flow__node" not in (BUILT / "static" / name).read_text(encoding="utf-8"), name


def test_without_node_it_says_what_to_do(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "STAMP", tmp_path / "nothing")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(build.NotBuilt, match="Node 20 or newer"):
        build.build()


def test_a_build_that_fails_does_not_fail_the_package(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "STAMP", tmp_path / "nothing")
    monkeypatch.setattr(build, "_npm", lambda: "false")
    said: list[str] = []

    class App:
        display_warning = staticmethod(said.append)

    hook = build.DashboardHook.__new__(build.DashboardHook)
    monkeypatch.setattr(build.DashboardHook, "app", App, raising=False)
    hook.initialize("editable", {})
    assert len(said) == 1
    assert "not part of this build" in said[0]


def test_the_lock_names_no_place_to_load_from() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in lock["packages"].items() if name)


def test_the_source_is_written_as_ours_is() -> None:
    """Small files that open with what they own, and names that say something."""
    empty_names = {"utils", "util", "helpers", "common", "base", "manager", "service"}
    files = [
        path
        for path in SOURCES.rglob("*.ts*")
        if "node_modules" not in path.parts and path.name != "schema.d.ts" and path.suffix in {".ts", ".tsx"}
    ]
    assert len(files) > 40
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= LINES_MAX, path
        assert not empty_names & {path.stem, *path.relative_to(SOURCES).parts[:-1]}, path
        assert text.startswith("//") or path.parent.name == "test", f"{path} does not say what it owns"
        assert not re.search(r"dangerouslySetInnerHTML|innerHTML|\beval\(", text), path
