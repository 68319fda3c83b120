"""Examples in the OpenAPI document: recorded from a real gateway by `make docs`, one file per face.

`tests/api_examples` records them, and compares them with the answers of a gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from pyoco_server.http_api.routing.schemas import Schema
from pyoco_server.json_value import JsonObject

FOLDER = Path(__file__).with_name("recorded_examples")
ANY_KIND = "*/*"


class Example(msgspec.Struct, frozen=True):
    """`params` by name. `body` and each answer by media type; an answer without a body has none."""

    params: JsonObject
    body: JsonObject
    answers: dict[str, JsonObject]


_decode = msgspec.json.Decoder(dict[str, Example]).decode


def load(tag: str) -> Mapping[str, Example]:
    """Examples of a face, by operationId."""
    path = FOLDER / f"{tag}.json"
    return _decode(path.read_bytes()) if path.exists() else {}


def add_example(described: Schema, example: Example) -> None:
    """`described`: an operation of the document."""
    for param in described.get("parameters", ()):
        if param["name"] in example.params:
            sent = example.params[param["name"]]
            # A parameter that may be repeated was sent once.
            is_alone = param["schema"].get("type") == "array" and not isinstance(sent, list)
            param["example"] = [sent] if is_alone else sent
    if "requestBody" in described:
        _add(described["requestBody"], example.body)
    for status, shown in example.answers.items():
        if status in described["responses"]:
            _add(described["responses"][status], shown)


def _add(described: Schema, by_kind: Mapping[str, object]) -> None:
    content = described.get("content", {})
    for kind, shown in by_kind.items():
        if kind in content or ANY_KIND in content:
            content[kind if kind in content else ANY_KIND]["example"] = shown
