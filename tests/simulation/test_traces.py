"""Transfers on measured traces, against hand-worked numbers and a fine numeric integration."""

import os
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from dynamite_fl.simulation.traces import Trace, read_trace, transfer_seconds
from tests.examples import examples

PROJECT = Path(__file__).parents[2]


def measured() -> list[Path]:
    """Real traces, in the data folder or beside the project."""
    data = Path(os.environ.get("DYNAMITE_DATA", PROJECT.parent / "shared" / "data"))
    found = sorted((data / "traces").rglob("*.csv"))
    if not found and os.environ.get("CI") == "true":
        pytest.fail(f"no traces in {data / 'traces'}")
    if not found:
        pytest.skip(f"no traces in {data / 'traces'}; DYNAMITE_DATA can name another folder")
    return found


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rates = st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.7, 20.0])
    rows = draw(st.lists(st.tuples(st.sampled_from([0.1, 0.5, 1.0, 2.3]), rates), min_size=1))
    intervals, mbps = zip(*rows, strict=True)
    if not any(mbps):
        mbps = (*mbps[1:], 1.0)
    return Trace(seconds=3.0 + np.cumsum(intervals), mbps=mbps)


starts = st.floats(0, 500)
sizes = st.floats(0, 1e8)


def stepwise(trace: Trace, start: float, size: float, step: float) -> float:
    """Move bytes step by step until they are through: slow and obvious."""
    rates = np.diff(trace.moved) / np.diff(trace.edges)
    at, left = start, size
    while left > 0:
        piece = int(np.searchsorted(trace.edges, at % trace.period, side="right")) - 1
        left -= float(rates[min(piece, rates.size - 1)]) * step
        at += step
    return at - start


def test_transfers_by_hand() -> None:
    # In MB/s: 1 for 2 s, 0 for 1 s, 2 for 3 s, and 0.5 for 2 s, the median of 2, 1 and 3.
    trace = Trace(seconds=[5, 7, 8, 11], mbps=[8, 0, 16, 4])
    assert trace.period == 8.0
    assert trace.moved.tolist() == [0, 2e6, 2e6, 8e6, 9e6]
    assert trace.mean_bandwidth == 9e6 / 8

    def seconds(start: float, size: float) -> float:
        return float(transfer_seconds(trace, start, size))

    assert seconds(0, 1e6) == 1.0
    assert seconds(0, 2e6) == 2.0  # through before the standstill
    assert seconds(1, 2e6) == 2.5  # 1 MB in 1 s, 1 s of standstill, 1 MB in 0.5 s
    assert seconds(2.5, 1e6) == 1.0  # from within the standstill
    assert seconds(7, 1.5e6) == 2.0  # over the end: 0.5 MB in 1 s, 1 MB in 1 s
    assert seconds(0, 9e6) == 8.0
    assert seconds(0, 27e6) == 24.0  # three periods
    assert seconds(8 * 1000 + 1, 2e6) == 2.5  # as in the first period
    assert seconds(2.5, 0) == 0.0


def test_ends_with_its_last_byte_and_waits_for_its_first() -> None:
    trace = Trace(seconds=[0, 1, 2], mbps=[0, 8, 0])
    found = transfer_seconds(trace, [0, 0, 1.5, 2.5], [1e6, 2e6, 1e6, 1e-9])
    np.testing.assert_allclose(found, [2.0, 5.0, 3.0, 1.5], atol=1e-12)


def test_one_measurement_is_a_constant_bandwidth() -> None:
    trace = Trace(seconds=[9], mbps=[4])
    assert transfer_seconds(trace, [0, 0.3], [1e6, 3e6]) == pytest.approx([2.0, 6.0])


@examples(40)
@given(traces(), starts, st.floats(1e3, 1e6))
def test_meets_a_fine_numeric_integration(trace: Trace, start: float, size: float) -> None:
    exact = float(transfer_seconds(trace, start, size))
    step = max(exact, 0.01) / 400
    # An edge within a step is seen up to a step late: its bytes, at most a step at the highest
    # rate for every edge, may have to wait for the next piece that moves anything.
    rates = np.diff(trace.moved) / np.diff(trace.edges)
    edges = (exact / trace.period + 2) * rates.size
    slack = rates.max() * step * edges
    early = float(transfer_seconds(trace, start, max(size - slack, 0)))
    late = float(transfer_seconds(trace, start, size + slack))
    assert early - 2 * step <= stepwise(trace, start, size, step) <= late + 2 * step


