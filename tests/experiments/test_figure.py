"""Static figures: what they show, and that they are the same for the same numbers."""

import re

from dynamite_fl.experiments.charts import Chart, Series
from dynamite_fl.experiments.figure import draw

CURVES = Chart(
    "Left",
    "round",
    "test accuracy",
    [
        Series("a", [1, 2, 3], [0.1, 0.2, 0.3], [0.0, 0.01, 0.02]),
        Series("b", [1, 2], [0.3, 0.2], [0.0, 0.0]),
    ],
    percent=True,
    mark=2,
)
BARS = Chart(
    "Right", "cost", "", [Series("a", (), (12.5,), (1.0,)), Series("b", (), (-3.0,), (0,))]
)
TITLES = {"a": "Anna", "b": "Bert", "c": "Carl"}


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_it_shows_titles_axes_names_and_numbers() -> None:
    shown = texts(draw([[CURVES, BARS]], TITLES))
    for word in ("Left", "Right", "round", "test accuracy", "cost", "Anna", "Bert", "12.5", "-3"):
        assert word in shown
    assert "Carl" not in shown
    assert any(word.startswith("30") and word.endswith("%") for word in shown)
    assert {"1", "2", "3"} <= set(shown)  # rounds are whole


def test_the_same_numbers_are_the_same_to_the_byte() -> None:
    first = draw([[CURVES], [BARS]], TITLES)
    assert first == draw([[CURVES], [BARS]], TITLES)
    assert "<dc:date>" not in first


def test_long_rows_are_broken_evenly() -> None:
    """Five in lines of three and two, not of four and one."""
    wide = draw([[CURVES] * 4], TITLES)
    broken = draw([[CURVES] * 5], TITLES)

    def size(svg: str) -> list[float]:
        return [float(x) for x in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()]  # type: ignore[union-attr]

    assert size(broken)[0] == 0.75 * size(wide)[0]
    assert size(broken)[1] > size(wide)[1]


def test_bars_need_no_legend() -> None:
    shown = texts(draw([[BARS]], TITLES))
    assert shown.count("Anna") == 1
