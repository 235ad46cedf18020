"""An experiment summed up: its figure, its data and the verdicts on its claims."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from dynamite_fl._atomic import write_atomically
from dynamite_fl._json import json_ready
from dynamite_fl.errors import MissingExtra
from dynamite_fl.experiments.charts import THEOREM, Chart, charts_of
from dynamite_fl.experiments.claims import Verdict, judge
from dynamite_fl.experiments.experiment import Experiment
from dynamite_fl.experiments.measures import MEASURES
from dynamite_fl.experiments.outcome import Outcome
from dynamite_fl.experiments.runs import ExperimentRuns, read_outcome


@dataclass(frozen=True)
class Summary:
    """All that is shown of an experiment at a scale.

    Attributes:
        runs: The runs of the experiment.
        outcome: The measurements of the finished runs.
        verdicts: The claims and whether they hold.
        charts: The rows of the figure.
    """

    runs: ExperimentRuns
    outcome: Outcome
    verdicts: Sequence[Verdict]
    charts: Sequence[Sequence[Chart]]

    @property
    def experiment(self) -> Experiment:
        """The experiment."""
        return self.runs.experiment

    @property
    def panels(self) -> list[str]:
        """The names of the panels of this scale."""
        return self.experiment.panels_at(self.runs.scale)

    @property
    def command(self) -> str:
        """The command that repeats it."""
        scale, seeds = self.runs.scale, len(self.outcome.seeds)
        return f"dynamite experiment {self.experiment.name} --scale {scale} --seeds {seeds}"

    @property
    def measures(self) -> list[str]:
        """The measures that tables show: accuracy, and those of bar charts."""
        bars = [chart.y for chart in self.experiment.charts if chart.kind == "bars"]
        return list(dict.fromkeys(["accuracy", *bars]))


def summarize(runs: ExperimentRuns) -> Summary:
    """Read the finished runs and judge the claims by them; run nothing."""
    experiment, outcome = runs.experiment, read_outcome(runs)
    panels = experiment.panels_at(runs.scale)
    absent = [panel for panel in experiment.panels_at("paper") if panel not in panels]
    verdicts = [
        verdict
        for claim in experiment.claims
        for verdict in judge(claim, outcome, runs.scale, panels, absent)
    ]
    return Summary(runs, outcome, verdicts, charts_of(experiment, runs.scale, outcome))


def require_matplotlib() -> None:
    """Refuse to start hours of runs whose figure cannot be drawn.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtra("a figure", "report")


def figure_svg(summary: Summary) -> str:
    """Return the figure as SVG."""
    from dynamite_fl.experiments.figure import draw  # matplotlib is an optional extra

    contenders = summary.experiment.contenders
    titles = {name: contender.title for name, contender in contenders.items()}
    return draw(summary.charts, {**titles, THEOREM: "Theorem 2"})


def write_summary(summary: Summary) -> None:
    """Write the figure, the data and the verdict into the experiment's folder."""
    from dynamite_fl.experiments.markdown import section

    folder = summary.runs.folder
    folder.mkdir(parents=True, exist_ok=True)
    verdict = json.dumps(to_json(summary), indent=1, allow_nan=False) + "\n"
    write_atomically(folder / "figure.svg", figure_svg(summary))
    write_atomically(folder / "figure.csv", _figure_csv(summary))
    write_atomically(folder / "runs.csv", _runs_csv(summary.outcome))
    write_atomically(folder / "verdict.json", verdict)
    write_atomically(folder / "verdict.md", section(summary, "figure.svg", level=1))


def _figure_csv(summary: Summary) -> str:
    """Return a line for each point and bar of the figure."""
    lines: list[list[Any]] = [["panel", "x_label", "y_label", "contender", "x", "mean", "spread"]]
    for chart in (chart for row in summary.charts for chart in row):
        labels = [chart.title, chart.x_label, chart.y_label]
        for series in chart.series:
            places: Sequence[float | str] = series.x or [""]
            points = zip(places, series.mean, series.spread, strict=True)
            lines += [[*labels, series.name, *point] for point in points]
    return _csv(lines)


def _runs_csv(outcome: Outcome) -> str:
    """Return a line for each run, with all its measures."""
    lines: list[list[Any]] = [["panel", "contender", "seed", *MEASURES]]
    for panel, contenders in outcome.histories.items():
        for contender in contenders:
            for seed, values in outcome.measures(panel, contender).items():
                lines.append([panel, contender, seed, *(values.get(m, "") for m in MEASURES)])
    return _csv(lines)


def _csv(lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def to_json(summary: Summary) -> dict[str, Any]:
    """Return the summary as a JSON object."""
    experiment, outcome = summary.experiment, summary.outcome
    values: dict[str, Any] = json_ready(
        {
            "experiment": experiment.name,
            "title": experiment.title,
            "shows": experiment.shows,
            "scale": summary.runs.scale,
            "seeds": outcome.seeds,
            "command": summary.command,
            "finished_runs": outcome.finished,
            "runs": outcome.runs,
            "failed": outcome.failures,
            "origins": [asdict(origin) for origin in outcome.origins],
            "claims": [asdict(verdict) for verdict in summary.verdicts],
            "panels": {panel: _panel_json(summary, panel) for panel in summary.panels},
        }
    )
    return values


def _panel_json(summary: Summary, panel: str) -> dict[str, Any]:
    measured: dict[str, dict[str, Any]] = {}
    for contender in summary.experiment.contenders:
        spreads = {m: summary.outcome.spread(panel, contender, m) for m in summary.measures}
        measured[contender] = {m: asdict(spread) for m, spread in spreads.items() if spread}
    settings = summary.experiment.panels[panel]
    return {"title": settings.title, "published": settings.published, "measured": measured}
