"""The OpenAPI document, from the declared operations of all faces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import yaml

from pyoco_server.http_api.routing.examples import add_example, load
from pyoco_server.http_api.routing.face import Face
from pyoco_server.http_api.routing.schemas import Schema

OPENAPI_VERSION = "3.1.0"
YAML_TYPE = "application/yaml"
_Dumper: object = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def document(info: Mapping[str, str], faces: Iterable[Face], schemes: Mapping[str, Schema]) -> Schema:
    """`schemes`: the security schemes, by name."""
    paths: dict[str, Schema] = {}
    schemas: dict[str, Schema] = {}
    for face in faces:
        schemas.update(face.schemas)
        examples = load(face.tag)
        for path, method, described in face.describe():
            if example := examples.get(described["operationId"]):
                add_example(described, example)
            paths.setdefault(path, {})[method] = described
    return {
        "openapi": OPENAPI_VERSION,
        "info": dict(info),
        "paths": paths,
        "components": {"schemas": schemas} | ({"securitySchemes": dict(schemes)} if schemes else {}),
    }


def as_yaml(described: Schema) -> bytes:
    # Through JSON: plain types, and no shared objects, for which YAML would write aliases.
    plain = msgspec.json.decode(msgspec.json.encode(described))
    dumped: bytes = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, encoding="utf-8")
    return dumped
