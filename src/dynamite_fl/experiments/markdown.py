"""An experiment's summary in Markdown."""

import re
from collections.abc import Iterator, Sequence

from dynamite_fl.compare.summary import Spread
from dynamite_fl.experiments import origin
from dynamite_fl.experiments.claims import Comparison, Verdict
from dynamite_fl.experiments.experiment import Experiment
from dynamite_fl.experiments.measures import MEASURES
from dynamite_fl.experiments.summary import Summary

_FEW = 4  # the number of comparisons up to which all are written out


def section(summary: Summary, picture: str, level: int) -> str:
    """Return a section: the runs, the figure, the numbers, and each claim with its verdict.

    Args:
        summary: The experiment.
        picture: The path of the figure, relative to the page.
        level: The level of the heading.
    """
    title = heading(summary.experiment, summary.runs.scale)
    lines = [f"{'#' * level} {title}", "", *_runs(summary), ""]
    lines += [f"![{summary.experiment.title}]({picture})", ""]
    for measure in summary.measures:
        lines += _numbers(summary, measure)
    lines += ["| the paper's claim | verdict | measured |", "|---|---|---|"]
    for verdict in summary.verdicts:
        says = f"*{verdict.says}*" if verdict.also_of else verdict.says
        fails = verdict.verdict == "does not hold"
        judged = f"**{verdict.verdict}**" if fails else verdict.verdict
        measured = measured_in_words(verdict)
        if verdict.because:
            measured += f". {reason_in_words(verdict)}"
        lines.append(f"| {_cell(says)} | {judged} | {_cell(measured)} |")
    return "\n".join(lines) + "\n"


def heading(experiment: Experiment, scale: str) -> str:
    """Return an experiment's name, scale and title."""
    return f"{experiment.name} ({scale}): {experiment.title}"


def finished_in_section(text: str) -> int:
    """Return the number of runs that a section shows; 0 if it does not say.

    Example:
        >>> finished_in_section("7 of 40 runs are finished (seeds 0).")
        7
    """
    found = re.search(r"^(\d+) of \d+ runs are finished", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def measured_in_words(verdict: Verdict) -> str:
    """Return all comparisons if they are few, else how many hold and those that do not."""
    judged = [each for each in verdict.comparisons if each.holds is not None]
    unjudged = [each for each in verdict.comparisons if each.holds is None]
    if not judged:
        return _unjudged_in_words(unjudged)
    shown = judged if len(judged) <= _FEW else [each for each in judged if not each.holds]
    words = [f"{each.where}: {each.measured}" for each in shown]
    if len(judged) > _FEW:
        words.insert(0, _count_in_words(judged))
    if unjudged:
        words.append(_unjudged_in_words(unjudged))
    return "; ".join(words)


def reason_in_words(verdict: Verdict) -> str:
    """Return the likely reason, marked as such: it was written by hand and not measured."""
    return f"Likely why: {verdict.because}"


def _count_in_words(judged: Sequence[Comparison]) -> str:
    """Return how many comparisons hold, and which of those has the smallest difference."""
    holding = [comparison for comparison in judged if comparison.holds]
    words = f"{len(holding)} of {len(judged)} comparisons hold"
    if not holding:
        return words
    least = min(holding, key=lambda comparison: abs(comparison.value or 0.0))
    return f"{words}, the least of them {least.where}: {least.measured}"


def _unjudged_in_words(comparisons: Sequence[Comparison]) -> str:
    """Return what one seed shows, or the comparisons that were not measured."""
    single = [f"{each.where}: {each.measured}" for each in comparisons if each.is_measured]
    if single:
        return f"{_first_few(single, '; ')}, which shows no spread"
    places = list(dict.fromkeys(each.where for each in comparisons))
    return f"not measured: {_first_few(places, ', ')}"


def _first_few(words: Sequence[str], separator: str) -> str:
    """Return the first words, and how many more there are."""
    more = f" and {len(words) - _FEW} more" if len(words) > _FEW else ""
    return f"{separator.join(words[:_FEW])}{more}"


def _runs(summary: Summary) -> Iterator[str]:
    outcome = summary.outcome
    yield f"This is the paper's `{summary.experiment.shows}`, made with `{summary.command}`."
    seeds = ", ".join(map(str, outcome.seeds)) or "none"
    runs = f"{outcome.finished} of {outcome.runs} runs are finished (seeds {seeds})"
    if outcome.origins:
        yield f"{runs}; they were made {origin.in_words(outcome.origins)}."
    else:
        yield f"{runs}."
    note = summary.experiment.notes.get(summary.runs.scale)
    if note:
        yield note
    for name, reason in outcome.failures.items():
        yield f"The run `{name}` failed: {reason}."


def _numbers(summary: Summary, measure: str) -> list[str]:
    """Return a table with a row for each panel, and the paper's accuracies in brackets.

    Only accuracies are also shown of panels that were not run. The list is empty if there are none.
    """
    contenders, panels = summary.experiment.contenders, summary.experiment.panels
    rows = []
    for name in summary.panels:
        spreads = {key: summary.outcome.spread(name, key, measure) for key in contenders}
        if measure != "accuracy" and not any(spreads.values()):
            continue
        cells = [number_in_words(spread, measure) for spread in spreads.values()]
        if measure == "accuracy":
            published = panels[name].published
            texts = [
                f" (paper {published[key]:.1%})" if key in published else "" for key in spreads
            ]
            cells = [cell + text for cell, text in zip(cells, texts, strict=True)]
        rows.append(f"| {panels[name].title} | {' | '.join(cells)} |")
    titles = [contender.title for contender in contenders.values()]
    head = f"| {MEASURES[measure].title} | {' | '.join(titles)} |"
    return [head, "|---" * (1 + len(titles)) + "|", *rows, ""] if rows else []


def number_in_words(spread: Spread | None, measure: str) -> str:
    """Return mean and standard deviation over seeds, or a dash if there are none."""
    if spread is None:
        return "-"
    format_spec = MEASURES[measure].format_spec
    text = format(spread.mean, format_spec)
    if spread.deviation is None:
        return text
    if MEASURES[measure].is_percent:
        return f"{text} ± {100 * spread.deviation:.1f}"
    return f"{text} ± {format(spread.deviation, format_spec.lstrip('+'))}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
