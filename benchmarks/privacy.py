"""Accuracy against epsilon: what differential privacy costs.

    python benchmarks/privacy.py [--seeds 3] [--clients 300] [--figure docs/privacy-accuracy.svg]

The embedded perceptron learns the embedded digits on equal devices that share the data evenly. All
trainings have the same rounds; the noise is the least that keeps epsilon. It prints a table in
Markdown, and draws the figure if one is asked for. No dataset has to be downloaded.
"""

import argparse
import io
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

import dynamite_fl as fl

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
CONTROLLERS = {"fedavg": "FedAvg", "dynamite-feedback": "feedback"}
ROUNDS, CLIP_NORM, RATE = 40, 0.5, 0.1
STYLE = {"svg.hashsalt": "dynamite", "svg.fonttype": "none", "font.size": 9, "axes.grid": True}

Accuracies = Mapping[tuple[str, float | None], Sequence[float]]  # by controller and epsilon


def accuracy(controller: str, epsilon: float | None, clients: int, seed: int) -> float:
    """Train once, and return the accuracy on the test data in per cent."""
    delta = None if epsilon is None else clients**-1.1
    result = fl.train(
        fl.make_task("perceptron", "digits"),
        devices=fl.Devices(samples_per_second=[200.0] * clients, latency=0.1),
        limits=fl.Limits(
            deadline=float("inf"),
            budget=float("inf"),
            cost_per_sample=0,
            cost_per_round=0,
            rounds=ROUNDS,
            epsilon=epsilon,
            delta=delta,
        ),
        privacy=None if epsilon is None else fl.Privacy(clip_norm=CLIP_NORM),
        controller=controller,
        learning_rate=RATE,
        seed=seed,
        evaluate_every=ROUNDS,
    )
    return 100 * result.metrics["accuracy"]


def draw(found: Accuracies, clients: int) -> str:
    """Return the figure as SVG."""
    with rc_context(STYLE):  # type: ignore[arg-type]  # its keys are literals of a long list
        figure = Figure(figsize=(4.6, 3.0), layout="constrained")
        axes = figure.subplots()
        for controller, colour in zip(CONTROLLERS, ("#0072b2", "#d55e00"), strict=True):
            values = [found[controller, epsilon] for epsilon in EPSILONS]
            means, spreads = zip(*map(mean_and_spread, values), strict=True)
            label = CONTROLLERS[controller]
            axes.errorbar(EPSILONS, means, spreads, color=colour, marker="o", ms=4, label=label)
            without = mean_and_spread(found[controller, None])[0]
            axes.axhline(without, color=colour, ls="--", lw=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.set_xlabel(f"epsilon of {ROUNDS} rounds on {clients} devices")
        axes.set_ylabel("test accuracy, %")
        axes.legend(title="dashed: no privacy")
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "dynamite"})
    return "\n".join(line.rstrip() for line in svg.getvalue().splitlines()) + "\n"


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--clients", type=int, default=300, help="number of devices")
    parser.add_argument("--figure", type=Path, help="an SVG file to write")
    arguments = parser.parse_args()
    found: dict[tuple[str, float | None], list[float]] = {}
    print(f"| epsilon | {' | '.join(CONTROLLERS.values())} |\n" + "|---" * 3 + "|")
    for epsilon in (*EPSILONS, None):
        cells = []
        for controller in CONTROLLERS:
            values = [
                accuracy(controller, epsilon, arguments.clients, seed)
                for seed in range(arguments.seeds)
            ]
            found[controller, epsilon] = values
            mean, spread = mean_and_spread(values)
            cells.append(f"{mean:.1f} ± {spread:.1f}")
        words = "no privacy" if epsilon is None else f"{epsilon:g}"
        print(f"| {words} | {' | '.join(cells)} |", flush=True)
    if arguments.figure is not None:
        arguments.figure.write_text(draw(found, arguments.clients), encoding="utf-8")


if __name__ == "__main__":
    main()
