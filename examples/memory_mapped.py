"""Data that is larger than memory: arrays in files, of which only the rows of a batch are read.

The first run writes two files of NumPy into a folder. With samples=300_000 they have 1.2 GB, and
the training still needs less than 0.6 GB of memory.
"""

from pathlib import Path

import numpy as np
from torch import nn

import dynamite_fl as fl

FEATURES, CLASSES, BLOCK = 1000, 10, 5000


def write_data(folder: Path, samples: int) -> None:
    """Write noisy copies of one random row for each class, block by block."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = {"inputs": ((samples, FEATURES), np.float32), "labels": ((samples,), np.int64)}
    for name, (shape, dtype) in shapes.items():
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype, shape)
    rows = np.random.default_rng(0).standard_normal((CLASSES, FEATURES), np.float32)
    for start in range(0, samples, BLOCK):
        random = np.random.default_rng(1 + start)
        labels = random.integers(CLASSES, size=min(BLOCK, samples - start))
        noise = 10 * random.standard_normal((labels.size, FEATURES), np.float32)
        for name, values in (("inputs", rows[labels] + noise), ("labels", labels)):
            file = np.load(folder / f"{name}.npy", mmap_mode="r+")
            file[start : start + labels.size] = values


def make_task(folder: str = "mapped-data", samples: int = 20_000) -> fl.Task:
    path = Path(folder)
    if not (path / "labels.npy").exists():
        write_data(path, samples)
    inputs = np.load(path / "inputs.npy", mmap_mode="r")
    labels = np.load(path / "labels.npy", mmap_mode="r")
    cut = len(inputs) - min(len(inputs) // 5, 2000)
    return fl.Task(
        name="memory-mapped rows",
        model=lambda: nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES)),
        loss=nn.CrossEntropyLoss(),
        train_data=(inputs[:cut], labels[:cut]),
        test_data=(inputs[cut:], labels[cut:]),
    )


if __name__ == "__main__":
    limits = fl.Limits(deadline=60, budget=60, cost_per_sample=0.0005, cost_per_round=1)
    print(fl.train(make_task(), devices="testbed5", limits=limits))
