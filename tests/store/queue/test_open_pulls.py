"""Where a puller must request deliveries: enough for all waiters, and without a look at every tag."""

from __future__ import annotations

import random

from pyoco_server.store.queue.open_pulls import ENDS_SPARE_MAX, OpenPulls

SUBJECTS = ["a", "b", "c"]


def pulled(pulls: OpenPulls, waiters: int, *, until: float = 5.0) -> dict[str, int]:
    """Do what the puller does, and return what it would have sent."""
    missing = pulls.missing(waiters)
    for subject, deliveries in missing:
        pulls.add(f"{subject}{until}{len(pulls)}{random.random()}".encode(), subject, deliveries, until)
    return dict(missing)


def test_at_first_all_waiters_are_missing_everywhere() -> None:
    pulls = OpenPulls(SUBJECTS)
    assert pulled(pulls, 4) == {"a": 4, "b": 4, "c": 4}
    assert pulled(pulls, 4) == {}


def test_a_tag_that_has_delivered_gets_exactly_what_it_lacks() -> None:
    pulls = OpenPulls(SUBJECTS)
    pulled(pulls, 4)
    pulls.count_delivery("b")
    assert not pulls.needs_pull("b", 3)
    assert pulls.needs_pull("b", 4)
    assert pulled(pulls, 4) == {"b": 1}
    assert pulled(pulls, 4) == {}


def test_a_quiet_tag_waits_until_half_of_the_waiters_are_missing() -> None:
    pulls = OpenPulls(SUBJECTS)
    pulled(pulls, 3)
    assert pulled(pulls, 5) == {}
    assert pulled(pulls, 6) == {"a": 3, "b": 3, "c": 3}


def test_the_first_delivery_of_a_quiet_tag_shows_that_it_needs_more() -> None:
    pulls = OpenPulls(SUBJECTS)
    pulled(pulls, 3)
    pulls.count_delivery("a")
    assert pulls.needs_pull("a", 4)
    assert pulled(pulls, 4) == {"a": 2}


def test_fewer_waiters_need_nothing() -> None:
    pulls = OpenPulls(SUBJECTS)
    pulled(pulls, 8)
    for _ in range(5):
        pulls.count_delivery("a")
    assert pulled(pulls, 3) == {}
    assert pulled(pulls, 4) == {"a": 1}


def test_an_ended_pull_is_requested_again_at_its_tag_only() -> None:
    pulls = OpenPulls(SUBJECTS)
    for number, subject in enumerate(SUBJECTS):
        pulls.add(b"%d" % number, subject, 2, 5.0)
    assert pulls.end(b"1") == "b"
    assert pulls.end(b"1") is None
    assert pulled(pulls, 2) == {"b": 2}


def test_pulls_end_by_their_time_also_if_the_broker_says_nothing() -> None:
    pulls = OpenPulls(SUBJECTS)
    pulled(pulls, 2, until=5.0)
    pulls.count_delivery("a")
    pulled(pulls, 2, until=9.0)
    pulls.end_expired(6.0)
    assert [len(pulls.at(subject)) for subject in SUBJECTS] == [1, 0, 0]
    assert pulled(pulls, 2, until=11.0) == {"a": 1, "b": 2, "c": 2}


def test_after_a_reconnect_nothing_is_requested_any_more() -> None:
    pulls = OpenPulls(SUBJECTS)
    pulled(pulls, 4)
    pulls.count_delivery("c")
    pulls.clear()
    assert not pulls
    assert pulled(pulls, 2) == {"a": 2, "b": 2, "c": 2}


def test_the_tag_that_was_served_longest_ago_is_pulled_first() -> None:
    pulls = OpenPulls(SUBJECTS)
    served = []
    for _ in range(6):
        pulled(pulls, 1)
        first = min(SUBJECTS, key=lambda subject: pulls._by_subject[subject].taken_no)
        for subject in SUBJECTS:  # all have jobs: each delivers one, and the first answer is taken
            pulls.count_delivery(subject)
        pulls.note_taken(first)
        served.append(first)
        assert pulls.missing(1)[-1][0] == first
    assert served == ["a", "b", "c"] * 2


def test_an_unknown_tag_and_a_delivery_without_a_pull_change_nothing() -> None:
    pulls = OpenPulls(SUBJECTS)
    pulls.count_delivery("unknown")
    pulls.note_taken("unknown")
    pulls.count_delivery("a")
    assert not pulls.needs_pull("unknown", 100)
    assert pulled(pulls, 1) == {"a": 1, "b": 1, "c": 1}


def test_one_busy_tag_of_a_thousand_is_the_only_one_that_is_touched() -> None:
    pulls = OpenPulls([f"tag-{number}" for number in range(1_000)])
    pulled(pulls, 8)
    for waiters in [*range(8, 0, -1), *range(1, 9)] * 50:
        pulls.count_delivery("tag-7")
        assert set(pulled(pulls, waiters)) <= {"tag-7"}
        assert sum(len(level) for level in pulls._needy.values()) == 1_000


def test_random_histories_keep_enough_requests_open_and_no_garbage() -> None:
    for seed in range(50):
        chance = random.Random(seed)
        pulls, now, numbers = OpenPulls(SUBJECTS), 0.0, 0
        open_tokens: list[bytes] = []
        for _ in range(300):
            now += chance.random()
            match chance.randrange(4):
                case 0:
                    pulls.count_delivery(chance.choice(SUBJECTS))
                case 1 if open_tokens:
                    pulls.end(open_tokens.pop(chance.randrange(len(open_tokens))))
                case 2:
                    pulls.end_expired(now)
            waiters = chance.randrange(9)
            for subject, deliveries in pulls.missing(waiters):
                assert deliveries > 0
                numbers += 1
                open_tokens.append(b"%d" % numbers)
                pulls.add(open_tokens[-1], subject, deliveries, now + 5.0)
            for subject in SUBJECTS:
                left = sum(pull.left for pull in pulls.at(subject))
                assert left == pulls._by_subject[subject].left
                assert 2 * left >= waiters + (left < waiters)
                assert all(pull.left > 0 for pull in pulls.at(subject))
            assert len(pulls._ends) <= 2 * len(pulls) + ENDS_SPARE_MAX + 1
