"""Accuracy with bad clients, by the way to average, beside that of an honest run.

    python benchmarks/attacks.py --data-dir DATA [--model softmax] [--dataset mnist] [--rounds 60]
    python benchmarks/attacks.py --honest [--seeds 3] ...

Ten equal devices train with the default controller in simulation. One, two or three of them are
bad in every round. Simulated devices are not checked for what is plausible, as nodes are, so the
average is the only defence. It prints tables in Markdown, in which "ends" is a training that ended
because no model was finite any more.

- sign flip: a bad client sends its movement times -1.
- scaling: it sends its movement times -100.
- a little is enough: bad clients know all others, and send the mean minus as many standard
  deviations of each weight as go unnoticed (Baruch et al., NeurIPS 2019).
- label flip: it learns honestly, from labels y that are turned into 9 - y.

With ``--honest``, nobody is bad, and it shows what each way to average costs on data that is more
and more unequal.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist, mean, stdev
from typing import Any

import torch
from torch import Tensor

import dynamite_fl as fl
from dynamite_fl.job.build import Given, build_training
from dynamite_fl.job.training import TrainingJob, load_training_job
from dynamite_fl.task.registry import make_task
from dynamite_fl.training.engine import RoundOrder, RoundOutcome
from dynamite_fl.training.session import Session

CLIENTS = 10
BAD = (1, 2, 3)
AVERAGINGS = ["mean", "clipped-mean", "median", "trimmed-mean", "geometric-median"]
PARTITIONS = {
    "the same kind of data": '{kind="wang",case=1}',
    "Dirichlet 0.5": '{kind="dirichlet",alpha=0.5}',
}

HONEST = {
    **PARTITIONS,
    "Dirichlet 0.3": '{kind="dirichlet",alpha=0.3}',
    "Dirichlet 0.1": '{kind="dirichlet",alpha=0.1}',
    "by label": '{kind="wang",case=2}',
}

Attack = Callable[[Tensor, Sequence[Tensor], int], list[Tensor]]


def scaled(factor: float) -> Attack:
    """Return an attack that multiplies movements."""
    return lambda weights, updates, bad: [
        weights + factor * (update - weights) for update in updates[:bad]
    ]


def a_little(_: Tensor, updates: Sequence[Tensor], bad: int) -> list[Tensor]:
    """Return the mean of the honest models minus z standard deviations."""
    honest = torch.stack(list(updates[bad:]))
    count = len(updates)
    needed = count // 2 + 1 - bad  # honest clients that must be further away
    z = NormalDist().inv_cdf((count - bad - needed) / (count - bad))
    return [honest.mean(dim=0) - z * honest.std(dim=0)] * bad


ATTACKS: dict[str, Attack] = {
    "sign flip": scaled(-1.0),
    "scaling": scaled(-100.0),
    "a little is enough": a_little,
}


def flipped(task: fl.Task, rows: Sequence[int]) -> fl.Task:
    """Return a task in which the labels of some samples are turned into 9 - y."""
    inputs, targets = task.train.inputs, task.train.targets.clone()  # type: ignore[attr-defined]
    chosen = torch.tensor(rows)
    targets[chosen] = 9 - targets[chosen]
    return replace(task, train_data=(inputs, targets))


def accuracy(job: TrainingJob, task: fl.Task, attack: str | None, bad: int) -> str:
    """Return the test accuracy of a training with so many bad clients, in per cent."""
    training = build_training(job, given=Given(task=task))
    engine: Any = training.engine
    if attack == "label flip":
        rows = [int(row) for client in range(bad) for row in engine.partition.indices(client)]
        recipe = fl.partitions.fixed(
            [engine.partition.indices(client).tolist() for client in range(CLIENTS)]
        )
        given = Given(task=flipped(task, rows), partition=recipe)
        training = build_training(job, given=given)
    elif attack is not None:
        attacked(training.engine, ATTACKS[attack], bad)
    try:
        history = Session(training).run().history
    except fl.Diverged:
        return "ends"
    return f"{100 * history.final_metrics['accuracy']:.1f}"


def attacked(engine: Any, attack: Attack, bad: int) -> None:
    """Let the first clients of each round send what an attack makes of all models."""
    honest_round, trained = engine.run_round, engine.size.trained

    def run_round(order: RoundOrder) -> RoundOutcome:
        outcome: RoundOutcome = honest_round(order)
        parts = [update[:trained] for update in outcome.updates]
        lies = attack(order.weights[:trained], parts, bad)
        sent = [torch.cat([lie, outcome.updates[0][trained:]]) for lie in lies]
        return replace(outcome, updates=[*sent, *outcome.updates[bad:]])

    engine.run_round = run_round


def job_of(partition: str, averaging: str, rounds: int, seed: int = 0) -> TrainingJob:
    """Return a job for ten equal devices."""
    return load_training_job(
        None,
        [
            f"partition={partition}",
            f"averaging={table(averaging)}",
            f"limits.rounds={rounds}",
            f"training.seed={seed}",
            "limits.deadline=1e6",
            "limits.budget=1e6",
            "limits.max_local_steps=20",
            f"devices={{samples_per_second={[1000] * CLIENTS}}}",
        ],
    )


def show_honest(task: fl.Task, rounds: int, seeds: int) -> None:
    """Print the accuracy of honest trainings: mean and standard deviation over seeds."""
    print("| data | " + " | ".join(AVERAGINGS) + " |")
    print("|---" * (1 + len(AVERAGINGS)) + "|")
    for title, partition in HONEST.items():
        cells = []
        for name in AVERAGINGS:
            found = [
                float(accuracy(job_of(partition, name, rounds, seed), task, None, 0))
                for seed in range(seeds)
            ]
            spread = f" ± {stdev(found):.1f}" if seeds > 1 else ""
            cells.append(f"{mean(found):.1f}{spread}")
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--model", default="softmax")
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--honest", action="store_true", help="nobody is bad")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, with --honest")
    arguments = parser.parse_args()
    task = make_task(arguments.model, arguments.dataset, arguments.data_dir)
    if arguments.honest:
        show_honest(task, arguments.rounds, arguments.seeds)
        return
    for title, partition in PARTITIONS.items():
        print(f"\n{arguments.model} on {arguments.dataset}, {title}:\n")
        print("| attack | bad clients | " + " | ".join(AVERAGINGS) + " |")
        print("|---" * (2 + len(AVERAGINGS)) + "|")
        rows = [(None, 0), *((attack, bad) for attack in [*ATTACKS, "label flip"] for bad in BAD)]
        for attack, bad in rows:
            cells = [
                accuracy(job_of(partition, name, arguments.rounds), task, attack, bad)
                for name in AVERAGINGS
            ]
            share = f"{100 * bad // CLIENTS} %" if bad else "none"
            print(f"| {attack or 'honest'} | {share} | " + " | ".join(cells) + " |", flush=True)


def table(name: str) -> str:
    """Return the job's entry; a trimmed mean leaves out 30 % on each side."""
    return '{name="trimmed-mean",share=0.3}' if name == "trimmed-mean" else name


if __name__ == "__main__":
    main()
