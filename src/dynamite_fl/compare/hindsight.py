"""The best fixed setting in hindsight: local steps and a batch size that never change.

The best setting is known only after all were tried, and no controller can know it beforehand. The
share of the way from FedAvg to it that a controller covers is therefore a measure of the
controller.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.compare.summary import FEDAVG, ContenderSummary, RunResult, summarize
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.fitting import constant_plan, largest_batch
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.records import Fleet, Limits

FINALISTS = 3  # settings that are run on all seeds
_LOCAL_STEPS = (1, 2, 5, 10, 20, 40, 80)
_DIVISORS = (1, 2, 4)  # of the largest batch size
_REFINED = 2  # numbers of local steps for which all batch sizes are tried
_NAME = re.compile(r"fixed-(\d+)x(\d+)")


@dataclass(frozen=True, order=True)
class FixedSetting:
    """Fixed local steps and batch size.

    Attributes:
        local_steps: Local steps in every round.
        batch_size: Batch size of every client.

    Example:
        >>> setting = FixedSetting(5, 32)
        >>> setting.name, FixedSetting.from_name("fixed-5x32") == setting
        ('fixed-5x32', True)
    """

    local_steps: int
    batch_size: int

    @property
    def name(self) -> str:
        """Name of the contender that has this setting."""
        return f"fixed-{self.local_steps}x{self.batch_size}"

    @classmethod
    def from_name(cls, name: str) -> "FixedSetting | None":
        """Return the setting of a contender; None if it is not one with a fixed setting."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]))


@dataclass(frozen=True, eq=False)
class Hindsight:
    """How fixed settings compare with FedAvg and the controllers.

    Attributes:
        tried: The leading metric of every setting on the first seed, the best first.
        best: The setting with the best mean over all seeds, or FedAvg if it is better.
        gap: How much better the mean of the best is than FedAvg's; None if FedAvg did not finish.
        deviation: Standard deviation of the gap over seeds; None for a single seed.
        covered: Share of the gap that each contender covers; None where the gap is too small to
            compute a share.
    """

    tried: Mapping[FixedSetting, float]
    best: ContenderSummary
    gap: float | None
    deviation: float | None
    covered: Mapping[str, float | None]


# The settings to try


def settings_grid(
    fleet: Fleet, limits: Limits, known: FixedSetting | None = None
) -> list[FixedSetting]:
    """Return settings with few and many local steps and batch sizes that use up the limits.

    For each number of local steps, the batch sizes are the largest one that the budget alone and
    the one that the deadline alone allow in all rounds, their halves and their quarters. Where not
    one sample fits so many rounds, half as many rounds are assumed, and so on. FedAvg's own
    setting is in the grid too.

    Args:
        fleet: The clients of a round, with their nominal speeds.
        limits: The limits of the job.
        known: A setting to leave out because it is run anyway.

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
        >>> [setting.name for setting in settings_grid(fleet, limits)]
        ... # doctest: +NORMALIZE_WHITESPACE
        ['fixed-1x4', 'fixed-1x9', 'fixed-1x10', 'fixed-1x18', 'fixed-1x20', 'fixed-1x40',
         'fixed-2x2', 'fixed-2x4', 'fixed-2x5', 'fixed-2x9', 'fixed-2x10', 'fixed-2x20',
         'fixed-2x60']
    """
    settings = {_FEDAVG_SETTING} if _FEDAVG_SETTING.local_steps <= limits.max_local_steps else set()
    for steps in _LOCAL_STEPS:
        if steps <= limits.max_local_steps:
            sizes = _batch_sizes(fleet, limits, steps)
            settings |= {FixedSetting(steps, size) for size in sizes}
    return sorted(setting for setting in settings - {known} if _fits(fleet, limits, setting))


_FEDAVG_SETTING = FixedSetting(FedAvg.local_steps, FedAvg.batch_size)


def settings_to_start_with(
    fleet: Fleet, limits: Limits, grid: Sequence[FixedSetting]
) -> list[FixedSetting]:
    """Return one setting of the grid for each number of local steps.

    Its batch size is the one nearest to the largest that both limits allow.
    """
    chosen = set()
    for steps in {setting.local_steps for setting in grid}:
        largest = min(_largest_sizes(fleet, limits, steps))
        sizes = [setting.batch_size for setting in grid if setting.local_steps == steps]
        chosen.add(FixedSetting(steps, min(sizes, key=lambda size: abs(size - largest))))
    return [setting for setting in grid if setting in chosen]


def settings_near(best: Sequence[FixedSetting], grid: Sequence[FixedSetting]) -> list[FixedSetting]:
    """Return the settings of the grid that have the local steps of the best two.

    Example:
        >>> best = [FixedSetting(5, 8), FixedSetting(1, 9), FixedSetting(9, 9)]
        >>> grid = [FixedSetting(1, 2), FixedSetting(5, 8), FixedSetting(9, 9)]
        >>> [setting.name for setting in settings_near(best, grid)]
        ['fixed-1x2', 'fixed-5x8']
    """
    steps = {setting.local_steps for setting in best[:_REFINED]}
    return [setting for setting in grid if setting.local_steps in steps]


