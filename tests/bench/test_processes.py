"""What is read from `/proc`, and how it is added up over processes that come and go."""

import os
import subprocess

import pytest
from bench.processes import ENDED, TICKS, Counted, Sample, Spent, Stat, Switches, Watch

from bench import processes

STAT = "4711 (a (strange) name) S 42 1 1 0 -1 0 0 0 0 0 150 50 30 20 20 0 1 0 98765 0 0"


def test_a_stat_line_is_read_past_a_name_with_parentheses() -> None:
    assert processes.parse_stat(STAT) == Stat("a (strange) name", 42, 200 / TICKS, 50 / TICKS, 98765)


def test_the_kernel_and_we_agree_on_this_process() -> None:
    stat = processes.stat_of(os.getpid())
    assert stat is not None
    assert stat.parent == os.getppid()


def test_a_process_that_has_ended_has_no_stat() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert processes.stat_of(ended.pid) is None


def test_context_switches_are_read_from_a_status() -> None:
    status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"
    assert processes.parse_switches(status) == Switches(voluntary=12, forced=3)
    assert processes.parse_switches("") == Switches(0, 0)


def test_idle_time_and_waiting_for_the_disk_are_not_busy() -> None:
    stat = "cpu 10 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
    assert processes.parse_busy_sec(stat) == pytest.approx((10 + 20 + 30 + 6 + 7 + 8) / TICKS)


def test_memory_is_the_proportional_size() -> None:
    assert processes.parse_pss_mb("Rss: 9999 kB\nPss: 2048 kB\nPss_Dirty: 5 kB\n") == 2.0
    assert processes.parse_pss_mb("") == 0.0


def test_descendants_are_found_at_any_depth() -> None:
    parents = {2: 1, 3: 1, 4: 3, 5: 4, 9: 8}
    stats = {pid: Stat("x", parent, 0, 0, 0) for pid, parent in parents.items()}
    assert sorted(processes.descendants(1, stats)) == [2, 3, 4, 5]
    assert processes.descendants(5, stats) == []


def test_costs_are_differences_by_role() -> None:
    before: Sample = {(1, 0): Counted("worker", 5.0, 0.0, 100, 10), (2, 0): Counted("slot", 1.0, 0.0, 7, 1)}
    after: Sample = {(1, 0): Counted("worker", 6.0, 0.0, 150, 12), (2, 0): Counted("slot", 1.5, 0.0, 9, 1)}
    assert processes.spent(before, after, after) == {"worker": Spent(1.0, 50, 2), "slot": Spent(0.5, 2, 0)}


def test_a_child_that_ends_keeps_its_last_count_and_the_rest_is_taken_from_its_parent() -> None:
    before: Sample = {(1, 0): Counted("worker", 5.0, reaped_sec=2.0), (2, 0): Counted("slot", 1.0)}
    # The child was last seen with 1.4 s, ended with 1.5 s, and its parent has taken over all of it.
    last: Sample = {(1, 0): Counted("worker", 5.0, reaped_sec=3.5), (2, 0): Counted("slot", 1.4, 0.0, 30, 3)}
    found = processes.spent(before, last, [(1, 0)])
    assert found["slot"].cpu_sec == pytest.approx(0.4)
    assert found["slot"].voluntary == 30
    assert found[ENDED].cpu_sec == pytest.approx(0.1)


def test_a_child_that_no_sample_has_seen_still_counts() -> None:
    before: Sample = {(1, 0): Counted("worker", 5.0, reaped_sec=2.0)}
    last: Sample = {(1, 0): Counted("worker", 5.0, reaped_sec=2.75)}
    assert processes.spent(before, last, last)[ENDED].cpu_sec == pytest.approx(0.75)


def test_a_pid_that_is_used_again_is_another_process() -> None:
    before: Sample = {(2, 100): Counted("slot", 9.0, 0.0, 500, 5)}
    last: Sample = {(2, 100): Counted("slot", 9.0, 0.0, 500, 5), (2, 200): Counted("slot", 0.25, 0.0, 4, 1)}
    found = processes.spent(before, last, [(2, 200)])
    assert found["slot"] == Spent(0.25, 4, 1)


def test_a_watch_counts_the_children_of_a_process_that_have_ended() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass"
    with Watch({"we": os.getpid()}) as watch:
        subprocess.run(["python3", "-c", work], check=True)
    assert watch.cpu_sec >= 0.25
    assert "we" in watch.roles
