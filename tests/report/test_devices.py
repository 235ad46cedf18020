import json
from typing import Any

import pytest

from dynamite_fl.report.devices import batch_tiles, device_figures
from dynamite_fl.report.history import History


def test_figures_by_hand() -> None:
    lines: list[dict[str, Any]] = [
        {
            "round": 1,
            "local_steps": 2,
            "clients": [0, 1, 2],
            "batch_sizes": [4, 8, 16],
            "step_seconds": [1.0, 0.5, None],
            "comm_seconds": [1.0, 4.0, None],
            "arrived": [10, 20, None],
            "slowest": 1,
            "absent": [2],
        },
        {
            "round": 2,
            "local_steps": 4,
            "clients": [0, 1, 2],
            "batch_sizes": [6, 8, 16],
            "step_seconds": [1.0, 0.5, 2.0],
            "comm_seconds": [3.0, 2.0, 1.0],
            "arrived": [15, 20, 30],
            "slowest": 2,
            "absent": [],
        },
    ]
    two, one, zero = device_figures(History(tuple(lines)))
    assert [each.place for each in (two, one, zero)] == [2, 1, 0]  # slowest once, then by seconds
    assert (zero.batch, zero.compute, zero.comm, zero.samples) == (5.0, 3.0, 2.0, 15)
    assert (one.compute, one.comm, one.slowest) == (1.5, 3.0, 1)
    assert (two.compute, two.seconds, two.absent, two.samples) == (8.0, 9.0, 1, 30)


def test_a_history_of_older_versions_has_devices_too() -> None:
    line = {"round": 1, "local_steps": 2, "clients": [3], "batch_sizes": [7], "absent": []}
    (device,) = device_figures(History((line,)))
    assert (device.place, device.batch, device.compute, device.seconds) == (3, 7.0, None, 0.0)


def test_rounds_of_more_devices_than_are_listed_still_say_who_was_slowest() -> None:
    lines = [
        {"round": k, "local_steps": 2, "slowest": 999 - k % 2, "absent": [5]} for k in range(9)
    ]
    figures = device_figures(History(tuple(lines)))
    assert [(each.place, each.slowest, each.absent) for each in figures] == [
        (999, 5, 0),
        (998, 4, 0),
        (5, 0, 9),
    ]


@pytest.mark.parametrize(("devices", "rounds"), [(10, 30), (5000, 2000)])
def test_tiles_are_few_and_keep_the_mean(devices: int, rounds: int) -> None:
    """Cohorts of ten that go through all devices in turn, sizes as their places."""
    lines = []
    for k in range(rounds):
        clients = [(10 * k + each) % devices for each in range(10)]
        lines.append({"round": k + 1, "clients": clients, "batch_sizes": [1 + c for c in clients]})
    tiles = batch_tiles(History(tuple(lines)))
    assert len(tiles.groups) <= 40
    assert len(tiles.rounds) <= 120
    assert sorted(place for group in tiles.groups for place in group) == list(range(devices))
    assert len(json.dumps(tiles.sizes)) < 50_000
    largest = tiles.groups[0] if devices > 40 else tiles.groups[-1]
    assert devices - 1 in largest  # grouped by size, the largest first; single ones by place
    known = [size for row in tiles.sizes for size in row if size is not None]
    assert min(known) >= 1
    assert max(known) <= devices
