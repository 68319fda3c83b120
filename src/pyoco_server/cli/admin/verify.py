"""What `pyoco-server-admin verify` prints of what was found."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.operations.runs.verify import verify, verify_all
from pyoco_server.store.store import Store

Say = Callable[[str], None]


async def report_run(store: Store, run_id: str, say: Say) -> bool | None:
    """Whether it is as it should be; None without such a run."""
    found = await verify(store, run_id)
    if found is None:
        return None
    for problem in found.problems:
        say(problem)
    if found.ok:
        say(f"ok{_without_chain(found.unchained, found.commits)}")
    return found.ok


async def report_all(store: Store, say: Say) -> bool:
    runs, commits, unchained, problems = 0, 0, 0, 0
    async for run_id, found in verify_all(store):
        runs, commits = runs + 1, commits + found.commits
        unchained, problems = unchained + found.unchained, problems + len(found.problems)
        for problem in found.problems:
            say(f"{run_id}: {problem}")
    say(f"{runs} runs, {commits} commits, {problems} problems{_without_chain(unchained, commits)}")
    return not problems


def _without_chain(unchained: int, commits: int) -> str:
    return f" ({unchained} of {commits} commits carry no chain)" if unchained else ""
