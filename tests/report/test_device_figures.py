import json

import pytest

from dynamite_fl.report.device_figures import batch_tiles, device_figures
from dynamite_fl.training.history import History
from tests.training.records import record


def test_figures_by_hand() -> None:
    first = record(
        1,
        local_steps=2,
        clients=(0, 1, 2),
        batch_sizes=(4, 8, 16),
        step_seconds=(1.0, 0.5, None),
        comm_seconds=(1.0, 4.0, None),
        arrived=(10, 20, None),
        slowest=1,
        absent=(2,),
    )
    second = record(
        2,
        local_steps=4,
        clients=(0, 1, 2),
        batch_sizes=(6, 8, 16),
        step_seconds=(1.0, 0.5, 2.0),
        comm_seconds=(3.0, 2.0, 1.0),
        arrived=(15, 20, 30),
        slowest=2,
    )
    two, one, zero = device_figures(History((first, second)))
    assert [device.index for device in (two, one, zero)] == [2, 1, 0]  # slowest, then seconds
    assert (zero.batch, zero.compute, zero.comm, zero.samples) == (5.0, 3.0, 2.0, 15)
    assert (one.compute, one.comm, one.slowest) == (1.5, 3.0, 1)
    assert (two.compute, two.seconds, two.absent, two.samples) == (8.0, 9.0, 1, 30)


def test_records_without_times_have_devices_too() -> None:
    (device,) = device_figures(History((record(1, clients=(3,), batch_sizes=(7,)),)))
    assert (device.index, device.batch, device.compute, device.seconds) == (3, 7.0, None, 0.0)


def test_records_that_do_not_list_devices_still_name_the_slowest() -> None:
    records = [record(k, slowest=999 - k % 2, absent=(5,)) for k in range(9)]
    figures = device_figures(History(tuple(records)))
    assert [(device.index, device.slowest, device.absent) for device in figures] == [
        (999, 5, 0),
        (998, 4, 0),
        (5, 0, 9),
    ]


@pytest.mark.parametrize(("devices", "rounds"), [(10, 30), (5000, 2000)])
def test_tiles_are_few_and_keep_the_mean(devices: int, rounds: int) -> None:
    """Cohorts of ten take turns; the batch size of a device follows its index."""
    records = []
    for k in range(rounds):
        clients = tuple((10 * k + offset) % devices for offset in range(10))
        sizes = tuple(1 + client for client in clients)
        records.append(record(k + 1, clients=clients, batch_sizes=sizes))
    tiles = batch_tiles(History(tuple(records)))
    assert len(tiles.groups) <= 40
    assert len(tiles.rounds) <= 120
    assert sorted(device for group in tiles.groups for device in group) == list(range(devices))
    assert len(json.dumps(tiles.sizes)) < 50_000
    largest = tiles.groups[0] if devices > 40 else tiles.groups[-1]
    assert devices - 1 in largest  # groups are sorted by size, single devices by index
    known = [size for row in tiles.sizes for size in row if size is not None]
    assert min(known) >= 1
    assert max(known) <= devices
