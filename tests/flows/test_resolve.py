"""A resolver is found by module or by file, and every refusal says what to change."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.flows import ResolverError, load_resolver

SOURCE = """
from pyoco import Flow
from {helper} import NAME

not_a_function = 3
a_flow = Flow("ready made")

def resolve(flow_name):
    return Flow(f"{{NAME}} {{flow_name}}")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An author's folder in which we stand; what was imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    (tmp_path / "author_helper.py").write_text("NAME = 'helped'\n")
    (tmp_path / "author_flows.py").write_text(SOURCE.format(helper="author_helper"))
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


@pytest.mark.parametrize(
    "spec", ["author_flows:resolve", "author_flows.py:resolve", "./author_flows.py:resolve"]
)
def test_module_and_file_lead_to_the_same_function(spec: str) -> None:
    assert load_resolver(spec)("x").name == "helped x"


def test_a_file_elsewhere_finds_the_modules_next_to_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert load_resolver(f"{folder}/author_flows.py:resolve")("x").name == "helped x"


def test_a_file_named_like_a_module_in_use_does_not_replace_it(folder: Path) -> None:
    (folder / "json.py").write_text(SOURCE.format(helper="author_helper"))
    before = sys.modules["json"]
    assert load_resolver("json.py:resolve")("x").name == "helped x"
    assert sys.modules["json"] is before


def test_a_changed_file_is_read_again(folder: Path) -> None:
    load_resolver("author_flows.py:resolve")
    (folder / "author_flows.py").write_text("def resolve(name):\n    return 'changed, and longer'\n")
    assert str(load_resolver("author_flows.py:resolve")("x")) == "changed, and longer"


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        ("author_flows", "write module:function"),
        ("author_flows:", "write module:function"),
        (":resolve", "write module:function"),
        ("", "write module:function"),
        ("no_such_module:resolve", "no module 'no_such_module'"),
        ("author_flows.deeper:resolve", "author_flows"),
        ("no/such/file.py:resolve", "check the path"),
        ("author_flows:missing", "has no 'missing'"),
        ("author_flows.py:missing", "has no 'missing'"),
        ("author_flows:not_a_function", "is a int, not a function"),
        ("author_flows:a_flow", "is a Flow; name a function"),
    ],
)
def test_a_refusal_says_what_to_change(spec: str, advice: str) -> None:
    with pytest.raises(ResolverError) as refused:
        load_resolver(spec)
    assert advice in str(refused.value)


@pytest.mark.parametrize("spec", ["broken:resolve", "broken.py:resolve"])
def test_a_module_that_cannot_be_imported_is_told_from_one_that_is_missing(folder: Path, spec: str) -> None:
    (folder / "broken.py").write_text("import a_library_nobody_has\n")
    with pytest.raises(ResolverError, match="a_library_nobody_has"):
        load_resolver(spec)
    (folder / "broken.py").write_text("1 / 0  # of another length than before, as bytecode is told by\n")
    with pytest.raises(ResolverError, match="ZeroDivisionError"):
        load_resolver(spec)
    assert "broken" not in sys.modules
