"""An experiment's verdict in Markdown."""

from collections.abc import Iterator, Sequence

from dynamite_fl.experiments.assess import Assessment
from dynamite_fl.experiments.claim import Piece
from dynamite_fl.experiments.claims import Judged
from dynamite_fl.experiments.measures import MEASURES
from dynamite_fl.experiments.origin import Origin
from dynamite_fl.report.summary import Spread

_FEW = 4  # comparisons that are all written out


def section(assessment: Assessment, picture: str, level: int) -> str:
    """What was run, the picture, the numbers, and each claim with its verdict."""
    lines = [f"{'#' * level} {assessment.experiment.name}: {assessment.experiment.title}", ""]
    lines += [*_how(assessment), ""]
    lines += [f"![{assessment.experiment.title}]({picture})", ""]
    for measure in assessment.measures:
        lines += [*_numbers(assessment, measure), ""]
    lines += ["| the paper's claim | verdict | measured |", "|---|---|---|"]
    for judged in assessment.judged:
        says = f"*{judged.says}*" if judged.also else judged.says
        lines.append(f"| {_cell(says)} | {_verdict(judged)} | {_cell(_measured(judged))} |")
    return "\n".join(lines) + "\n"


def played_by(origins: Sequence[Origin]) -> str:
    """Dates, versions and commits in words."""
    if not origins:
        return "not recorded"
    days = sorted({each.date for each in origins})
    versions = sorted({each.version for each in origins})
    commits = sorted({each.commit for each in origins if each.commit})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    by = f"version {', '.join(versions)}"
    return f"{when}, {by}" + (f", commit {', '.join(commits)}" if commits else "")


def measured_in_words(judged: Judged) -> str:
    """All comparisons if they are few, else how many hold, and those that do not."""
    known = [piece for piece in judged.pieces if piece.holds is not None]
    unknown = [piece for piece in judged.pieces if piece.holds is None]
    if not known:
        return _unknown(unknown)
    shown = known if len(known) <= _FEW else [piece for piece in known if not piece.holds]
    words = [f"{piece.where}: {piece.measured}" for piece in shown]
    if len(known) > _FEW:
        held = sum(piece.holds is True for piece in known)
        words.insert(0, f"{held} of {len(known)} comparisons hold" + _nearest(known))
    if unknown:
        words.append(_unknown(unknown))
    return "; ".join(words)


def likely(judged: Judged) -> str:
    """Its remark, marked as what it is: written by hand, not measured in these runs."""
    return f"Likely why: {judged.because}"


def _nearest(known: Sequence[Piece]) -> str:
    holding = [piece for piece in known if piece.holds and piece.value is not None]
    if not holding:
        return ""
    least = min(holding, key=lambda piece: abs(piece.value or 0.0))
    return f", the least of them {least.where}: {least.measured}"


def _unknown(pieces: Sequence[Piece]) -> str:
    if not pieces:
        return "not judged at this scale"
    single = [piece for piece in pieces if piece.measured != "not measured"]
    if single:
        return f"{single[0].where}: {single[0].measured}, which shows no spread"
    places = list(dict.fromkeys(piece.where for piece in pieces))
    more = f" and {len(places) - _FEW} more" if len(places) > _FEW else ""
    return f"not measured: {', '.join(places[:_FEW])}{more}"


def _how(assessment: Assessment) -> Iterator[str]:
    gathered, plays = assessment.gathered, assessment.plays
    yield f"The paper's `{assessment.experiment.shows}`. `{assessment.command}`:"
    yield f"{gathered.finished} of {gathered.wanted} runs, seeds {_list(gathered.seeds)};"
    yield f"played {played_by(gathered.origins)}."
    note = assessment.experiment.notes.get(plays.scale)
    if note:
        yield note
    for name, reason in gathered.failures.items():
        yield f"{name}: {reason}."


def _numbers(assessment: Assessment, measure: str) -> Iterator[str]:
    """A row for each panel; the paper's numbers in brackets."""
    experiment = assessment.experiment
    names = list(experiment.contenders)
    titles = [experiment.contenders[name].title for name in names]
    yield f"| {MEASURES[measure].title} | {' | '.join(titles)} |"
    yield "|---" * (1 + len(names)) + "|"
    for panel in experiment.panels_at(assessment.plays.scale):
        cells = []
        for name in names:
            spread = assessment.spread(panel, name, measure)
            text = "-" if spread is None else in_words(spread, measure)
            published = experiment.panels[panel].published.get(name)
            if published is not None and measure == "accuracy":
                text += f" (paper {published:.1%})"
            cells.append(text)
        yield f"| {experiment.panels[panel].title} | {' | '.join(cells)} |"


def in_words(spread: Spread, measure: str) -> str:
    """Mean and standard deviation over seeds, as the measure is written."""
    form = MEASURES[measure].form
    text = format(spread.mean, form)
    if spread.deviation is None:
        return text
    if form.endswith("%"):
        return f"{text} ± {100 * spread.deviation:.1f}"
    return f"{text} ± {format(spread.deviation, form.lstrip('+'))}"


def _measured(judged: Judged) -> str:
    words = measured_in_words(judged)
    return f"{words}. {likely(judged)}" if judged.because else words


def _verdict(judged: Judged) -> str:
    return f"**{judged.verdict}**" if judged.verdict == "does not hold" else judged.verdict


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
