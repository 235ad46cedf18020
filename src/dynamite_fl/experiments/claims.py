"""Claims of the paper, and whether they hold.

A claim is checked by comparisons, one for each panel, or one for each panel and rival. A difference
counts only if it exceeds its standard error over seeds, where contenders are compared on the same
seed. With two seeds, both must agree. A claim holds if all comparisons hold that were measured with
several seeds, and does not hold if one of them fails.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dynamite_fl.experiments.measures import MEASURES
from dynamite_fl.experiments.outcome import Outcome

_NOT_MEASURED = "not measured"
_EQUAL = 0.005  # the largest difference between equal numbers
_NEAR = 1.5  # the largest ratio of local steps that are near each other
_NUMBERS = ("above", "below", "equals")  # kinds that compare a measure with a number


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper.

    Attributes:
        says: The claim in words.
        kind: How it is checked:
            ``ahead``: the measure of ``of`` exceeds that of each contender in ``over`` by more
            than ``threshold``;
            ``alike``: they differ by at most ``threshold``, standard error included;
            ``above``, ``below`` and ``equals``: the measure of ``of`` is above, below or at
            ``threshold``;
            ``greater``: the measure of ``of``, less that of ``minus``, is greater in ``panels``
            than in each panel of ``than``;
            ``theorem-falls``: Theorem 2's local steps never rise with the rounds, and fall;
            ``theorem-near``: for ``rounds`` rounds they are about ``local_steps``.
        of: The contender that the claim is about.
        over: The contenders that it is compared with.
        measure: The measure that is compared.
        panels: The panels in which the claim is checked. Default: all.
        threshold: The number that a difference or a measure is compared with.
        lower: Whether ``ahead`` means to have less of the measure.
        relative: Whether differences are shares of the other contender's measure.
        at_round: The round after which the measure is taken. Default: at the end.
        minus: The contender whose measure is subtracted.
        than: The panels that ``panels`` are compared with.
        rounds: The number of rounds for which Theorem 2 proposes a plan.
        local_steps: The local steps that it should be near.
        also_of: A contender for which the same claim is checked separately.
        because: A likely reason why the claim does not hold, by scale. It is shown beside
            anybody's runs, so it has no measured figures.
    """

    says: str
    kind: str
    of: str = ""
    over: Sequence[str] = ()
    measure: str = "accuracy"
    panels: Sequence[str] = ()
    threshold: float = 0.0
    lower: bool = False
    relative: bool = False
    at_round: int | None = None
    minus: str = ""
    than: Sequence[str] = ()
    rounds: int = 0
    local_steps: int = 0
    also_of: str = ""
    because: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """One comparison that a claim is checked by.

    Attributes:
        where: The panel, and the contenders that are compared.
        measured: The difference in words, with its standard error.
        holds: Whether it agrees with the claim; None if the runs do not show it.
        value: The mean difference; None if there is no single number.
    """

    where: str
    measured: str = _NOT_MEASURED
    holds: bool | None = None
    value: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether there is anything to compare."""
        return self.measured != _NOT_MEASURED


@dataclass(frozen=True)
class Verdict:
    """A claim and whether it holds.

    Attributes:
        says: The claim in words.
        verdict: Whether it holds.
        comparisons: The comparisons that show it.
        because: A likely reason why it does not hold; empty if there is none.
        also_of: The contender for which the paper's claim was checked in place of the paper's own;
            empty for the paper's own.
    """

    says: str
    verdict: Literal["holds", "does not hold", "not at this scale", "one seed shows no spread"]
    comparisons: Sequence[Comparison]
    because: str = ""
    also_of: str = ""


def judge(
    claim: Claim, outcome: Outcome, scale: str, panels: Sequence[str], absent: Sequence[str] = ()
) -> list[Verdict]:
    """Return the verdict on a claim, and that on the same claim about ``also_of``.

    Args:
        claim: The claim.
        outcome: The measurements.
        scale: The scale of the runs.
        panels: The panels that this scale has.
        absent: The panels that the paper has and this scale does not have.
    """
    verdict = _verdict(claim, outcome, panels, absent)
    if verdict.verdict == "does not hold":
        verdict = replace(verdict, because=claim.because.get(scale, ""))
    if not claim.also_of:
        return [verdict]
    same = replace(claim, of=claim.also_of, says=f"the same for {claim.also_of}")
    return [verdict, replace(_verdict(same, outcome, panels, absent), also_of=claim.also_of)]


def _verdict(
    claim: Claim, outcome: Outcome, panels: Sequence[str], absent: Sequence[str]
) -> Verdict:
    wanted = claim.panels or [*panels, *absent]
    comparisons = [
        comparison
        for panel in wanted
        if panel in panels
        for comparison in _comparisons(claim, outcome, panel)
    ]
    comparisons += [Comparison(panel) for panel in wanted if panel in absent]
    judged = [each.holds for each in comparisons if each.holds is not None]
    if judged:
        return Verdict(claim.says, "holds" if all(judged) else "does not hold", comparisons)
    if any(each.is_measured for each in comparisons):
        return Verdict(claim.says, "one seed shows no spread", comparisons)
    return Verdict(claim.says, "not at this scale", comparisons)


def _comparisons(claim: Claim, outcome: Outcome, panel: str) -> Iterator[Comparison]:
    if claim.kind.startswith("theorem"):
        yield _theorem(claim, outcome, panel)
        return
    for where, values in _values(claim, outcome, panel):
        if not values:
            yield Comparison(where)
            continue
        mean, error = _mean_and_error(values)
        words, holds = _in_words(claim, mean, error), _holds(claim, values, mean, error)
        if claim.measure.endswith("_to_target") and not outcome.all_reach_target(panel, claim.of):
            words, holds = f"{words}; not all seeds reach the target", False
        yield Comparison(where, words, holds, mean)


def _values(claim: Claim, outcome: Outcome, panel: str) -> Iterator[tuple[str, list[float]]]:
    """Yield what is compared, and a number for each seed."""

    def measured(panel: str, contender: str) -> dict[int, float]:
        return outcome.values(panel, contender, claim.measure, claim.at_round)

    def lead(panel: str) -> dict[int, float]:
        ours = measured(panel, claim.of)
        return _differences(ours, measured(panel, claim.minus)) if claim.minus else ours

    if claim.kind in _NUMBERS:
        yield f"{panel}: {claim.of}", list(measured(panel, claim.of).values())
    elif claim.kind == "greater":
        whose = f"{claim.of} less {claim.minus}" if claim.minus else claim.of
        for other in claim.than:
            gaps = _differences(lead(panel), lead(other))
            yield f"{whose}: {panel} over {other}", list(gaps.values())
    else:
        word = "beside" if claim.kind == "alike" else "below" if claim.lower else "over"
        for rival in claim.over:
            theirs = measured(panel, rival)
            gaps = _differences(measured(panel, claim.of), theirs)
            sign = -1.0 if claim.lower else 1.0
            numbers = [
                sign * gap / (theirs[seed] if claim.relative else 1.0) for seed, gap in gaps.items()
            ]
            yield f"{panel}: {claim.of} {word} {rival}", numbers


def _differences(ours: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    return {seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs}


def _mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, which a single seed does not have."""
    count = len(values)
    error = statistics.stdev(values) / count**0.5 if count > 1 else None
    return statistics.fmean(values), error


