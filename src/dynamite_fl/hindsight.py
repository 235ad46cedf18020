"""The best fixed local steps and batch size, known only after all were tried.

No controller can know them beforehand, so how near one comes to them is a measure of it.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from dynamite_fl.compare import Contender
from dynamite_fl.control.fedavg import FedAvg
from dynamite_fl.control.rounds import largest_batch, repeated
from dynamite_fl.plan.infeasible import Infeasible
from dynamite_fl.records import Fleet, Limits
from dynamite_fl.report.summary import Result, Row, accuracies

FINALISTS = 3
_LOCAL_STEPS = (1, 2, 5, 10, 20, 40, 80)
_PARTS = (1, 2, 4)  # of the largest batch size
_CLOSER = 2  # numbers of local steps that are looked at closer


@dataclass(frozen=True, order=True)
class Pair:
    """Fixed local steps and batch size.

    Example:
        >>> pair = Pair(5, 32)
        >>> pair.name, Pair.named("fixed-5x32") == pair
        ('fixed-5x32', True)
    """

    local_steps: int
    batch_size: int

    @property
    def name(self) -> str:
        """What its runs are called."""
        return f"fixed-{self.local_steps}x{self.batch_size}"

    @classmethod
    def named(cls, name: str) -> "Pair":
        """The pair of this name."""
        steps, _, size = name.removeprefix("fixed-").partition("x")
        return cls(int(steps), int(size))

    @property
    def contender(self) -> Contender:
        """The controller that keeps to it."""
        table = {"name": "fixed", "local_steps": self.local_steps, "batch_size": self.batch_size}
        return Contender(self.name, table)


@dataclass(frozen=True, eq=False)
class Hindsight:
    """What the fixed pairs showed.

    Attributes:
        tried: Accuracy of all pairs on the first seed, the best first.
        best: The pair of the best mean over all seeds, or FedAvg itself.
        gap: From FedAvg's mean accuracy to the best's; None without FedAvg.
        deviation: Standard deviation of this gap over seeds; None for a single seed.
        covered: For each controller, which share of the gap it covers; None where the gap is
            too small to say.
    """

    tried: Mapping[Pair, float]
    best: Row
    gap: float | None
    deviation: float | None
    covered: Mapping[str, float | None]


def grid(fleet: Fleet, limits: Limits, known: Pair | None = None) -> list[Pair]:
    """Pairs that span the limits: for few and many local steps, batches that use them up.

    For each number of local steps these are the largest batch sizes that the budget and the
    deadline, each alone, leave for the job's rounds, a half and a quarter of them, and FedAvg's
    pair. Where not one sample fits so many rounds, half as many are tried, and so on.

    Args:
        fleet: A round's clients, at their nominal speeds.
        limits: Of the job.
        known: A pair that is left out, since it is run anyway.

    Example:
        >>> fleet = Fleet(samples=[99], gradient_variance=1, samples_per_second=100, comm_seconds=0)
        >>> limits = Limits(
        ...     deadline=20,
        ...     budget=90,
        ...     cost_per_sample=0.1,
        ...     cost_per_round=0,
        ...     rounds=50,
        ...     max_local_steps=2,
        ... )
        >>> grid(fleet, limits)  # doctest: +NORMALIZE_WHITESPACE
        [Pair(local_steps=1, batch_size=4), Pair(local_steps=1, batch_size=9),
         Pair(local_steps=1, batch_size=10), Pair(local_steps=1, batch_size=18),
         Pair(local_steps=1, batch_size=20), Pair(local_steps=1, batch_size=40),
         Pair(local_steps=2, batch_size=2), Pair(local_steps=2, batch_size=4),
         Pair(local_steps=2, batch_size=5), Pair(local_steps=2, batch_size=9),
         Pair(local_steps=2, batch_size=10), Pair(local_steps=2, batch_size=20),
         Pair(local_steps=2, batch_size=60)]
    """
    usual = Pair(FedAvg.local_steps, FedAvg.batch_size)
    pairs = {usual} if usual.local_steps <= limits.max_local_steps else set()
    for steps in _LOCAL_STEPS:
        if steps <= limits.max_local_steps:
            pairs |= {Pair(steps, size) for size in _batch_sizes(fleet, limits, steps)}
    return sorted(pair for pair in pairs - {known} if _fits(fleet, limits, pair))


def outline(fleet: Fleet, limits: Limits, pairs: Sequence[Pair]) -> list[Pair]:
    """Of a grid, for each number of local steps the batch size that both limits leave room for.

    They tell which numbers of local steps are worth a closer look: ``around`` has it.
    """
    nearest = set()
    for steps in {pair.local_steps for pair in pairs}:
        room = min(_largest_alone(fleet, limits, steps))  # FedAvg's perhaps, which is run anyway
        sizes = [pair.batch_size for pair in pairs if pair.local_steps == steps]
        nearest.add(Pair(steps, min(sizes, key=lambda size: abs(size - room))))
    return [pair for pair in pairs if pair in nearest]


def around(best: Sequence[Pair], pairs: Sequence[Pair]) -> list[Pair]:
    """Of a grid, the pairs with the local steps of the best few.

    Example:
        >>> around([Pair(5, 8), Pair(1, 9), Pair(9, 9)], [Pair(1, 2), Pair(5, 8), Pair(9, 9)])
        [Pair(local_steps=1, batch_size=2), Pair(local_steps=5, batch_size=8)]
    """
    steps = {pair.local_steps for pair in best[:_CLOSER]}
    return [pair for pair in pairs if pair.local_steps in steps]


def _batch_sizes(fleet: Fleet, limits: Limits, local_steps: int) -> set[int]:
    largest = _largest_alone(fleet, limits, local_steps)
    return {size // part for size in largest for part in _PARTS} - {0}


def _largest_alone(fleet: Fleet, limits: Limits, local_steps: int) -> list[int]:
    """The largest batch sizes that the budget and the deadline, each alone, leave room for."""
    alone = (replace(limits, deadline=inf), replace(limits, budget=inf))
    return [_largest(fleet, each, _rounds(fleet, limits), local_steps) for each in alone]


def _largest(fleet: Fleet, limits: Limits, rounds: int, local_steps: int) -> int:
    """The largest batch size for so many rounds, or for a half of them, and so on; 0 if none."""
    while rounds > 0:
        size = largest_batch(fleet, limits, rounds, local_steps)
        if size > 0:
            return size
        rounds //= 2
    return 0


def _rounds(fleet: Fleet, limits: Limits) -> int:
    """The job's rounds; where it has none, as many as fit FedAvg, or one sample a client."""
    if limits.rounds is not None:
        return limits.rounds
    usual = Pair(FedAvg.local_steps, FedAvg.batch_size)
    pair = usual if _fits(fleet, limits, usual) else Pair(1, 1)
    return repeated(fleet, limits, pair.local_steps, pair.batch_size).rounds


