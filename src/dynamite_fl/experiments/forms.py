"""The forms that a claim of the paper can have, and when each of its comparisons holds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dynamite_fl.experiments.claim import Claim, Piece
from dynamite_fl.experiments.found import Difference, Found, difference_of
from dynamite_fl.experiments.words import lead_in_words, level_in_words


@dataclass(frozen=True, kw_only=True)
class Ahead(Claim):
    """One contender has more of a measure than each of the others.

    Attributes:
        of: Who is ahead.
        over: Of whom.
        by: By at least this much.
        lower: Whether less is better.
        share: Whether ``by`` and the figures are shares of the other's.
        at_round: When; at the end without it.
    """

    of: str
    over: Sequence[str]
    by: float = 0.0
    lower: bool = False
    share: bool = False
    at_round: int | None = None

    def pieces(self, found: Found, panels: Sequence[str]) -> Iterator[Piece]:
        """One for each panel and rival."""
        for panel in panels:
            ours = found.values(panel, self.of, self.measure, self.at_round)
            for rival in self.over:
                theirs = found.values(panel, rival, self.measure, self.at_round)
                yield self._piece(found, panel, rival, ours, theirs)

    def _piece(
        self,
        found: Found,
        panel: str,
        rival: str,
        ours: dict[int, float],
        theirs: dict[int, float],
    ) -> Piece:
        where = f"{panel}: {self.of} {'below' if self.lower else 'over'} {rival}"
        seeds = [seed for seed in ours if seed in theirs]
        if not seeds:
            return Piece(where, "not measured", None)
        sign = -1.0 if self.lower else 1.0
        gains = [
            sign * (ours[seed] - theirs[seed]) / (theirs[seed] if self.share else 1.0)
            for seed in seeds
        ]
        lead = difference_of(gains)
        words = lead_in_words(lead, self.measure, self.share, self.lower)
        if self.measure.endswith("_to_target") and not found.all_reach_target(panel, self.of):
            return Piece(where, f"{words}; not all seeds reach the target", False, lead.mean)
        return Piece(where, words, lead.exceeds(self.by), lead.mean)


@dataclass(frozen=True, kw_only=True)
class Alike(Claim):
    """Contenders differ by no more than so much.

    Attributes:
        of: One.
        over: The others.
        within: The most that they may differ, standard error included.
    """

    of: str
    over: Sequence[str]
    within: float

    def pieces(self, found: Found, panels: Sequence[str]) -> Iterator[Piece]:
        """One for each panel and other."""
        for panel in panels:
            ours = found.values(panel, self.of, self.measure)
            for other in self.over:
                theirs = found.values(panel, other, self.measure)
                gaps = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
                yield _piece(
                    f"{panel}: {self.of} beside {other}",
                    difference_of(gaps) if gaps else None,
                    self.measure,
                    lambda gap: gap.stays_within(self.within),
                )


@dataclass(frozen=True, kw_only=True)
class Level(Claim):
    """A measure is above, below, or at a number.

    Attributes:
        of: Whose.
        above: Above this by more than its standard error.
        below: Below this by more than its standard error.
        equals: At this, to half a per cent, on every seed.
    """

    of: str
    above: float | None = None
    below: float | None = None
    equals: float | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.above, self.below, self.equals)) != 1:
            raise ValueError("Level.above, below and equals: give just one of them")

    def pieces(self, found: Found, panels: Sequence[str]) -> Iterator[Piece]:
        """One for each panel."""
        for panel in panels:
            values = list(found.values(panel, self.of, self.measure).values())
            where = f"{panel}: {self.of}"
            if not values:
                yield Piece(where, "not measured", None)
                continue
            level = difference_of(values)
            words = level_in_words(level, self.measure)
            yield Piece(where, words, self._judge(values, level), level.mean)

    def _judge(self, values: list[float], level: Difference) -> bool | None:
        if self.equals is not None:
            return all(abs(value - self.equals) <= 0.005 for value in values)
        if self.above is not None:
            return level.exceeds(self.above)
        return replace(level, mean=-level.mean).exceeds(-(self.below or 0.0))


@dataclass(frozen=True, kw_only=True)
class Greater(Claim):
    """A contender's measure, or its lead over another, is greater in one panel than in others.

    Attributes:
        of: Whose measure.
        less: From which that of this one is taken; none without it.
        panel: Where it is greater.
        than: Where it is less.
    """

    of: str
    panel: str
    than: Sequence[str]
    less: str = ""

    def pieces(self, found: Found, panels: Sequence[str]) -> Iterator[Piece]:
        """One for each of the other panels."""
        here = self._values(found, self.panel)
        whose = f"{self.of} less {self.less}" if self.less else self.of
        for other in self.than:
            there = self._values(found, other)
            gaps = [here[seed] - there[seed] for seed in here if seed in there]
            runs = self.panel in panels and other in panels and gaps
            yield _piece(
                f"{whose}: {self.panel} over {other}",
                difference_of(gaps) if runs else None,
                self.measure,
                lambda gap: gap.exceeds(),
            )

    def _values(self, found: Found, panel: str) -> dict[int, float]:
        ours = found.values(panel, self.of, self.measure)
        if not self.less:
            return ours
        theirs = found.values(panel, self.less, self.measure)
        return {seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs}


@dataclass(frozen=True, kw_only=True)
class TheoremTwo(Claim):
    """Theorem 2's local steps, on every seed: never rising with rounds, or near a number.

    Attributes:
        rounds: For how many; the local steps must be near ``local_steps`` there. Without it,
            they must never rise with the rounds, and be fewer at the end.
        local_steps: Which.
        factor: How many times more or fewer they may be.
    """

    measure: str = ""
    rounds: int | None = None
    local_steps: int | None = None
    factor: float = 1.5

    def __post_init__(self) -> None:
        if (self.rounds is None) != (self.local_steps is None):
            raise ValueError("TheoremTwo.rounds and local_steps: give both or none")

    def pieces(self, found: Found, panels: Sequence[str]) -> Iterator[Piece]:
        """One for each panel."""
        for panel in panels:
            by_seed = found.plans.get(panel, {})
            if self.rounds is None:
                paths = [[plan[k][0] for k in sorted(plan)] for plan in by_seed.values()]
                words = "; ".join(", ".join(map(str, path)) for path in paths)
                yield _every(panel, f"local steps {words}", [_falls(path) for path in paths])
            else:
                steps = [plan[self.rounds][0] for plan in by_seed.values() if self.rounds in plan]
                words = f"{self.rounds} rounds: local steps {', '.join(map(str, steps))}"
                yield _every(panel, words, [self._near(each) for each in steps])

    def _near(self, steps: int) -> bool:
        wanted = float(self.local_steps or 0)
        return wanted / self.factor <= steps <= wanted * self.factor


def _falls(path: list[int]) -> bool:
    return path == sorted(path, reverse=True) and path[-1] < path[0]


def _piece(
    where: str,
    gap: Difference | None,
    measure: str,
    holds: Callable[[Difference], bool | None],
) -> Piece:
    if gap is None:
        return Piece(where, "not measured", None)
    return Piece(where, lead_in_words(gap, measure), holds(gap), gap.mean)


def _every(panel: str, words: str, answers: list[bool]) -> Piece:
    return Piece(panel, words, all(answers)) if answers else Piece(panel, "not measured", None)
