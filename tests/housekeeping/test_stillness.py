"""How long a lease stood still, by values: only our own seconds count, and only those with writes through."""

from __future__ import annotations

import pytest

from pyoco_server.housekeeping.stillness import Stillness


@pytest.fixture
def stillness() -> Stillness:
    return Stillness(step_sec_max=2.0)


def look(stillness: Stillness, now: float, through: bool = True, **revisions: int) -> None:
    stillness.observe(revisions, now, own_write_went_through=through)


def test_a_lease_seen_for_the_first_time_has_not_stood_still(stillness: Stillness) -> None:
    look(stillness, 1000.0, a=7)
    assert stillness.still_sec("a") == 0.0
    assert stillness.still_sec("never seen") == 0.0


def test_a_lease_ages_while_its_revision_stays(stillness: Stillness) -> None:
    for second in range(6):
        look(stillness, 100.0 + second, a=7)
    assert stillness.still_sec("a") == 5.0


def test_a_move_makes_it_young_again(stillness: Stillness) -> None:
    for second in range(6):
        look(stillness, float(second), a=7)
    look(stillness, 6.0, a=8)
    assert stillness.still_sec("a") == 0.0
    look(stillness, 7.0, a=8)
    assert stillness.still_sec("a") == 1.0


def test_a_lease_that_is_not_there_ages_too(stillness: Stillness) -> None:
    for second in range(4):
        look(stillness, float(second), gone=0)
    assert stillness.still_sec("gone") == 3.0


def test_each_lease_has_its_own_age(stillness: Stillness) -> None:
    look(stillness, 0.0, a=1)
    look(stillness, 1.0, a=1, b=1)
    look(stillness, 2.0, a=1, b=1)
    assert (stillness.still_sec("a"), stillness.still_sec("b")) == (2.0, 1.0)


def test_an_outage_ages_nobody(stillness: Stillness) -> None:
    look(stillness, 0.0, a=1)
    look(stillness, 1.0, a=1)
    for second in range(2, 12):
        look(stillness, float(second), through=False)
    look(stillness, 12.0, a=1)
    assert stillness.still_sec("a") == 1.0
    look(stillness, 13.0, a=1)
    assert stillness.still_sec("a") == 2.0


def test_what_was_read_while_our_write_did_not_go_through_counts_for_nothing(stillness: Stillness) -> None:
    look(stillness, 0.0, a=1)
    look(stillness, 1.0, through=False, a=1)
    look(stillness, 2.0, a=1)
    assert stillness.still_sec("a") == 0.0


def test_a_machine_that_slept_ages_nobody_by_more_than_one_step(stillness: Stillness) -> None:
    look(stillness, 0.0, a=1)
    look(stillness, 3600.0, a=1)
    assert stillness.still_sec("a") == 2.0


def test_a_lease_that_came_back_into_view_begins_anew(stillness: Stillness) -> None:
    for second in range(4):
        look(stillness, float(second), a=1)
    look(stillness, 4.0)
    look(stillness, 5.0, a=1)
    assert stillness.still_sec("a") == 0.0
