"""The rates at which a method is tried, to find its best one in hindsight.

The search first tries rates that are a factor of ten apart, and goes on beyond the last of them if
that one is the best. Then it tries rates beside the best one, at a half and at a quarter of the
distance. FedAdam and FedYogi have a rate at the server as well, which is searched with the rate of
local steps, at half the distance at the finest.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dynamite_fl.compare.names import ContenderName, method_of, rates_in
from dynamite_fl.compare.pattern_search import Pattern, Point
from dynamite_fl.compare.rates import FIRST_RATES, rate_at
from dynamite_fl.compare.summary import RunResult, best_of, summarize

_WITH_SERVER_RATE = ("fedadam", "fedyogi")
_FIRST_SERVER_RATE = -4  # the place of 0.1
_RATES_OF_A_SEARCH = 3  # the least that a search tries


def rates_to_try(method: str) -> Pattern:
    """Return where to search for the best rate of a method, as places of rates.

    Example:
        >>> [str(name_at("fedavg", point)) for point in rates_to_try("fedavg").start]
        ['fedavg@0.01', 'fedavg@0.1', 'fedavg@1']
    """
    if method in _WITH_SERVER_RATE:
        start = [(place, _FIRST_SERVER_RATE) for place in FIRST_RATES]
        return Pattern(start, [(1, 0), (0, 1)], strides=(4, 2))
    return Pattern([(place,) for place in FIRST_RATES], [(1,)], strides=(4, 2, 1))


def name_at(method: str, point: Point) -> ContenderName:
    """Return the name of a method at the rates of a point.

    Example:
        >>> str(name_at("fedadam", (-4, -8)))
        'fedadam@0.1x0.01'
    """
    return ContenderName(method, *(rate_at(place) for place in point))


@dataclass(frozen=True)
class Tuned:
    """A method at its best rate in hindsight.

    Attributes:
        method: The method.
        best: Title of the contender with the best mean over all seeds.
        tried: The leading metric of each contender on the first seed, by title, the best first.
    """

    method: str
    best: str
    tried: Mapping[str, float]


def tuned_by(method: str, results: Sequence[RunResult]) -> Tuned:
    """Choose the best rate of a method.

    Args:
        method: The method.
        results: At least one result: of all rates on the first seed, and of the best on all.
    """
    metric, first = results[0].history.leading_metric, min(result.seed for result in results)
    finals = {each.title: each.history.final for each in results if each.seed == first}
    ranked = sorted(finals, key=lambda name: metric.sort_key(finals[name]))
    best = best_of(summarize(results, target=metric.best(finals.values())))
    return Tuned(method, best.contender, {name: finals[name] for name in ranked})


class Titled(Protocol):
    """A run of a contender, which may be one of several comparisons."""

    @property
    def group(self) -> str:
        """Name of the comparison; empty if there is one only."""
        ...

    @property
    def contender(self) -> str:
        """Name of the contender."""
        ...


def tuned_methods(runs: Iterable[Titled]) -> set[tuple[str, str]]:
    """Return the methods that were run at three rates or more, each with its comparison.

    This tells a search from rates that a user chose, where only runs are known.
    """
    rates: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        if rates_in(run.contender):
            key = (run.group, method_of(run.contender))
            rates.setdefault(key, set()).add(rates_in(run.contender))
    return {key for key, values in rates.items() if len(values) >= _RATES_OF_A_SEARCH}


def is_trial(run: Titled, methods: Container[tuple[str, str]]) -> bool:
    """Return whether a run is one of the search for the best rate of one of these methods."""
    key = (run.group, method_of(run.contender))
    return bool(rates_in(run.contender)) and key in methods
