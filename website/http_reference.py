"""The pages about the HTTP API, from docs/openapi.json: text that the search of the site finds, offline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from website.pages import DOCS

METHODS = ("get", "post", "put", "patch", "delete")
EXAMPLE_LINES_MAX = 40
# The parts of the API, in the order of the navigation.
PARTS: Mapping[str, str] = {
    "runs": "Runs",
    "batches": "Batches",
    "schedules": "Schedules",
    "jobs": "Jobs",
    "executions": "Executions",
    "operator": "Operators",
    "live": "Live updates",
    "recheck": "Rechecks",
}
INDEX = """\
# HTTP API

Every route, with its parameters and recorded examples, from [openapi.json](../../openapi.json). A running
gateway serves the same description at `/openapi.json`, and a page to try it out at `/docs`.

The commands and clients use the same API: the [command line client](../cli.md), the
[Python clients](../client-reference.md). [Errors](../errors.md) explains refusals.

"""


def http_pages() -> Iterator[tuple[str, str]]:
    """The address of each page, and its text."""
    described = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))
    operations = list(_operations(described))
    index = [INDEX]
    for tag, title in PARTS.items():
        of_part = [one for one in operations if tag in one[2]["tags"]]
        index += [f"## [{title}]({tag}.md)\n", "| route | |\n|---|---|"]
        index += [f"| `{method.upper()} {path}` | {_cell(it['summary'])} |" for path, method, it in of_part]
        index.append("")
        schemas = described["components"]["schemas"]
        sections = [_section(path, method, it, schemas) for path, method, it in of_part]
        yield f"reference/http/{tag}.md", f"# {title}\n\n" + "\n".join(sections)
    yield "reference/http/README.md", "\n".join(index)


def _operations(described: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in described["paths"].items():
        yield from ((path, method, item[method]) for method in METHODS if method in item)


def _section(path: str, method: str, it: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    lines = [f"## `{method.upper()} {path}`\n", f"{it['summary']}.\n"]
    if description := it.get("description"):
        lines.append(f"{_prose(description)}\n")
    if parameters := it.get("parameters"):
        lines += ["| parameter | in | type | meaning |", "|---|---|---|---|"]
        lines += [_parameter(one) for one in parameters]
        lines.append("")
    for media_type, content in it.get("requestBody", {}).get("content", {}).items():
        lines.append(f"**Body** (`{media_type}`)\n")
        lines += _members(content.get("schema", {}), schemas)
        lines += _example(content)
    answers = sorted(it["responses"].items())
    shown = ", ".join(f"`{status}` {_prose(answer['description'])}" for status, answer in answers)
    lines.append(f"**Answers**: {shown}\n")
    for status, answer in answers:
        if status.startswith("2"):
            for content in answer.get("content", {}).values():
                lines += _example(content)
    return "\n".join(lines)


def _parameter(one: Mapping[str, Any]) -> str:
    needed = ", required" if one.get("required") else ""
    cells = (f"`{one['name']}`", one["in"], _kind(one["schema"]) + needed, one.get("description", ""))
    return f"| {' | '.join(map(_cell, cells))} |"


def _members(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[str]:
    """The members of a body as a table; nothing if it is no object with known members."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        schema = schemas[name]
    if not (members := schema.get("properties")):
        return []
    required = schema.get("required", [])
    rows = ["| member | type | meaning |", "|---|---|---|"]
    for name, member in members.items():
        kind = _kind(member) + (", required" if name in required else "")
        rows.append(f"| `{name}` | {_cell(kind)} | {_cell(member.get('description', ''))} |")
    return [*rows, ""]


def _kind(schema: Mapping[str, Any]) -> str:
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    if values := schema.get("enum"):
        return " or ".join(f"`{value}`" for value in values)
    if "const" in schema:
        return f"`{schema['const']}`"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_kind(one) for one in choices)
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    bounds = [f"{words} {schema[key]}" for key, words in _BOUNDS.items() if key in schema]
    default = [f"default `{json.dumps(schema['default'])}`"] if "default" in schema else []
    named = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return ", ".join([named, *bounds, *default])


_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "length at least",
    "maxLength": "length at most",
    "format": "format",
}


def _example(content: Mapping[str, Any]) -> list[str]:
    if "example" not in content:
        return []
    example = content["example"]
    text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    lines = text.splitlines()
    if len(lines) > EXAMPLE_LINES_MAX:
        lines = [*lines[:EXAMPLE_LINES_MAX], "…"]
    return ["```json" if not isinstance(example, str) else "```text", *lines, "```\n"]


def _prose(text: str) -> str:
    """Angle brackets are placeholders here, and not HTML."""
    return text.replace("<", "&lt;").strip()


def _cell(text: str) -> str:
    return _prose(str(text)).replace("|", "\\|").replace("\n", " ")
