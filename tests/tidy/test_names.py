"""Names: one public class name stands for one thing in the whole product."""

import ast
from collections import defaultdict

from tests.tidy.repository import PACKAGE, expect_none, named, parsed, python_files


def test_no_public_class_name_is_used_twice() -> None:
    places = defaultdict(list)
    for path in python_files(PACKAGE):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(named(path))
    expect_none(f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1)
