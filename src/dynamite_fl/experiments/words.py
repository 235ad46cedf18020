"""Figures of claims in words."""

from dynamite_fl.experiments.found import Difference
from dynamite_fl.experiments.measures import MEASURES


def lead_in_words(gap: Difference, measure: str, share: bool = False, lower: bool = False) -> str:
    """A difference in words, as +3.1 ± 0.4 points, or as 3.1 ± 0.4 less."""
    percent = share or MEASURES[measure].form.endswith("%")
    unit = " %" if share else " points" if percent else ""
    text = _signed(gap, 100 if percent else 1, 1 if percent or abs(gap.mean) >= 1 else 3)
    if lower:
        return f"{text.lstrip('+-')}{unit} {'less' if gap.mean >= 0 else 'more'}"
    return text + unit


def level_in_words(level: Difference, measure: str) -> str:
    """A level in words."""
    percent = MEASURES[measure].form.endswith("%")
    text = _signed(level, 100 if percent else 1, 1)
    return f"{text.lstrip('+')} %" if percent else text


def _signed(gap: Difference, times: float, decimals: int) -> str:
    text = f"{times * gap.mean:+,.{decimals}f}"
    if gap.error is None:
        return f"{text} (one seed)"
    return f"{text} ± {times * gap.error:,.{decimals}f}"