def _holds(claim: Claim, values: Sequence[float], mean: float, error: float | None) -> bool | None:
    """Return whether a comparison agrees with the claim; None if one seed shows no spread."""
    if claim.kind == "equals":
        return all(abs(value - claim.threshold) <= _EQUAL for value in values)
    if error is None:
        return None
    if claim.kind == "alike":
        return abs(mean) + error <= claim.threshold
    if claim.kind == "below":
        return mean + error < claim.threshold
    return mean - error > claim.threshold


def _in_words(claim: Claim, mean: float, error: float | None) -> str:
    """Return a mean in words, as ``+3.1 ± 0.4 points`` or ``3.1 ± 0.4 less``."""
    is_number = claim.kind in _NUMBERS
    percent = claim.relative or MEASURES[claim.measure].is_percent
    factor = 100 if percent else 1
    decimals = 1 if percent or is_number or abs(mean) >= 1 else 3
    text = f"{factor * mean:+,.{decimals}f}"
    text += " (one seed)" if error is None else f" ± {factor * error:,.{decimals}f}"
    if is_number:
        return f"{text.lstrip('+')} %" if percent else text
    text += " %" if claim.relative else " points" if percent else ""
    if claim.lower:
        return f"{text.lstrip('+-')} {'less' if mean >= 0 else 'more'}"
    return text


def _theorem(claim: Claim, outcome: Outcome, panel: str) -> Comparison:
    """Compare the local steps that Theorem 2 proposes, with every seed."""
    plans = outcome.plans.get(panel, {}).values()
    if claim.kind == "theorem-falls":
        paths = [[plan[rounds][0] for rounds in sorted(plan)] for plan in plans]
        words = "; ".join(", ".join(map(str, path)) for path in paths)
        answers = [p == sorted(p, reverse=True) and p[-1] < p[0] for p in paths]
        return (
            Comparison(panel, f"local steps {words}", all(answers)) if paths else Comparison(panel)
        )
    steps = [plan[claim.rounds][0] for plan in plans if claim.rounds in plan]
    near = [claim.local_steps / _NEAR <= each <= claim.local_steps * _NEAR for each in steps]
    words = f"{claim.rounds} rounds: local steps {', '.join(map(str, steps))}"
    return Comparison(panel, words, all(near)) if steps else Comparison(panel)
