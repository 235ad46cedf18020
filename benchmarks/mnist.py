"""DYNAMITE beside the baselines on MNIST, at the paper's proportions of limits.

    python benchmarks/mnist.py --data-dir DATA [--seeds 3] [--runs runs/mnist] [--hindsight]

Softmax regression, SVM and perceptron on 20 machines (vm20), Dirichlet(0.3) and by label, 200
rounds. FedAvg's default takes about 256 s and costs 640. As in the paper's figure, cost-bound
limits are 1.04 times that cost and 1.3 times that time; time-bound ones are twice the cost and
half the time. Finished runs are kept, so that the command can be repeated. It prints a table of
test accuracies in Markdown.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CONTROLLERS = ["dynamite", "fedavg", "no-straggler", "dbfl", "dynamic-tau"]
MODELS = ["softmax", "svm", "perceptron"]
PARTITIONS = {
    "Dirichlet 0.3": 'kind = "dirichlet"\nalpha = 0.3',
    "by label": 'kind = "wang"\ncase = 2',
}
LIMITS = {"cost": (333.0, 667.0), "time": (133.0, 1333.0)}

JOB = """
devices = "vm20"

[task]
model = "{model}"
dataset = "mnist"

[partition]
{partition}

[limits]
rounds = 200
deadline = {deadline}
budget = {budget}
cost_per_sample = 0.0005
cost_per_round = 2

[controller]
name = "dynamite"

[training]
learning_rate = {rate}
evaluate_every = 20
"""


def compare(arguments: argparse.Namespace, name: str, job: str) -> dict[str, Any]:
    """One case, as ``dynamite compare --json`` reports it."""
    folder = Path(arguments.runs)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.toml"
    file.write_text(job)
    command = [
        sys.executable,
        "-c",
        "from dynamite_fl.cli import main; main()",
        "compare",
        str(file),
    ]
    command += ["--controllers", ",".join(CONTROLLERS), "--seeds", str(arguments.seeds), "--json"]
    command += ["--runs", str(folder), "--name", name, "--data-dir", arguments.data_dir]
    command += ["--hindsight"] if arguments.hindsight else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr.strip()[-500:]}")
    (folder / f"{name}.json").write_text(done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", default="runs/mnist")
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--hindsight", action="store_true")
    arguments = parser.parse_args()
    print(f"| model | data | bound by | {' | '.join(CONTROLLERS)} |")
    print("|---" * (3 + len(CONTROLLERS)) + "|")
    for model in arguments.models:
        for partition, table in PARTITIONS.items():
            for bound, (deadline, budget) in LIMITS.items():
                job = JOB.format(
                    model=model,
                    partition=table,
                    deadline=deadline,
                    budget=budget,
                    rate=arguments.rate,
                )
                name = f"{model}-{partition}-{bound}".replace(" ", "-")
                found = compare(arguments, name, job)
                print(f"| {model} | {partition} | {bound} | {cells(found)} |", flush=True)


def cells(found: dict[str, Any]) -> str:
    """Mean and deviation of each controller's test accuracy, in per cent; the best in bold."""
    rows = {row["controller"]: row["accuracy"] for row in found["controllers"]}
    texts = []
    for name in CONTROLLERS:
        mean, deviation = 100 * rows[name]["mean"], rows[name]["deviation"]
        text = f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {100 * deviation:.1f}"
        texts.append(f"**{text}**" if name == found["best"] else text)
    return " | ".join(texts)


if __name__ == "__main__":
    main()
