"""Statistics: percentiles, medians of rounds, ratios, and figures as text."""

import pytest
from bench.summaries import Better, ahead, median, percentile, short


def test_percentiles_are_values_that_were_measured() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 5.0, 5.0]


def test_the_median_ignores_rounds_without_a_value() -> None:
    assert median([3.0, None, 1.0, 2.0]) == 2.0
    assert median([None, None]) is None
    assert median([]) is None


def test_ahead_is_above_one_where_ours_is_better_whatever_the_unit() -> None:
    assert ahead(1000.0, 500.0, Better.MORE) == 2.0
    assert ahead(2.0, 6.0, Better.LESS) == 3.0
    assert ahead(4.3, 2.7, Better.LESS) == pytest.approx(0.628, abs=0.001)


@pytest.mark.parametrize(("ours", "theirs"), [(None, 1.0), (1.0, None), (0.0, 1.0), (1.0, 0.0)])
def test_without_both_figures_there_is_no_ratio(ours: float | None, theirs: float | None) -> None:
    assert ahead(ours, theirs, Better.MORE) is None


@pytest.mark.parametrize(
    ("value", "text"), [(0.864, "0.86"), (12.34, "12.3"), (286.4, "286"), (1857.2, "1,857")]
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert short(value) == text