def _fits(fleet: Fleet, limits: Limits, pair: Pair) -> bool:
    try:
        repeated(fleet, limits, pair.local_steps, pair.batch_size)
    except Infeasible:
        return False
    return True


def ranked(results: Sequence[Result]) -> dict[Pair, float]:
    """Accuracies of pairs on one seed, the best first."""
    best_first = sorted(results, key=lambda each: -each.history.final_accuracy)
    return {Pair.named(each.contender): each.history.final_accuracy for each in best_first}


def look_back(
    tried: Mapping[Pair, float], candidates: Sequence[Row], rows: Sequence[Row], fedavg: Row | None
) -> Hindsight | None:
    """What the pairs showed; None if none of them finished.

    Args:
        tried: Accuracies of all pairs on the first seed.
        candidates: The pairs that were run on all seeds, and FedAvg, which is one too.
        rows: The controllers.
        fedavg: Where the way begins.
    """
    if not candidates:
        return None
    seeds = max(len(row.results) for row in candidates)
    complete = [row for row in candidates if len(row.results) == seeds]
    best = max(complete, key=lambda row: row.accuracy.mean)
    if fedavg is None:
        return Hindsight(tried, best, None, None, dict.fromkeys(row.contender for row in rows))
    start, end = accuracies(fedavg), accuracies(best)
    return Hindsight(
        tried,
        best,
        *_gap(start, end, sorted(start.keys() & end.keys())),
        {row.contender: covered(accuracies(row), start, end) for row in rows},
    )


def covered(
    own: Mapping[int, float], fedavg: Mapping[int, float], best: Mapping[int, float]
) -> float | None:
    """The share of the way from FedAvg to the best that a controller covers.

    Accuracies are by seed; those of the seeds that all three have are averaged before they are
    divided, since a single seed's gap may be next to nothing. None where the gap is below one
    standard deviation of itself over seeds, or no gap at all.

    Example:
        >>> covered({0: 0.85, 1: 0.95}, fedavg={0: 0.7, 1: 0.8}, best={0: 0.9, 1: 1.0})
        0.75
    """
    seeds = sorted(own.keys() & fedavg.keys() & best.keys())
    gap, deviation = _gap(fedavg, best, seeds)
    if gap is None or gap <= 0 or gap < (deviation or 0.0):
        return None
    done = statistics.fmean(own[seed] - fedavg[seed] for seed in seeds)
    return round(done / gap, 6)


def _gap(
    fedavg: Mapping[int, float], best: Mapping[int, float], seeds: Sequence[int]
) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the differences, seed by seed."""
    gaps = [best[seed] - fedavg[seed] for seed in seeds]
    mean = statistics.fmean(gaps) if gaps else None
    return mean, statistics.stdev(gaps) if len(gaps) > 1 else None
