"""How long buffers take for a million arrivals at once, and in portions of a thousand.

    python benchmarks/buffers.py

It prints a table in Markdown, medians of nine.
"""

import statistics
import time

import numpy as np

from dynamite_fl.stream.buffer import NOTHING, POLICIES, Storage

ARRIVALS, SIZE = 1_000_000, 10_000


def seconds(storage: Storage, portions: int) -> float:
    """Return the median time to take in all arrivals, in seconds."""
    arrivals = np.array_split(np.arange(ARRIVALS), portions)
    times = []
    for _ in range(9):
        begin, buffer = time.perf_counter(), NOTHING
        for each in arrivals:
            buffer, _ = storage.take(0, buffer, each)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    print("| buffer | at once, ms | in a thousand portions, ms |\n|---|---|---|")
    for policy in POLICIES:
        bounded = policy != "unbounded"
        storage = Storage(policy, SIZE if bounded else None)
        portions = f"{1000 * seconds(storage, 1000):.0f}" if bounded else "-"
        print(f"| {policy} | {1000 * seconds(storage, 1):.0f} | {portions} |", flush=True)


if __name__ == "__main__":
    main()
