"""The report of several trainings."""

from collections.abc import Sequence
from html import escape

from dynamite_fl.report.chart import PERCENT, color
from dynamite_fl.report.comparison_charts import (
    curves,
    end_charts,
    groups_of,
    hindsight_charts,
)
from dynamite_fl.report.page import Card, Page
from dynamite_fl.report.shown import ShownComparison, ShownHindsight, ShownRun
from dynamite_fl.report.summary import Row, Spread, titled


def comparison_page(title: str, comparison: ShownComparison, notes: Sequence[str]) -> Page:
    """A page with all there is to see of trainings side by side."""
    runs = comparison.runs
    page = Page(title, f"{len(runs):,} runs", escape(runs[0].about))
    page.notes(notes)
    page.cards(_cards(comparison))
    if comparison.rows:
        page.section(
            "Side by side",
            "Means over seeds of the runs that ended and are whole, ± one standard deviation.",
        )
        _add_table(page, comparison)
    groups = groups_of(comparison)
    legend = [(name, color(place)) for place, name in enumerate(groups)]
    page.section(
        "How good models got",
        "Means over seeds as far as all of them go, in a band from the least to the most.",
    )
    page.legend(legend)
    page.charts(curves(groups, "accuracy", "Accuracy", {"yaxis": PERCENT}))
    if comparison.rows and comparison.target is not None:
        whose = comparison.target.mean_of
        words = "as asked for" if whose is None else f"the mean accuracy of {whose}"
        page.section(
            "At the end, and to the target",
            f"The target is {comparison.target.accuracy:.1%}, {words}; bars are means of the seeds "
            "that reached it, dots the seeds.",
        )
        page.charts(end_charts(comparison.rows, comparison.target, comparison.hindsight))
    if comparison.hindsight is not None:
        _add_hindsight(page, comparison)
    page.section("What was decided")
    page.legend(legend)
    zero = {"yaxis": {"rangemode": "tozero"}}
    steps = curves(groups, "local_steps", "Local steps", zero)
    sizes = curves(groups, "batch_mean", "Mean batch size", zero)
    page.charts([steps[0], sizes[0]])
    _add_runs(page, runs)
    shown = comparison.repeat
    page.section("Repeat it", f"The job of {shown.of}; save it as job.toml, then")
    page.copied(shown.command)
    page.copied(shown.job)
    return page


def _cards(comparison: ShownComparison) -> list[Card]:
    rows, cards = comparison.rows, []
    if rows:
        best = rows[0]
        cards.append(Card("the most accurate", best.contender, _percent(best.accuracy)))
        if len(rows) > 1:
            ahead = best.accuracy.mean - rows[1].accuracy.mean
            cards.append(
                Card("ahead of the next by", f"{100 * ahead:.1f} points", rows[1].contender)
            )
    if comparison.target is not None:
        target = comparison.target
        reached = sum(row.reached == len(row.results) for row in rows)
        cards.append(
            Card(
                "target",
                f"{target.accuracy:.1%}",
                f"reached by {reached} of {len(rows)}, on all seeds",
            )
        )
    if comparison.hindsight is not None:
        best_fixed = comparison.hindsight.best
        cards.append(Card("best in hindsight", best_fixed.contender, _percent(best_fixed.accuracy)))
        share = comparison.hindsight.covered.get(rows[0].contender) if rows else None
        if share is not None:
            cards.append(Card("of the way to it", f"{share:.0%}", rows[0].contender))
    finished = sum(run.ended is not None for run in comparison.runs)
    cards.append(Card("runs", f"{len(comparison.runs):,}", f"{finished:,} of them finished"))
    return cards


def _add_table(page: Page, comparison: ShownComparison) -> None:
    hindsight = comparison.hindsight
    way = "" if hindsight is None else "<th>of the way</th>"
    rows = [_table_row(row, place, hindsight) for place, row in enumerate(comparison.rows)]
    page.add(
        '<div class="sheet"><table><thead><tr><th>contender</th><th>accuracy</th>'
        '<th class="minor">seeds</th><th class="minor">rounds</th><th>seconds</th><th>cost</th>'
        f"{way}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _table_row(row: Row, place: int, hindsight: ShownHindsight | None) -> str:
    best = ' class="best"' if place == 0 else ""
    cells = [
        f'<td class="name"><i class="dot" style="background:var({color(place)})"></i>'
        f"{escape(row.contender)}</td>",
        f"<td{best}>{_cell(_percent(row.accuracy))}</td>",
        f'<td class="minor">{len(row.results)}</td>',
        f'<td class="minor">{_cell(_number(row.rounds))}</td>',
        f"<td>{_cell(_number(row.seconds))}</td>",
        f"<td>{_cell(_number(row.cost))}</td>",
    ]
    if hindsight is not None:
        share = hindsight.covered.get(row.contender)
        cells.append(f"<td>{'-' if share is None else f'{share:.0%}'}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _add_hindsight(page: Page, comparison: ShownComparison) -> None:
    hindsight = comparison.hindsight
    if hindsight is None:
        return
    gap = "" if hindsight.gap is None else f", {100 * hindsight.gap:.1f} points above FedAvg"
    page.section(
        "In hindsight",
        f"The best of {len(hindsight.tried)} fixed settings, known only after all were tried, is "
        f"{hindsight.best.contender} (local steps x batch size){gap}.",
    )
    page.charts(hindsight_charts(comparison.rows, hindsight))


def _add_runs(page: Page, runs: Sequence[ShownRun]) -> None:
    rows = [
        f'<tr><td class="name">{escape(titled(run.group, run.name))}</td><td>{_final(run)}</td>'
        f"<td>{len(run.history.lines):,}</td><td>{escape(run.ended or 'not ended yet')}</td></tr>"
        for run in runs
    ]
    page.add(
        f"<details><summary>All {len(runs):,} runs</summary>"
        '<div class="sheet"><table><thead><tr><th>run</th><th>accuracy</th><th>rounds</th>'
        f"<th>ended by</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _final(run: ShownRun) -> str:
    found = run.history.last("accuracy")
    return "-" if found is None else f"{found:.1%}"


def _percent(spread: Spread) -> str:
    if spread.deviation is None:
        return f"{spread.mean:.1%}"
    return f"{spread.mean:.1%} ± {100 * spread.deviation:.1f}"


def _cell(text: str) -> str:
    """A mean, and its deviation in a paler colour, below it where there is little room."""
    mean, sign, deviation = text.partition(" ± ")
    return f'{mean} <span class="spread">± {deviation}</span>' if sign else mean


def _number(spread: Spread) -> str:
    """With as many decimals as its size calls for."""
    decimals = 0 if spread.mean >= 100 else 1
    text = f"{spread.mean:,.{decimals}f}"
    return text if spread.deviation is None else f"{text} ± {spread.deviation:,.{decimals}f}"
