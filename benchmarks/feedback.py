"""The feedback beside FedAvg, the paper's rule and the best fixed setting in hindsight.

    python benchmarks/feedback.py --data-dir DATA [--seeds 3] [--runs runs/feedback]
        [--only softmax time] [--list]

Cases differ from a first one (MNIST, 20 machines, Dirichlet 0.3, learning rate 0.01, 100 rounds) in
model, data, learning rate, rounds, what a step costs beyond its samples, which limit binds, and
whether data streams in. As in the paper's figure, cost-bound limits are 1.04 times what FedAvg's
default costs and 1.3 times what it takes; time-bound ones are twice the cost and half the time.
Finished runs are kept, so that the command can be repeated. It prints a table in Markdown.
"""

import statistics
from dataclasses import dataclass, replace
from typing import Any

from comparing import compared, parser_of, percent
from dynamite_fl.engine.fleets import embedded_fleet

OURS = ["dynamite-feedback", "dynamite"]
PARTITIONS = {
    "Dirichlet 0.3": 'kind = "dirichlet"\nalpha = 0.3',
    "by label": 'kind = "wang"\ncase = 2',
    "i.i.d.": 'kind = "wang"\ncase = 1',
    "all for all": 'kind = "wang"\ncase = 3',
}
# Seconds and cost of a round of FedAvg's default, beside what a round costs whatever is done.
FLEETS = {"vm20": (1.28, 3.2, 2.0), "testbed5": (0.88, 0.8, 0.5)}
HEADINGS = ["model", "data", "rate", "rounds", "a step's overhead", "bound by", "fedavg"]
HEADINGS += ["dynamite", "feedback", "best fixed", "dynamite, of the way", "feedback, of the way"]
BOUNDS = {"cost": (1.3, 1.04), "time": (0.52, 2.08)}


@dataclass(frozen=True)
class Case:
    """What is learned, from what, and within which limits."""

    model: str
    partition: str = "Dirichlet 0.3"
    bound: str = "cost"
    rate: float = 0.01
    rounds: int = 100
    overhead: float | None = None  # seconds of a step beyond its samples; None: the fleet's own
    stream: str | None = None
    dataset: str = "mnist"
    fleet: str = "vm20"

    @property
    def cells(self) -> list[str]:
        """What tells it from the others, as cells of a table."""
        data = self.partition if self.stream is None else f"stream {self.stream}"
        own = f"{1000 * self.overhead:g} ms" if self.overhead is not None else "6-13 ms"
        if self.fleet == "testbed5":
            own = "4-9 ms"
        return [
            f"{self.model}, {self.dataset}",
            data,
            f"{self.rate:g}",
            str(self.rounds),
            own,
            self.bound,
        ]

    @property
    def name(self) -> str:
        """What its folder is called."""
        return "-".join(self.cells).replace(" ", "-").replace(",", "")

    @property
    def job(self) -> str:
        """Its job file."""
        seconds, cost, cost_per_round = FLEETS[self.fleet]
        more_seconds, more_cost = BOUNDS[self.bound]
        stream = f'[stream]\npreset = "{self.stream}"\nscale = {self.rounds / 1200}\n'
        return f"""
{self._devices}

[task]
model = "{self.model}"
dataset = "{self.dataset}"

[partition]
{PARTITIONS[self.partition]}

[limits]
rounds = {self.rounds}
deadline = {self.rounds * seconds * more_seconds:.1f}
budget = {self.rounds * cost * more_cost:.1f}
cost_per_sample = 0.0005
cost_per_round = {cost_per_round}

[controller]
name = "dynamite-feedback"

[training]
learning_rate = {self.rate}
evaluate_every = 20

{stream if self.stream else ""}"""

    @property
    def _devices(self) -> str:
        if self.overhead is None:
            return f'devices = "{self.fleet}"'
        devices = embedded_fleet(self.fleet)
        columns = ["samples_per_second", "latency", "bandwidth", "jitter", "comm_jitter", "drift"]
        lines = [f"{key} = {getattr(devices, key).tolist()}" for key in columns]
        return "\n".join(["[devices]", f"step_overhead = {self.overhead}", *lines])


def cases() -> list[Case]:
    """All of them, the quick ones first."""
    bounds, partitions = [*BOUNDS], [*PARTITIONS][:3]
    linear = [Case(m, p, b) for m in ("softmax", "svm") for p in partitions for b in bounds]
    for rate in (0.003, 0.03):
        linear += [Case("softmax", bound=bound, rate=rate) for bound in bounds]
        linear += [Case("softmax", "by label", "time", rate), Case("svm", rate=rate)]
    streams = ("smooth-c", "burst")
    linear += [
        Case("softmax", "all for all", b, rounds=120, stream=s) for s in streams for b in bounds
    ]
    linear += [Case("softmax", bound="time", overhead=overhead) for overhead in (0.0, 0.005)]
    linear += [Case("softmax", rounds=500), Case("softmax", "by label", "time", rounds=500)]
    layers = [Case("perceptron", p, b) for p in partitions for b in bounds]
    layers += [Case("perceptron", rate=rate) for rate in (0.003, 0.03)]
    layers += [Case("perceptron", bound="time", overhead=overhead) for overhead in (0.0, 0.005)]
    layers += [Case("perceptron", rounds=500)]
    cnn = [Case("cnn"), Case("cnn", "by label", "time")]
    cnn += [Case("cnn", bound=bound, dataset="cifar10") for bound in bounds]
    return linear + layers + [replace(case, rounds=40, fleet="testbed5") for case in cnn]


def row(case: Case, found: dict[str, Any]) -> str:
    """A line of the table."""
    rows = {each["controller"]: each for each in found["controllers"]}
    looked = found["hindsight"]
    best = looked["best"]
    pair = f"{best['controller'].removeprefix('fixed-')}: {percent(best['accuracy'])}"
    texts = [percent(rows[name]["accuracy"]) for name in ("fedavg", "dynamite")]
    texts += [f"**{percent(rows['dynamite-feedback']['accuracy'])}**", pair]
    texts += [share(looked["covered"][name]) for name in reversed(OURS)]
    return f"| {' | '.join([*case.cells, *texts])} |"


def share(covered: float | None) -> str:
    return "n/a" if covered is None else f"{covered:.0%}"


def main() -> None:
    parser = parser_of(__doc__, "runs/feedback")
    parser.add_argument("--only", nargs="+", default=[], help="words that a case must have, all")
    parser.add_argument("--list", action="store_true", help="print the cases' names")
    arguments = parser.parse_args()
    chosen = [case for case in cases() if all(word in case.name for word in arguments.only)]
    if arguments.list:
        raise SystemExit("\n".join(case.name for case in chosen))
    print(f"| {' | '.join(HEADINGS)} |")
    print("|---" * len(HEADINGS) + "|")
    covered: dict[str, list[float]] = {name: [] for name in OURS}
    for case in chosen:
        found = compared(arguments, case.name, case.job, [*OURS, "fedavg"], "--hindsight")
        print(row(case, found), flush=True)
        for name in OURS:
            if (part := found["hindsight"]["covered"][name]) is not None:
                covered[name].append(part)
    for name, shares in covered.items():
        print(
            f"\n{name}: {statistics.fmean(shares):.0%} of the way on average, {min(shares):.0%} at "
            f"least, of {len(shares)} cases"
        )


if __name__ == "__main__":
    main()
