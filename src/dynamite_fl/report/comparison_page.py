"""The report of several trainings."""

from collections.abc import Sequence
from html import escape

from dynamite_fl._format import (
    metric_difference,
    metric_label,
    metric_spread,
    metric_title,
    metric_value,
    number_spread,
    percent,
)
from dynamite_fl._leading_metric import LeadingMetric
from dynamite_fl.compare.hindsight import Hindsight
from dynamite_fl.compare.summary import ContenderSummary, Spread, title_of
from dynamite_fl.report.chart import color, metric_axis
from dynamite_fl.report.comparison_charts import (
    curves,
    end_charts,
    groups_of,
    hindsight_charts,
    rates_chart,
)
from dynamite_fl.report.contents import ReportedComparison, ReportedRun
from dynamite_fl.report.page import Card, Page


def comparison_page(title: str, comparison: ReportedComparison, notes: Sequence[str]) -> Page:
    """Return a page about trainings side by side."""
    runs = comparison.runs
    page = Page(title, f"{len(runs):,} runs", escape(runs[0].about))
    page.notes(notes)
    page.cards(_cards(comparison))
    if comparison.contenders:
        page.section(
            "Side by side",
            "Means over the seeds whose runs finished, ± one standard deviation.",
        )
        _add_table(page, comparison)
    groups = groups_of(comparison)
    legend = [(name, color(place)) for place, name in enumerate(groups)]
    page.section(
        "Quality of the models",
        "Lines are means over seeds, as far as all seeds go. Bands are from the least to the most.",
    )
    page.legend(legend)
    metric = comparison.leading_metric.name
    page.charts(curves(groups, metric, metric_title(metric), {"yaxis": metric_axis(metric)}))
    if comparison.contenders and comparison.target is not None:
        target = comparison.target
        page.section(
            "Results and target",
            f"The target is {target}, {target.origin}. Bars are means over the seeds that reached "
            'it; dots are single seeds. "1 of 3" counts the seeds that did.',
        )
        page.charts(end_charts(comparison.contenders, comparison.target, comparison.hindsight))
    if comparison.hindsight is not None or comparison.tuned:
        _add_hindsight(page, comparison)
    page.section("Decisions")
    page.legend(legend)
    zero = {"yaxis": {"rangemode": "tozero"}}
    steps = curves(groups, "local_steps", "Local steps", zero)
    sizes = curves(groups, "batch_mean", "Mean batch size", zero)
    page.charts([steps[0], sizes[0]])
    _add_runs(page, runs, comparison.leading_metric)
    repeat = comparison.repeat
    page.section(
        "Repeat it", f"Save the job of {repeat.run} below as job.toml, then run this command."
    )
    page.copyable(repeat.command)
    page.copyable(repeat.job)
    return page


def _cards(comparison: ReportedComparison) -> list[Card]:
    rows, cards = comparison.contenders, []
    if rows:
        best = rows[0]
        metric = best.leading_metric
        name = metric_label(metric.name)
        cards.append(Card(f"best {name}", best.contender, _metric(best)))
        if len(rows) > 1:
            lead = metric.gain(rows[1].final.mean, best.final.mean)
            ahead = metric_difference(metric.name, lead)
            cards.append(Card("lead", ahead, f"of {name} over {rows[1].contender}"))
    if comparison.target is not None:
        target = comparison.target
        reached = sum(row.always_reached for row in rows)
        detail = f"reached on all seeds by {reached} of {len(rows)}"
        cards.append(Card("target", str(target), detail))
    if comparison.hindsight is not None:
        best_fixed = comparison.hindsight.best
        cards.append(Card("best in hindsight", best_fixed.contender, _metric(best_fixed)))
        share = comparison.hindsight.covered.get(rows[0].contender) if rows else None
        if share is not None:
            cards.append(Card("of the way to it", percent(share, 0), rows[0].contender))
    finished = sum(run.ended is not None for run in comparison.runs)
    cards.append(Card("runs", f"{len(comparison.runs):,}", f"{finished:,} finished"))
    return cards


