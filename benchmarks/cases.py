"""The jobs on which the feedback is measured.

They differ from a first one (MNIST, 20 machines, Dirichlet 0.3, plain SGD, 100 rounds) in model,
data, optimiser, rounds, what a step costs beyond its samples, which limit binds, and whether data
streams in. As in the paper's figure, cost-bound limits are 1.04 times what FedAvg's default costs
and 1.3 times what it takes; time-bound ones are twice the cost and half the time. No job has a
learning rate: controllers choose it, and baselines have the best one in hindsight. The ResNet is
that of ``examples``, where ``comparing.py`` finds it.
"""

from dataclasses import dataclass, replace

from dynamite_fl.simulation.fleets import embedded_fleet

PARTITIONS = {
    "Dirichlet 0.3": 'kind = "dirichlet"\nalpha = 0.3',
    "by label": 'kind = "wang"\ncase = 2',
    "i.i.d.": 'kind = "wang"\ncase = 1',
    "all for all": 'kind = "wang"\ncase = 3',
}
# Seconds and cost of a round of FedAvg's default, beside what a round costs whatever is done.
FLEETS = {"vm20": (1.28, 3.2, 2.0), "testbed5": (0.88, 0.8, 0.5)}
BOUNDS = {"cost": (1.3, 1.04), "time": (0.52, 2.08), "little": (2.6, 2.08)}
OPTIMIZERS = {
    "SGD": "",
    "momentum 0.9": '[optimizer]\nname = "SGD"\nmomentum = 0.9\n',
    "AdamW": '[optimizer]\nname = "AdamW"\n',
}
HEADINGS = ["model", "data", "optimiser", "rounds", "a step's overhead", "bound by"]


@dataclass(frozen=True)
class Case:
    """What is learned, from what, and within which limits."""

    model: str
    partition: str = "Dirichlet 0.3"
    bound: str = "cost"
    rate: float | None = None  # None: it is for the controller to choose
    rounds: int = 100
    overhead: float | None = None  # seconds of a step beyond its samples; None: the fleet's own
    stream: str | None = None
    dataset: str = "mnist"
    fleet: str = "vm20"
    optimizer: str = "SGD"
    stragglers: int = 0  # devices that compute at a tenth of their speed
    limits_for: int | None = None  # rounds that the limits are made for; None: as many as there are
    max_local_steps: int = 100

    @property
    def cells(self) -> list[str]:
        """What tells it from the others, as cells of a table."""
        data = self.partition if self.stream is None else f"stream {self.stream}"
        own = f"{1000 * self.overhead:g} ms" if self.overhead is not None else "6-13 ms"
        if self.fleet == "testbed5":
            own = "4-9 ms"
        if self.stragglers:
            own += f", {self.stragglers} stragglers"
        return [
            f"{self.model}, {self.dataset}",
            data,
            self.optimizer,
            str(self.rounds),
            own,
            self.bound,
        ]

    @property
    def name(self) -> str:
        """What its folder is called."""
        words = [*self.cells, *([] if self.rate is None else [f"rate {self.rate:g}"])]
        return "-".join(words).replace(" ", "-").replace(",", "")

    @property
    def job(self) -> str:
        """Its job file."""
        seconds, cost, cost_per_round = FLEETS[self.fleet]
        more_seconds, more_cost = BOUNDS[self.bound]
        limits_for = self.limits_for or self.rounds
        rate = "" if self.rate is None else f"learning_rate = {self.rate}"
        stream = f'[stream]\npreset = "{self.stream}"\nscale = {self.rounds / 1200}\n'
        return f"""
{self._devices}

[task]
{self._task}

[partition]
{PARTITIONS[self.partition]}

[limits]
rounds = {self.rounds}
deadline = {limits_for * seconds * more_seconds:.1f}
budget = {limits_for * cost * more_cost:.1f}
cost_per_sample = 0.0005
cost_per_round = {cost_per_round}
max_local_steps = {self.max_local_steps}

[controller]
name = "dynamite-feedback"

[training]
{rate}
evaluate_every = 20

{OPTIMIZERS[self.optimizer]}
{stream if self.stream else ""}"""

    @property
    def _task(self) -> str:
        if self.model == "resnet":  # a network of 18 layers with batch normalisation
            return 'use = "resnet_cifar10:make_task"'
        return f'model = "{self.model}"\ndataset = "{self.dataset}"'

    @property
    def _devices(self) -> str:
        if self.overhead is None and not self.stragglers:
            return f'devices = "{self.fleet}"'
        devices = embedded_fleet(self.fleet)
        speeds = devices.samples_per_second.copy()
        speeds[: self.stragglers] /= 10
        columns = ["latency", "bandwidth", "jitter", "comm_jitter", "drift"]
        lines = [f"{key} = {getattr(devices, key).tolist()}" for key in columns]
        overhead = devices.step_overhead.tolist() if self.overhead is None else self.overhead
        lines += [f"samples_per_second = {speeds.tolist()}", f"step_overhead = {overhead}"]
        return "\n".join(["[devices]", *lines])


def cases() -> list[Case]:
    """All of them, the quick ones first."""
    bounds, partitions = ["cost", "time"], [*PARTITIONS][:3]
    linear = [Case(m, p, b) for m in ("softmax", "svm") for p in partitions for b in bounds]
    streams = ("smooth-c", "burst")
    linear += [
        Case("softmax", "all for all", b, rounds=120, stream=s) for s in streams for b in bounds
    ]
    linear += [Case("softmax", bound="time", overhead=overhead) for overhead in (0.0, 0.005)]
    layers = [Case("perceptron", p, b) for p in partitions for b in bounds]
    layers += [Case("perceptron", bound="time", overhead=overhead) for overhead in (0.0, 0.005)]
    for optimizer in ("momentum 0.9", "AdamW"):
        layers += [Case("softmax", bound="time", optimizer=optimizer)]
        layers += [Case("perceptron", "by label", rounds=60, optimizer=optimizer)]
    long = [Case("softmax", rounds=500), Case("softmax", "by label", "time", rounds=500)]
    long += [Case("perceptron", rounds=500)]
    cnn = [Case("cnn"), Case("cnn", "by label", "time")]
    cnn += [Case("cnn", optimizer=optimizer) for optimizer in ("momentum 0.9", "AdamW")]
    cnn += [Case("cnn", bound=bound, dataset="cifar10") for bound in bounds]
    cnn += [Case("resnet", dataset="cifar10", optimizer=name) for name in ("SGD", "momentum 0.9")]
    return linear + layers + long + [replace(case, rounds=40, fleet="testbed5") for case in cnn]
