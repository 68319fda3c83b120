"""docs/concepts/engine.md keeps its word: its code runs, and every test that it names exists."""

import re
from pathlib import Path
from typing import Any

from pyoco_server.engine import Engine

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "concepts" / "engine.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 25
    assert {name for name in named if f"def {name}(" not in source} == set()


def test_every_difference_names_a_test() -> None:
    table = PAGE.partition("## Every difference")[2]
    rows = [row for row in table.splitlines() if row.startswith("| ") and not row.startswith("| what |")]
    assert [row for row in rows if not re.search(r"`test_\w+` \|$", row)] == []


def test_the_flow_on_the_page_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    assert Engine().run(namespace["flow"], {"path": "x"}).results == {"load": ["x", "x"], "count": 2}