def _add_table(page: Page, comparison: ReportedComparison) -> None:
    hindsight = comparison.hindsight
    way = "" if hindsight is None else "<th>of the way</th>"
    rows = [_table_row(row, place, hindsight) for place, row in enumerate(comparison.contenders)]
    page.add(
        '<div class="sheet"><table><thead><tr><th>contender</th>'
        f"<th>{_heading(comparison.leading_metric)}</th>"
        '<th class="minor">seeds</th><th class="minor">rounds</th><th>seconds</th><th>cost</th>'
        f"{way}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _table_row(row: ContenderSummary, place: int, hindsight: Hindsight | None) -> str:
    best = ' class="best"' if place == 0 else ""
    cells = [
        f'<td class="name"><i class="dot" style="background:var({color(place)})"></i>'
        f"{escape(row.contender)}</td>",
        f"<td{best}>{_cell(_metric(row))}</td>",
        f'<td class="minor">{len(row.results)}</td>',
        f'<td class="minor">{_cell(number_spread(row.rounds.mean, row.rounds.deviation, 0))}</td>',
        f"<td>{_cell(_number(row.seconds))}</td>",
        f"<td>{_cell(_number(row.cost))}</td>",
    ]
    if hindsight is not None:
        share = hindsight.covered.get(row.contender)
        cells.append(f"<td>{'-' if share is None else percent(share, 0)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _add_hindsight(page: Page, comparison: ReportedComparison) -> None:
    """Add what searches found: the best rates of methods, and the best fixed setting."""
    hindsight, metric, texts, charts = comparison.hindsight, comparison.leading_metric.name, [], []
    for tuned in comparison.tuned:
        texts.append(f"Of {len(tuned.tried)} rates for {tuned.method}, {tuned.best} is the best.")
    if hindsight is not None:
        texts.append(
            f"After {len(hindsight.tried)} fixed settings were tried, the best setting is "
            f"{hindsight.best.contender} (local steps x batch size @ learning rate)."
        )
        if hindsight.gap is not None and hindsight.fedavg is not None:
            better = metric_difference(metric, hindsight.gap)
            name = hindsight.fedavg.contender
            texts.append(f"Its {metric_label(metric)} is {better} better than that of {name}.")
        charts += hindsight_charts(comparison.contenders, hindsight)
    if comparison.tuned:
        charts.append(rates_chart(comparison.tuned, metric))
    page.section("In hindsight", " ".join(texts))
    page.charts(charts)


def _add_runs(page: Page, runs: Sequence[ReportedRun], metric: LeadingMetric) -> None:
    rows = [
        f'<tr><td class="name">{escape(title_of(run.group, run.name))}</td>'
        f"<td>{_final(run, metric.name)}</td>"
        f"<td>{len(run.history):,}</td><td>{escape(run.ended or 'not ended yet')}</td></tr>"
        for run in runs
    ]
    page.add(
        f"<details><summary>All {len(runs):,} runs</summary>"
        '<div class="sheet"><table><thead><tr><th>run</th>'
        f"<th>{_heading(metric)}</th><th>rounds</th>"
        f"<th>ended by</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _final(run: ReportedRun, metric: str) -> str:
    metrics = run.history.final_metrics
    return metric_value(metric, metrics[metric]) if metric in metrics else "-"


def _heading(metric: LeadingMetric) -> str:
    """Return the name of a metric as markup, with its direction if lower is better."""
    name = escape(metric_label(metric.name))
    return name if metric.higher_is_better else f"{name}, lower is better"


def _metric(row: ContenderSummary) -> str:
    return metric_spread(row.leading_metric.name, row.final.mean, row.final.deviation)


def _number(spread: Spread) -> str:
    return number_spread(spread.mean, spread.deviation)


def _cell(text: str) -> str:
    """Return a mean and its deviation as markup, which shows the deviation in a paler colour."""
    mean, sign, deviation = text.partition(" ± ")
    return f'{mean} <span class="spread">± {deviation}</span>' if sign else mean
