"""What an experiment's figure shows, as numbers: one part for each picture and panel."""

import statistics
from collections.abc import Mapping, Sequence

from dynamite_fl.experiments.experiment import Experiment, Picture
from dynamite_fl.experiments.found import Found
from dynamite_fl.experiments.measures import COLUMNS, MEASURES
from dynamite_fl.report.drawn import Part, Series
from dynamite_fl.report.history import History
from dynamite_fl.report.summary import spread_of

_THEOREM = {"local_steps": 0, "batch_mean": 1}  # places in Theorem 2's answers
PROPOSED = "theorem-2"


def parts_of(experiment: Experiment, scale: str, found: Found) -> list[list[Part]]:
    """The parts, a row for each picture; panels and contenders without runs are left out.

    Pictures of one panel each share a row.
    """
    panels = experiment.panels_at(scale)
    rows = [
        [
            part
            for panel in picture.panels or panels
            if panel in panels and (part := _part(experiment, picture, panel, found)) is not None
        ]
        for picture in experiment.pictures
    ]
    rows = [row for row in rows if row]
    if rows and all(len(row) == 1 for row in rows):
        return [[row[0] for row in rows]]
    return rows


def titles_of(experiment: Experiment) -> dict[str, str]:
    """What contenders are called, and Theorem 2 among them."""
    titles = {name: each.title for name, each in experiment.contenders.items()}
    return {**titles, PROPOSED: "Theorem 2"}


def _part(experiment: Experiment, picture: Picture, panel: str, found: Found) -> Part | None:
    title = experiment.panels[panel].title
    if picture.kind == "theorem":
        return _theorem(title, picture, found.plans.get(panel, {}))
    names = [
        name
        for name in picture.contenders or experiment.contenders
        if found.histories.get(panel, {}).get(name)
    ]
    if not names:
        return None
    if picture.kind == "bars":
        return _bars(title, picture, panel, names, found)
    histories = found.histories[panel]
    curves = [_curve(name, picture, list(histories[name].values())) for name in names]
    return Part(
        title=title,
        x_label=picture.x,
        y_label=COLUMNS[picture.y],
        series=[curve for curve in curves if curve.x],
        percent=picture.y == "accuracy",
        mark=found.bursts.get(panel) if picture.x == "round" else None,
    )


def _bars(
    title: str, picture: Picture, panel: str, names: Sequence[str], found: Found
) -> Part | None:
    measure = MEASURES[picture.y]
    values = {name: list(found.values(panel, name, picture.y).values()) for name in names}
    bars = [_over_seeds(name, (), [each]) for name, each in values.items() if each]
    if not bars:
        return None
    return Part(title, measure.title, "", bars, percent=measure.form.endswith("%"))


def _curve(name: str, picture: Picture, histories: Sequence[History]) -> Series:
    """Means over seeds at those rounds at which all seeds have a value, and at their ends."""
    known = [
        [line for line in history.lines if line.get(picture.y) is not None] for history in histories
    ]
    by_round = [{line["round"]: line for line in lines} for lines in known]
    common = sorted(set.intersection(*(set(each) for each in by_round)))
    points = [[each[k] for each in by_round] for k in common]
    ends = [lines[-1] for lines in known if lines]
    if len(ends) == len(known) and {line["round"] for line in ends} != set(common[-1:]):
        points.append(ends)
    columns = [[line[picture.y] for line in lines] for lines in points]
    x = [statistics.fmean(line[picture.x] for line in lines) for lines in points]
    return _over_seeds(name, x, columns)


def _theorem(
    title: str, picture: Picture, plans: Mapping[int, Mapping[int, tuple[int, int]]]
) -> Part | None:
    if not plans:
        return None
    place = _THEOREM[picture.y]
    rounds = sorted(next(iter(plans.values())))
    columns = [[plan[k][place] for plan in plans.values()] for k in rounds]
    series = _over_seeds(PROPOSED, rounds, columns)
    return Part(f"{title}, Theorem 2", "rounds in all", COLUMNS[picture.y], [series])


def _over_seeds(name: str, x: Sequence[float], columns: Sequence[Sequence[float]]) -> Series:
    """Means and standard deviations of columns of seeds; one seed is drawn without any."""
    spreads = [spread_of(column) for column in columns]
    means = [each.mean for each in spreads]
    return Series(name, x, means, [each.deviation or 0.0 for each in spreads])
