"""Charts as a static SVG file, which is the same to the byte for the same numbers.

matplotlib comes with the extra ``report``.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dynamite_fl.experiments.charts import Chart

_WIDTH, _HEIGHT = 3.3, 2.5  # of one chart, in inches
_COLUMNS = 4  # the most charts in a line
# Colours that people with colour blindness can tell apart (Okabe and Ito), and their line styles.
_COLOURS = ["#d55e00", "#0072b2", "#000000", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]
_LINE_STYLES = ["-", "-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1))]
_STYLE = {
    "svg.hashsalt": "dynamite",
    "svg.fonttype": "none",
    "font.size": 8,
    "font.family": "sans-serif",
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
}


def draw(rows: Sequence[Sequence[Chart]], titles: Mapping[str, str]) -> str:
    """Return an SVG of all charts.

    Args:
        rows: The charts. Each row starts a new line, and long rows take several lines.
        titles: The titles of the contenders by name, in the order of their colours.
    """
    lines = [line for row in rows for line in _lines(row)]
    columns = max(len(line) for line in lines)
    size = (max(columns, 1.6) * _WIDTH, len(lines) * _HEIGHT + 0.5)
    with rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are literals of a long list
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(lines), columns, squeeze=False)
        for line, axes_of_line in zip(lines, grid, strict=True):
            for chart, axes in zip(line, axes_of_line, strict=False):
                axes.set_title(chart.title)
                (_draw_bars if chart.has_bars else _draw_curves)(axes, chart, titles)
            for axes in axes_of_line[len(line) :]:
                axes.set_axis_off()
        _draw_legend(figure, [chart for line in lines for chart in line], titles)
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "dynamite"})
    return "\n".join(line.rstrip() for line in svg.getvalue().splitlines()) + "\n"


def _lines(row: Sequence[Chart]) -> list[Sequence[Chart]]:
    """Return a row as few lines of about equal length."""
    count = -(-len(row) // _COLUMNS)
    width = -(-len(row) // count)
    return [row[i : i + width] for i in range(0, len(row), width)]


def _colour(name: str, titles: Mapping[str, str]) -> str:
    return _COLOURS[list(titles).index(name) % len(_COLOURS)]


def _line_style(name: str, titles: Mapping[str, str]) -> Any:
    return _LINE_STYLES[list(titles).index(name) % len(_LINE_STYLES)]


def _draw_curves(axes: Axes, chart: Chart, titles: Mapping[str, str]) -> None:
    for series in chart.series:
        colour, style = _colour(series.name, titles), _line_style(series.name, titles)
        marker = "." if len(series.x) < 15 else ""
        axes.plot(series.x, series.mean, color=colour, linestyle=style, marker=marker)
        low = [m - s for m, s in zip(series.mean, series.spread, strict=True)]
        high = [m + s for m, s in zip(series.mean, series.spread, strict=True)]
        axes.fill_between(series.x, low, high, color=colour, alpha=0.15, linewidth=0)
    if chart.mark is not None:
        axes.axvline(chart.mark, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    whole = all(float(x).is_integer() for series in chart.series for x in series.x)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=whole))
    if chart.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))


def _draw_bars(axes: Axes, chart: Chart, titles: Mapping[str, str]) -> None:
    bars = list(reversed(chart.series))
    colours = [_colour(bar.name, titles) for bar in bars]
    values, spreads = [bar.mean[0] for bar in bars], [bar.spread[0] for bar in bars]
    ends = [value + spread for value, spread in zip(values, spreads, strict=True)]
    places = range(len(bars))
    axes.barh(places, values, xerr=spreads, color=colours, alpha=0.85, ecolor="#444444", height=0.7)
    axes.set_yticks(places, [titles[bar.name] for bar in bars])
    axes.set_xlabel(chart.x_label)
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color="#444444", linewidth=0.6)
    if chart.percent:
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    for place, value, end in zip(places, values, ends, strict=True):
        axes.annotate(
            f"{value:.1%}" if chart.percent else f"{value:,.3g}",
            (max(end, 0.0), place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    # Leave room for the numbers, and show no negative side if it is empty.
    right = 1.2 * max(ends) if max(ends) > 0 else 1.0
    axes.set_xlim(left=min(0.0, *values) * 1.1, right=right)


def _draw_legend(figure: Figure, charts: Sequence[Chart], titles: Mapping[str, str]) -> None:
    """Draw one legend for all curves, below them."""
    drawn = {series.name for chart in charts if not chart.has_bars for series in chart.series}
    if not drawn:
        return
    axes = figure.axes[0]
    handles = []
    for name in titles:
        if name in drawn:
            colour, style = _colour(name, titles), _line_style(name, titles)
            handles += axes.plot([], [], color=colour, linestyle=style, label=titles[name])
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))
