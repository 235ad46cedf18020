"""DYNAMITE beside the baselines, and buffers beside each other, where data streams in.

    python benchmarks/streams.py --data-dir DATA [--dataset mnist] [--seeds 3] [--runs runs/streams]

Softmax regression on 20 machines (vm20), to all of which all data can come (Wang's case 3). The
paper's streams at a fifth: 240 rounds, in the last of which all has arrived. FedAvg's default takes
about 250 s and costs 768. Cost-bound limits are 1.04 times that cost and 1.6 times that time;
time-bound ones are about twice the cost and two thirds of the time. Dynamic-tau may count the
rounds as a third resource. Finished runs are kept, so that the command can be repeated. It prints
tables in Markdown.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from comparing import compared, parser_of, percent
from dynamite_fl.training.history import History, read_history

CONTROLLERS = ["dynamite-feedback", "dynamite", "fedavg", "no-straggler", "dynamic-tau"]
STREAMS = ["smooth-i", "smooth-c", "burst", "random"]
RIVALS = ["random", "fifo"]  # of the reservoir
LIMITS = {"cost": (400.0, 800.0), "time": (160.0, 1600.0)}
SCALE = 0.2
BURST = 100  # the round of it at that scale

JOB = """
devices = "vm20"

[task]
model = "softmax"
dataset = "{dataset}"

[partition]
kind = "wang"
case = 3

[limits]
rounds = 240
deadline = {deadline}
budget = {budget}
cost_per_sample = 0.0005
cost_per_round = 2

[controller]
name = "dynamic-tau"
count_rounds = true

[training]
learning_rate = 0.01
evaluate_every = {evaluate_every}

[stream]
preset = "{stream}"
scale = {scale}
"""


def compare(
    arguments: argparse.Namespace, stream: str, bound: str, names: Sequence[str], *more: str
) -> dict[str, dict[str, Any]]:
    """Return the rows of ``dynamite compare --json``, by contender."""
    deadline, budget = LIMITS[bound]
    job = JOB.format(
        dataset=arguments.dataset,
        stream=stream,
        deadline=deadline,
        budget=budget,
        scale=SCALE,
        evaluate_every=1 if stream == "burst" else 20,
    )
    found = compared(arguments, f"{arguments.dataset}-{stream}-{bound}", job, names, *more)
    return {row["controller"]: row for row in found["controllers"]}


def main() -> None:
    parser = parser_of(__doc__, "runs/streams")
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--bounds", nargs="+", default=[*LIMITS])
    arguments = parser.parse_args()
    found = {
        (stream, bound): compare(arguments, stream, bound, CONTROLLERS)
        for bound in arguments.bounds
        for stream in STREAMS
    }
    show_controllers(found)
    rivals = {
        (stream, bound): compare(
            arguments, stream, bound, ["dynamite"], "--buffers", ",".join(RIVALS)
        )
        for bound in arguments.bounds[:1]
        for stream in STREAMS
    }
    show_buffers(found, rivals)
    show_burst(found)
    show_trend(found)


def show_controllers(found: dict[tuple[str, str], dict[str, dict[str, Any]]]) -> None:
    """Test accuracy in per cent and rounds played; the best in bold."""
    print(f"\n| stream | bound by | {' | '.join(CONTROLLERS)} |")
    print("|---" * (2 + len(CONTROLLERS)) + "|")
    for (stream, bound), rows in found.items():
        best = max(rows, key=lambda name: rows[name]["final"]["mean"])
        cells = []
        for name in CONTROLLERS:
            text = percent(rows[name]["final"])
            text = f"**{text}**" if name == best else text
            cells.append(f"{text} ({rows[name]['rounds']['mean']:.0f})")
        print(f"| {stream} | {bound} | {' | '.join(cells)} |", flush=True)


def show_buffers(
    found: dict[tuple[str, str], dict[str, dict[str, Any]]],
    rivals: dict[tuple[str, str], dict[str, dict[str, Any]]],
) -> None:
    """Accuracy of all and of the worst class, by buffer."""
    buffers = ["reservoir", *RIVALS]
    print(f"\n| stream | {' | '.join(buffers)} | {' | '.join(f'{b}, worst' for b in buffers)} |")
    print("|---" * (1 + 2 * len(buffers)) + "|")
    for case, others in rivals.items():
        rows = [found[case]["dynamite"], *(others[f"dynamite+{buffer}"] for buffer in RIVALS)]
        cells = [percent(row[key]) for key in ("final", "worst_class") for row in rows]
        print(f"| {case[0]} | {' | '.join(cells)} |", flush=True)


def show_burst(found: dict[tuple[str, str], dict[str, dict[str, Any]]]) -> None:
    """Local steps around the burst, the loss of all that has arrived, and how long it stays up."""
    print("\n| bound by | controller | seed | steps before | in | after | loss before", end=" ")
    print("| at | 10 rounds later | rounds to half | rounds until back |")
    print("|---" * 11 + "|")
    for (stream, bound), rows in found.items():
        for name in ("dynamite", "fedavg") if stream == "burst" else ():
            for run in rows[name]["runs"]:
                print(f"| {bound} | {name} | {run['seed']} | {burst(history_of(run))} |")


def burst(history: History) -> str:
    """Return the cells of one run."""
    by_round = {record.round: record for record in history}
    steps = [mean_of(history, "local_steps", BURST - 5, BURST - 1)]
    steps += [by_round[BURST].local_steps, mean_of(history, "local_steps", BURST + 1, BURST + 5)]
    before, jump = (by_round[k].stream_loss or 0.0 for k in (BURST - 1, BURST))
    later = by_round[BURST + 10].stream_loss
    losses = {k: record.stream_loss or 0.0 for k, record in by_round.items() if k >= BURST}
    half = next((k - BURST for k, loss in losses.items() if loss < jump / 2), None)
    back = next((k - BURST for k, loss in losses.items() if loss <= before), None)
    numbers = [f"{each:.1f}" for each in steps] + [f"{x:.2f}" for x in (before, jump, later)]
    return " | ".join([*numbers, *("never" if k is None else str(k) for k in (half, back))])


def show_trend(found: dict[tuple[str, str], dict[str, dict[str, Any]]]) -> None:
    """DYNAMITE's local steps and mean batch over a training, means over its sixths and seeds."""
    print("\n| stream | bound by | local steps | mean batch |\n|---|---|---|---|")
    for (stream, bound), rows in found.items():
        runs = [history_of(run) for run in rows["dynamite"]["runs"]]
        columns = []
        for key in ("local_steps", "batch_mean"):
            sixths = [
                statistics.fmean(mean_of(history, key, first, first + 39) for history in runs)
                for first in range(1, 240, 40)
            ]
            columns.append(", ".join(f"{each:.1f}" for each in sixths))
        print(f"| {stream} | {bound} | {' | '.join(columns)} |")


def mean_of(history: History, field: str, first: int, last: int) -> float:
    """Return the mean over some rounds."""
    return statistics.fmean(
        getattr(record, field) for record in history if first <= record.round <= last
    )


def history_of(run: dict[str, Any]) -> History:
    return read_history(Path(run["folder"]) / "history.jsonl")


if __name__ == "__main__":
    main()
