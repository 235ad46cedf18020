from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dynamite_fl.errors import DynamiteError
from dynamite_fl.records import IntArray
from dynamite_fl.stream.arrivals import Burst, Random, Smooth, Uneven
from dynamite_fl.stream.buffer import Storage
from dynamite_fl.stream.presets import PRESETS, preset
from dynamite_fl.stream.stream import Stream
from dynamite_fl.stream.streams import Streams

LABELS = np.arange(200) % 5
AMOUNTS: dict[str, Any] = {"order": "iid", "initial": 20, "size": 10}
SMOOTH = {**AMOUNTS, "arrivals": "smooth", "every": 3, "buffer_size": 50}
BURST = {**AMOUNTS, "arrivals": "burst", "at": 4, "buffer_size": 50}
RANDOM = {**AMOUNTS, "arrivals": "random", "times": 2, "buffer_size": 50}


def everything(_: int) -> IntArray:
    return np.arange(200)


def built(table: dict[str, Any], rounds: int | None = 9, seed: int = 3) -> Streams:
    return Stream.from_table(table).build(everything, LABELS, rounds, seed)


def test_each_pattern_is_built() -> None:
    assert built(SMOOTH).arrivals == Smooth(initial=20, size=10, every=3)
    assert built(BURST).arrivals == Burst(initial=20, size=10, at=4)
    assert built(RANDOM).arrivals == Random(initial=20, size=10, times=2, rounds=9, seed=3)
    uneven = built({**BURST, "spread": 0.5}).arrivals
    assert isinstance(uneven, Uneven)
    assert (uneven.pattern, uneven.spread, uneven.seed) == (built(BURST).arrivals, 0.5, 3)


def test_random_arrivals_end_with_their_own_last_round_or_that_of_the_training() -> None:
    of_the_stream = built({**RANDOM, "rounds": 5}, rounds=None).arrivals
    assert of_the_stream == Random(initial=20, size=10, times=2, rounds=5, seed=3)
    with pytest.raises(ValueError, match=r"needs stream\.rounds, as limits\.rounds is not set"):
        built(RANDOM, rounds=None)


def test_the_buffer_is_built() -> None:
    assert built(SMOOTH).storage == Storage("reservoir", 50, seed=3)
    assert built({**SMOOTH, "buffer": "fifo"}).storage == Storage("fifo", 50, seed=3)
    assert built({**SMOOTH, "buffer": "unbounded"}).storage == Storage("unbounded", seed=3)


def test_capacity_is_the_buffer_size_unless_the_buffer_is_unbounded() -> None:
    stream = Stream.from_table(SMOOTH)
    assert stream.capacity == 50
    assert replace(stream, buffer="unbounded").capacity is None


def test_order_and_max_samples_are_built() -> None:
    whole = built({**SMOOTH, "order": "continuous", "max_samples": 30})
    assert whole.history(0).size == 30
    labels = LABELS[whole.history(0)]
    assert np.count_nonzero(np.diff(labels)) == 4


def test_a_continuous_order_needs_labels() -> None:
    stream = Stream.from_table({**SMOOTH, "order": "continuous"})
    with pytest.raises(ValueError, match=r"use stream\.order 'iid'"):
        stream.build(everything, LABELS / 2, 9, 0)


@pytest.mark.parametrize("table", [SMOOTH, BURST, {**RANDOM, "rounds": 7, "spread": 0.2}])
def test_a_table_is_read_and_written(table: dict[str, Any]) -> None:
    stream = Stream.from_table(table)
    assert stream == Stream(**table)
    assert stream.to_table() == {"buffer": "reservoir", "spread": 0.0, **table}
    assert Stream.from_table(stream.to_table()) == stream
    assert Stream.from_table({**table, "max_samples": None}) == stream


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("dataset", ["mnist", "cifar10", ""])
def test_a_preset_is_the_same_in_a_table_and_in_python(name: str, dataset: str) -> None:
    stream = Stream.preset(name, dataset, scale=0.1)
    assert stream == Stream.from_table({"preset": name, "scale": 0.1}, dataset)
    assert preset(name, dataset, 0.1).items() <= stream.to_table().items()
    changed = Stream.from_table({"preset": name, "scale": 0.1, "buffer": "fifo"}, dataset)
    assert changed == replace(stream, buffer="fifo")


WRONG: list[tuple[object, str]] = [
    ("burst", "stream must be a table such as"),
    ({"preset": "smoth-i"}, "no stream.preset 'smoth-i': did you mean 'smooth-i'?"),
    ({"preset": "burst", "scale": 2}, "stream.scale is 2"),
    ({"preset": "burst", "scale": "x"}, "stream.scale is 'x'"),
    ({"preset": "burst", "bufer": "fifo"}, "stream has no key 'bufer': did you mean 'buffer'?"),
    ({**BURST, "scale": 0.5}, "stream.scale needs stream.preset"),
    ({**SMOOTH, "initial": None}, "stream lacks the key 'initial'"),
    ({**SMOOTH, "arrivals": "smoth"}, "no stream.arrivals 'smoth': did you mean 'smooth'?"),
    (
        {**SMOOTH, "order": "sorted"},
        "no stream.order 'sorted': use one of iid, balanced, continuous",
    ),
    ({**SMOOTH, "buffer": "lifo"}, "no stream.buffer 'lifo': did you mean 'fifo'?"),
    ({**SMOOTH, "buffer": ["fifo"]}, "no stream.buffer ['fifo']"),
    ({**SMOOTH, "buffer_size": None}, "stream.buffer 'reservoir' needs stream.buffer_size"),
    ({**SMOOTH, "buffer_size": 2.5}, "stream.buffer_size is 2.5"),
    ({**SMOOTH, "initial": -1}, "stream.initial is -1"),
    ({**SMOOTH, "size": 1.5}, "stream.size is 1.5"),
    ({**SMOOTH, "initial": 0, "size": 0}, "no sample ever arrives"),
    ({**SMOOTH, "every": 0}, "stream.every is 0"),
    ({**SMOOTH, "every": None}, "stream.arrivals 'smooth' needs stream.every"),
    ({**SMOOTH, "at": 3}, "stream.at is not for arrivals 'smooth': leave it out"),
    ({**BURST, "at": "x"}, "stream.at is 'x'"),
    ({**RANDOM, "times": 0}, "stream.times is 0"),
    ({**RANDOM, "rounds": 0}, "stream.rounds is 0"),
    ({**SMOOTH, "spread": "x"}, "stream.spread is 'x'"),
    ({**SMOOTH, "spread": -1}, "stream.spread is -1"),
    ({**SMOOTH, "max_samples": 0}, "stream.max_samples is 0"),
]


@pytest.mark.parametrize(("table", "message"), WRONG)
def test_a_wrong_table_is_refused_with_one_line(table: object, message: str) -> None:
    with pytest.raises(DynamiteError) as failure:
        Stream.from_table(table)
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stream(**{**SMOOTH, "every": None}),
        lambda: Stream(**{**SMOOTH, "arrivals": "never"}),
        lambda: Stream.preset("never"),
    ],
)
def test_streams_made_in_python_are_checked_as_tables_are(make: Callable[[], Stream]) -> None:
    with pytest.raises(ValueError, match=r"stream\.(arrivals|preset)"):
        make()