def _batch_sizes(fleet: Fleet, limits: Limits, local_steps: int) -> set[int]:
    largest = _largest_sizes(fleet, limits, local_steps)
    return {size // divisor for size in largest for divisor in _DIVISORS} - {0}


def _largest_sizes(fleet: Fleet, limits: Limits, local_steps: int) -> list[int]:
    """Return the largest batch sizes that the budget alone and the deadline alone allow."""
    single_limits = (replace(limits, deadline=inf), replace(limits, budget=inf))
    rounds = _rounds(fleet, limits)
    return [_largest_size(fleet, limit, rounds, local_steps) for limit in single_limits]


def _largest_size(fleet: Fleet, limits: Limits, rounds: int, local_steps: int) -> int:
    """Return the largest batch size for the rounds, or half of them, and so on; 0 if none fits."""
    while rounds > 0:
        size = largest_batch(fleet, limits, rounds, local_steps)
        if size > 0:
            return size
        rounds //= 2
    return 0


def _rounds(fleet: Fleet, limits: Limits) -> int:
    """Return the job's rounds; by default, as many as FedAvg, or one sample a client, allows."""
    if limits.rounds is not None:
        return limits.rounds
    setting = _FEDAVG_SETTING if _fits(fleet, limits, _FEDAVG_SETTING) else FixedSetting(1, 1)
    return constant_plan(fleet, limits, setting.local_steps, setting.batch_size).rounds


def _fits(fleet: Fleet, limits: Limits, setting: FixedSetting) -> bool:
    try:
        constant_plan(fleet, limits, setting.local_steps, setting.batch_size)
    except Infeasible:
        return False
    return True


# What they showed


def rank_settings(results: Sequence[RunResult]) -> dict[FixedSetting, float]:
    """Return the leading metrics of settings, the best first; other results are ignored."""
    histories = [(FixedSetting.from_name(result.contender), result.history) for result in results]
    histories.sort(key=lambda pair: pair[1].leading_metric.sort_key(pair[1].final))
    return {setting: history.final for setting, history in histories if setting is not None}


def look_back(
    fixed: Sequence[RunResult], contenders: Sequence[ContenderSummary], target: float
) -> Hindsight | None:
    """Compare the results of fixed settings with contenders; None if nothing finished.

    Args:
        fixed: Results of fixed settings: of all on the first seed, of the best on all seeds.
        contenders: Summaries of the contenders, FedAvg among them.
        target: The value of the leading metric to reach.
    """
    by_name = {contender.results[0].contender: contender for contender in contenders}
    fedavg = by_name.get(FEDAVG)
    candidates = [*summarize(fixed, target), *([fedavg] if fedavg is not None else [])]
    if not candidates:
        return None
    first_seed = min((result.seed for result in fixed), default=None)
    tried = rank_settings([result for result in fixed if result.seed == first_seed])
    seeds = max(len(candidate.results) for candidate in candidates)
    complete = [candidate for candidate in candidates if len(candidate.results) == seeds]
    metric = complete[0].leading_metric
    best = min(complete, key=lambda candidate: metric.sort_key(candidate.final.mean))
    if fedavg is None:
        return Hindsight(
            tried, best, None, None, {contender.contender: None for contender in contenders}
        )
    start, end = fedavg.final_by_seed, best.final_by_seed
    gap, deviation = _gap(start, end, sorted(start.keys() & end.keys()), metric)
    shares = {
        contender.contender: share_covered(contender.final_by_seed, start, end, metric)
        for contender in contenders
    }
    return Hindsight(tried, best, gap, deviation, shares)


def share_covered(
    own: Mapping[int, float],
    fedavg: Mapping[int, float],
    best: Mapping[int, float],
    metric: LeadingMetric = ACCURACY,
) -> float | None:
    """Compute the share of the way from FedAvg to the best setting that a contender covers.

    Gains are averaged over the seeds that all three have before they are divided, because the gap
    of a single seed may be close to zero.

    Args:
        own: The contender's leading metric by seed.
        fedavg: FedAvg's leading metric by seed.
        best: The best setting's leading metric by seed.
        metric: The leading metric.

    Returns:
        The share; None if there is no gap, or if it is below its own standard deviation over seeds.

    Example:
        >>> share_covered({0: 0.85, 1: 0.95}, fedavg={0: 0.7, 1: 0.8}, best={0: 0.9, 1: 1.0})
        0.75
    """
    seeds = sorted(own.keys() & fedavg.keys() & best.keys())
    gap, deviation = _gap(fedavg, best, seeds, metric)
    if gap is None or gap <= 0 or gap < (deviation or 0.0):
        return None
    gained = statistics.fmean(metric.gain(fedavg[seed], own[seed]) for seed in seeds)
    return round(gained / gap, 6)


def _gap(
    fedavg: Mapping[int, float],
    best: Mapping[int, float],
    seeds: Sequence[int],
    metric: LeadingMetric,
) -> tuple[float | None, float | None]:
    """Compute mean and standard deviation of the gains from FedAvg to the best, over seeds."""
    gaps = [metric.gain(fedavg[seed], best[seed]) for seed in seeds]
    mean = statistics.fmean(gaps) if gaps else None
    return mean, statistics.stdev(gaps) if len(gaps) > 1 else None