@given(traces(), starts, sizes, sizes)
def test_two_transfers_one_after_the_other_take_as_long_as_both(
    trace: Trace, start: float, first: float, second: float
) -> None:
    halfway = float(transfer_seconds(trace, start, first))
    both = float(transfer_seconds(trace, start, first + second))
    assert halfway <= both + 1e-9
    # A byte more or less at the border of a standstill decides whether that is waited for.
    after = [
        halfway + float(transfer_seconds(trace, start + halfway + early, second + more))
        for early, more in [(-1e-6, -100), (1e-6, 100)]
        if start + halfway + early >= 0 and second + more >= 0
    ]
    if len(after) == 2:
        assert after[0] - 1e-3 <= both <= after[1] + 1e-3


@given(traces(), starts, sizes)
def test_what_was_moved_until_the_end_is_the_size(trace: Trace, start: float, size: float) -> None:
    def moved(until: float) -> float:
        cycles, phase = divmod(until, trace.period)
        return cycles * float(trace.moved[-1]) + float(np.interp(phase, trace.edges, trace.moved))

    seconds = float(transfer_seconds(trace, start, size))
    assert moved(start + seconds) - moved(start) == pytest.approx(size, rel=1e-9, abs=1e-3)


@given(traces(), st.lists(st.tuples(starts, sizes), min_size=1, max_size=5))
def test_vectors_are_as_one_by_one(trace: Trace, transfers: list[tuple[float, float]]) -> None:
    begin, size = map(np.array, zip(*transfers, strict=True))
    alone = [float(transfer_seconds(trace, *transfer)) for transfer in transfers]
    assert transfer_seconds(trace, begin, size).tolist() == alone
    assert min(alone) >= 0


@given(traces(), st.integers(1, 10**6))
@example(Trace(seconds=[0, 0.5, 1, 3.3], mbps=[0, 0, 20, 0]), 3)  # 3 w / w is above 3
def test_whole_periods_end_where_they_should(trace: Trace, periods: int) -> None:
    seconds = float(transfer_seconds(trace, 0.0, periods * float(trace.moved[-1])))
    standstill = trace.period - trace.edges[np.searchsorted(trace.moved, trace.moved[-1])]
    assert seconds == pytest.approx(periods * trace.period - standstill, rel=1e-12)


@pytest.mark.parametrize(
    ("seconds", "mbps", "message"),
    [
        ([0, 1, 1], 1, r"Trace.seconds\[2\] is 1, not after the 1 before it"),
        ([0, 2, 1], 1, r"Trace.seconds\[2\] is 1, not after the 2"),
        ([0, 1], 0, "never moves a byte"),
        ([0, 1], 1e-300, "never moves a byte"),
        ([0, 1], [1, -1], r"Trace.mbps\[1\] is -1"),
        ([0, 1], [1, np.nan], r"Trace.mbps\[1\] is nan"),
        ([0, 1], [1, np.inf], r"Trace.mbps\[1\] is inf"),
        ([0, np.inf], 1, r"Trace.seconds\[1\] is inf"),
        ([0, 1], [1, 2, 3], "Trace.mbps has 3 entries, but 2 are needed"),
        ([], [], "Trace.seconds is empty"),
        (["a"], [1], "Trace.seconds must be a number for each"),
    ],
)
def test_traces_that_cannot_be_used_are_refused(
    seconds: list[float], mbps: float | list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Trace(seconds=seconds, mbps=mbps)


@pytest.mark.parametrize("header", ["", "seconds,mbps\n", "\ufeffseconds, mbps\r\n"])
def test_reads_files_with_and_without_header(tmp_path: Path, header: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(header + "0.5,8\n\n2.5,0.000000\n", encoding="utf-8")
    trace = read_trace(file)
    assert trace.edges.tolist() == [0, 2, 4]
    assert trace.moved.tolist() == [0, 2e6, 2e6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seconds,mbps\n0,1\n1,fast\n", r"t.csv, line 3: '1,fast' is not a pair"),
        ("time,mbps\n0,1\n", r"t.csv, line 1: 'time,mbps' is not a pair"),
        ("0,1,2\n", r"t.csv, line 1: '0,1,2' is not a pair"),
        ("seconds,mbps\n", "t.csv has no measurement"),
        ("", "t.csv has no measurement"),
        ("0,1\n0,2\n", r"t.csv: Trace.seconds\[1\]"),
    ],
)
def test_files_that_hold_no_trace_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_trace(file)


def test_refuses_what_is_no_text_and_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a text file"):
        read_trace(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="cannot be read"):
        read_trace(tmp_path / "absent.csv")


def test_measured_traces_are_readable() -> None:
    for file in measured():
        trace = read_trace(file)
        rows = np.loadtxt(file, delimiter=",", skiprows=1, comments=None)
        assert trace.edges.size == len(rows) + 1
        np.testing.assert_allclose(
            np.diff(trace.moved)[:-1], rows[:-1, 1] * 125_000 * np.diff(rows[:, 0]), atol=1e-6
        )
        seconds = transfer_seconds(trace, np.linspace(0, 1e4, 50), 2e6)
        assert (seconds > 0).all()
        assert np.isfinite(seconds).all()
