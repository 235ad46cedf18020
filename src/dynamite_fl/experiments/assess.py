"""An experiment's runs summed up: its figure, its data, and a verdict on each claim."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from dynamite_fl.experiments.claims import Judged, judge
from dynamite_fl.experiments.experiment import Experiment
from dynamite_fl.experiments.measures import MEASURES
from dynamite_fl.experiments.parts import parts_of, titles_of
from dynamite_fl.experiments.runs import Gathered, Plays, gather
from dynamite_fl.files import write_atomically
from dynamite_fl.report.drawn import Part
from dynamite_fl.report.extras import MissingExtra
from dynamite_fl.report.summary import Spread, json_ready, spread_of


@dataclass(frozen=True)
class Assessment:
    """All that is said of an experiment at a scale.

    Attributes:
        plays: Which experiment, at which scale.
        gathered: What its runs came to.
        judged: The claims.
        rows: What the figure shows.
    """

    plays: Plays
    gathered: Gathered
    judged: Sequence[Judged]
    rows: Sequence[Sequence[Part]]

    @property
    def experiment(self) -> Experiment:
        """Which."""
        return self.plays.experiment

    @property
    def command(self) -> str:
        """What to type for the same."""
        scale, seeds = self.plays.scale, len(self.gathered.seeds)
        return f"dynamite experiment {self.experiment.name} --scale {scale} --seeds {seeds}"

    @property
    def measures(self) -> list[str]:
        """What tables show: accuracy, and what bars are of."""
        bars = [each.y for each in self.experiment.pictures if each.kind == "bars"]
        return list(dict.fromkeys(["accuracy", *bars]))

    def spread(self, panel: str, contender: str, measure: str) -> Spread | None:
        """A measure over seeds; None if no run says."""
        values = self.gathered.found.values(panel, contender, measure)
        return spread_of(values.values()) if values else None


def assess(plays: Plays) -> Assessment:
    """Read what is finished, and judge by it; nothing is played."""
    experiment, gathered = plays.experiment, gather(plays)
    panels = experiment.panels_at(plays.scale)
    absent = [panel for panel in experiment.panels_at("paper") if panel not in panels]
    judged = [
        each
        for claim in experiment.claims
        for each in judge(claim, gathered.found, plays.scale, panels, absent)
    ]
    return Assessment(plays, gathered, judged, parts_of(experiment, plays.scale, gathered.found))


def figure(assessment: Assessment) -> str:
    """The figure as SVG."""
    from dynamite_fl.report.figure import draw  # an extra, which reading verdicts can do without

    return draw(assessment.rows, titles_of(assessment.experiment))


def require_drawing() -> None:
    """Say now, rather than after hours of runs, that nothing can be drawn.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtra("a figure", "report")


def write(assessment: Assessment) -> None:
    """Figure, data and verdict, into the experiment's folder."""
    from dynamite_fl.experiments.markdown import section

    folder = assessment.plays.folder
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "figure.svg", figure(assessment))
    write_atomically(folder / "figure.csv", figure_csv(assessment.rows))
    write_atomically(folder / "runs.csv", runs_csv(assessment))
    verdict = json.dumps(to_json(assessment), indent=1, allow_nan=False)
    write_atomically(folder / "verdict.json", verdict + "\n")
    write_atomically(folder / "verdict.md", section(assessment, "figure.svg", level=1))


def figure_csv(rows: Iterable[Iterable[Part]]) -> str:
    """Every point and bar that is drawn."""
    lines: list[list[Any]] = [["panel", "x_label", "y_label", "contender", "x", "mean", "spread"]]
    for part in (part for row in rows for part in row):
        for series in part.series:
            places: Sequence[float | str] = series.x or [""]
            for x, mean, spread in zip(places, series.mean, series.spread, strict=True):
                lines.append([part.title, part.x_label, part.y_label, series.name, x, mean, spread])
    return _csv(lines)


def runs_csv(assessment: Assessment) -> str:
    """A line for each run, with all that can be measured of it."""
    found = assessment.gathered.found
    lines: list[list[Any]] = [["panel", "contender", "seed", *MEASURES]]
    for panel, contenders in found.histories.items():
        for contender, histories in contenders.items():
            columns = {name: found.values(panel, contender, name) for name in MEASURES}
            for seed in histories:
                values = [column.get(seed, "") for column in columns.values()]
                lines.append([panel, contender, seed, *values])
    return _csv(lines)


def _csv(lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def to_json(assessment: Assessment) -> dict[str, Any]:
    """The verdict for scripts."""
    experiment, gathered = assessment.experiment, assessment.gathered
    found: dict[str, Any] = {
        "experiment": experiment.name,
        "title": experiment.title,
        "shows": experiment.shows,
        "scale": assessment.plays.scale,
        "seeds": list(gathered.seeds),
        "command": assessment.command,
        "finished_runs": gathered.finished,
        "runs": gathered.wanted,
        "failed": gathered.failures,
        "played_by": [asdict(each) for each in gathered.origins],
        "claims": [_judged_json(each) for each in assessment.judged],
        "panels": {
            panel: {
                "title": experiment.panels[panel].title,
                "published": dict(experiment.panels[panel].published),
                "measured": {
                    contender: {
                        name: asdict(spread)
                        for name in assessment.measures
                        if (spread := assessment.spread(panel, contender, name)) is not None
                    }
                    for contender in experiment.contenders
                },
            }
            for panel in experiment.panels_at(assessment.plays.scale)
        },
    }
    ready: dict[str, Any] = json_ready(found)
    return ready


def _judged_json(judged: Judged) -> dict[str, Any]:
    return {
        "says": judged.says,
        "verdict": judged.verdict,
        "pieces": [asdict(piece) for piece in judged.pieces],
        "because": judged.because,
        "also": judged.also,
    }
