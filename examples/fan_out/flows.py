"""Count the words of many files: four tasks side by side, each with its share of the files, then one sum."""

from collections import Counter
from pathlib import Path

from pyoco import Flow
from pyoco.core.models import Task
from pyoco.dsl.syntax import TaskWrapper

SHARDS = 4


def plan(folder: str) -> list[list[str]]:
    files = sorted(str(path) for path in Path(folder).glob("*.txt"))
    return [files[shard::SHARDS] for shard in range(SHARDS)]


def count(plan: list[list[str]], shard: int) -> dict[str, int]:
    words: Counter[str] = Counter()
    for name in plan[shard]:
        words.update(Path(name).read_text().lower().split())
    print(f"shard {shard}: {len(plan[shard])} files")
    return dict(words)


def total(
    count_0: dict[str, int], count_1: dict[str, int], count_2: dict[str, int], count_3: dict[str, int]
) -> object:
    words: Counter[str] = Counter()
    for part in (count_0, count_1, count_2, count_3):
        words.update(part)
    return dict(words.most_common(3))


def word_count() -> Flow:
    counts = [
        TaskWrapper(Task(func=count, name=f"count_{shard}", inputs={"shard": shard}))
        for shard in range(SHARDS)
    ]
    first, last = TaskWrapper(Task(func=plan, name="plan")), TaskWrapper(Task(func=total, name="total"))
    flow: Flow = Flow("word_count") >> first >> counts >> last
    return flow


def resolve(name: str) -> Flow:
    return {"word_count": word_count}[name]()
