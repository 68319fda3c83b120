"""The report of `pyoco-server-admin verify`."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.operations.runs.verify import verify, verify_all
from pyoco_server.store.store import Store

Print = Callable[[str], None]


async def report_run(store: Store, run_id: str, write: Print) -> bool | None:
    """Whether the run has no problems; None if it does not exist."""
    found = await verify(store, run_id)
    if found is None:
        return None
    for problem in found.problems:
        write(problem)
    if found.ok:
        write(f"ok{_without_chain(found.unchained, found.commits)}")
    return found.ok


async def report_all(store: Store, write: Print) -> bool:
    runs, commits, unchained, problems = 0, 0, 0, 0
    async for run_id, found in verify_all(store):
        runs, commits = runs + 1, commits + found.commits
        unchained, problems = unchained + found.unchained, problems + len(found.problems)
        for problem in found.problems:
            write(f"{run_id}: {problem}")
    write(f"{runs} runs, {commits} commits, {problems} problems{_without_chain(unchained, commits)}")
    return not problems


def _without_chain(unchained: int, commits: int) -> str:
    return f" ({unchained} of {commits} commits carry no chain)" if unchained else ""
