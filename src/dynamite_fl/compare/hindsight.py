"""The best fixed setting in hindsight: a rate, local steps and a batch size that never change.

The best setting is known only after many were tried, and no controller can know it beforehand. The
share of the way from FedAvg to it that a controller covers is therefore a measure of the
controller. FedAvg is counted at its own best rate, as far as it was run at several.

``fixed_settings.py`` says which settings are tried.
"""

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynamite_fl._leading_metric import ACCURACY, LeadingMetric
from dynamite_fl.compare.names import method_of
from dynamite_fl.compare.summary import FEDAVG, ContenderSummary, RunResult, best_of, summarize

_NAME = re.compile(r"fixed-(\d+)x(\d+)(?:@([0-9.e+-]+))?")


@dataclass(frozen=True)
class FixedSetting:
    """Fixed local steps and batch size, and a fixed learning rate.

    Attributes:
        local_steps: Local steps in every round.
        batch_size: Batch size of every client.
        learning_rate: The learning rate; None for the job's own.

    Example:
        >>> setting = FixedSetting(5, 32, 0.1)
        >>> setting.name, FixedSetting.from_name("fixed-5x32@0.1") == setting
        ('fixed-5x32@0.1', True)
    """

    local_steps: int
    batch_size: int
    learning_rate: float | None = None

    @property
    def name(self) -> str:
        """Name of the contender that has this setting."""
        rate = "" if self.learning_rate is None else f"@{self.learning_rate:g}"
        return f"fixed-{self.local_steps}x{self.batch_size}{rate}"

    @classmethod
    def from_name(cls, name: str) -> "FixedSetting | None":
        """Return the setting of a contender; None if it is not one with a fixed setting."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        return cls(int(match[1]), int(match[2]), None if match[3] is None else float(match[3]))


@dataclass(frozen=True, eq=False)
class Hindsight:
    """How fixed settings compare with FedAvg and the controllers.

    Attributes:
        tried: The leading metric of every setting on the first seed, the best first.
        best: The setting with the best mean over all seeds, or FedAvg if it is better.
        fedavg: FedAvg at its best rate, from which gaps are counted; None if it did not finish.
        gap: How much better the mean of the best is than FedAvg's; None if FedAvg did not finish.
        deviation: Standard deviation of the gap over seeds; None for a single seed.
        covered: Share of the gap that each contender covers; None where the gap is too small to
            compute a share.
    """

    tried: Mapping[FixedSetting, float]
    best: ContenderSummary
    fedavg: ContenderSummary | None
    gap: float | None
    deviation: float | None
    covered: Mapping[str, float | None]


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
        contenders: Summaries of the contenders, FedAvg among them, at one rate or several.
        target: The value of the leading metric to reach.
    """
    ran = [row for row in contenders if method_of(row.results[0].contender) == FEDAVG]
    fedavg = best_of(ran) if ran else None
    candidates = [*summarize(fixed, target), *([fedavg] if fedavg is not None else [])]
    if not candidates:
        return None
    first_seed = min((result.seed for result in fixed), default=None)
    tried = rank_settings([result for result in fixed if result.seed == first_seed])
    best = best_of(candidates)
    if fedavg is None:
        return Hindsight(
            tried, best, None, None, None, {contender.contender: None for contender in contenders}
        )
    start, end, metric = fedavg.final_by_seed, best.final_by_seed, best.leading_metric
    gap, deviation = _gap(start, end, sorted(start.keys() & end.keys()), metric)
    shares = {
        contender.contender: share_covered(contender.final_by_seed, start, end, metric)
        for contender in contenders
    }
    return Hindsight(tried, best, fedavg, gap, deviation, shares)


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
