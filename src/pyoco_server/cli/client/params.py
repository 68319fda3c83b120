"""Parameters of a run from the command line: a file, a JSON object, single values; the later ones win."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import NoReturn

from pyoco_server.cli.entry import WrongArguments

Params = dict[str, object]

FILE_EXAMPLE = "--params-file params.json"
OBJECT_EXAMPLE = """--params '{"name": "you"}'"""
PAIR_EXAMPLE = "--param name=you"


def merged_params(file: Path | None, text: str | None, pairs: list[str] | None) -> Params:
    from_file = _from_file(file) if file is not None else {}
    from_text = _from_text(text) if text is not None else {}
    return from_file | from_text | dict(_pair(one) for one in pairs or [])


def _from_file(path: Path) -> Params:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongArguments(f"--params-file {path} cannot be read: {error}", hint=FILE_EXAMPLE) from error
    try:
        return _object(_json(content), f"--params-file {path}", FILE_EXAMPLE)
    except ValueError:
        return _object(_yaml(content, path), f"--params-file {path}", FILE_EXAMPLE)


def _from_text(text: str) -> Params:
    try:
        return _object(_json(text), "--params", OBJECT_EXAMPLE)
    except ValueError as error:
        raise WrongArguments(f"--params is not JSON: {error}.", hint=OBJECT_EXAMPLE) from error


def _pair(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise WrongArguments(f"--param {text!r} is not name=value.", hint=PAIR_EXAMPLE)
    try:
        return name.strip(), _json(value)
    except ValueError:
        return name.strip(), value


def _object(value: object, where: str, example: str) -> Params:
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return value
    raise WrongArguments(f"{where} must be an object with names and values.", hint=example)


def _json(text: str) -> object:
    return json.loads(text, parse_constant=refuse_constant)


def refuse_constant(name: str) -> NoReturn:
    """Python's JSON accepts NaN and Infinity; the standard does not."""
    raise ValueError(f"{name} is not JSON")


def _yaml(text: str, path: Path) -> object:
    yaml = importlib.import_module("yaml")  # it has no type hints

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        message = f"--params-file {path} is neither JSON nor YAML{_problem_of(error)}"
        raise WrongArguments(message, hint=FILE_EXAMPLE) from error


def _problem_of(error: object) -> str:
    """In one line; the error of the library shows the file again, in seven."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return f": {error}"
    return f" (line {mark.line + 1}, column {mark.column + 1}: {problem})."
