"""The whole tour, and its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pyoco_server.http_api.routing.examples import FOLDER
from tests.api_examples import scenes
from tests.api_examples.tour import Examples, touring
from tests.conftest import NatsServer

TOUR = (
    scenes.show_runs,
    scenes.show_batches,
    scenes.show_schedules,
    scenes.show_executions,
    scenes.show_jobs,
    scenes.show_rechecks,
    scenes.show_operator,
)


async def record(server: NatsServer, folder: Path) -> dict[str, Examples]:
    """Examples by operation, by the tag of its face."""
    async with touring(server, folder) as (tour, limited):
        for show in TOUR:
            await show(tour)
        await tour.finish(limited)
        described = tour.described.operations
        found: dict[str, Examples] = {}
        for name, (_, _, operation) in described.items():
            if name in tour.examples:
                found.setdefault(operation["tags"][0], {})[name] = tour.examples[name]
        return found


def write(examples: dict[str, Examples]) -> Iterator[Path]:
    for tag, operations in examples.items():
        path = FOLDER / f"{tag}.json"
        path.write_text(written(operations), encoding="utf-8")
        yield path


def written(operations: Examples) -> str:
    """One line for each request and each answer."""

    def line(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    blocks = []
    for name, shown in operations.items():
        by_status = sorted(shown["answers"].items())
        answers = ",\n".join(f"   {line(status)}: {line(answer)}" for status, answer in by_status)
        sent = f'  "params": {line(shown["params"])},\n  "body": {line(shown["body"])},\n'
        blocks.append(f' {line(name)}: {{\n{sent}  "answers": {{\n{answers}\n  }}\n }}')
    return "{\n" + ",\n".join(blocks) + "\n}\n"
