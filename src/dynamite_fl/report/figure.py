"""Curves and bars as a static SVG, the same to the byte for the same numbers.

matplotlib comes with the extra ``report``.
"""

import io
from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dynamite_fl.report.drawn import Part

_WIDTH, _HEIGHT = 3.3, 2.5  # of one part, in inches
_COLUMNS = 4
# Colours that people who see few of them can tell apart (Okabe and Ito), and a line for each.
_COLOURS = ["#d55e00", "#0072b2", "#000000", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]
_DASHES = ["-", "-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1))]
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


def draw(rows: Sequence[Sequence[Part]], names: Mapping[str, str]) -> str:
    """An SVG of all parts; each row begins anew, and long ones are broken.

    Args:
        rows: What is drawn.
        names: What contenders are called, in the order of their colours.
    """
    lines = [line for row in rows for line in _broken(row)]
    columns = max(len(line) for line in lines)
    with rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are words of a long list
        figure = Figure(
            figsize=(max(columns, 1.6) * _WIDTH, len(lines) * _HEIGHT + 0.5), layout="constrained"
        )
        places = figure.subplots(len(lines), columns, squeeze=False)
        for line, axes_of_line in zip(lines, places, strict=True):
            for i, axes in enumerate(axes_of_line):
                if i < len(line):
                    _draw_part(axes, line[i], list(names), names)
                else:
                    axes.set_axis_off()
        _legend(figure, [part for line in lines for part in line], names)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": "dynamite"})
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"


def _broken(row: Sequence[Part]) -> list[Sequence[Part]]:
    """As few lines as it takes, about equally long."""
    count = -(-len(row) // _COLUMNS)
    width = -(-len(row) // count)
    return [row[i : i + width] for i in range(0, len(row), width)]


def _draw_part(axes: Axes, part: Part, order: list[str], names: Mapping[str, str]) -> None:
    axes.set_title(part.title)
    if part.has_bars:
        _draw_bars(axes, part, order, names)
        return
    for series in part.series:
        place = order.index(series.name)
        colour = _COLOURS[place % len(_COLOURS)]
        few = len(series.x) < 15
        axes.plot(
            series.x,
            series.mean,
            color=colour,
            linestyle=_DASHES[place % len(_DASHES)],
            marker="." if few else "",
        )
        low = [m - s for m, s in zip(series.mean, series.spread, strict=True)]
        high = [m + s for m, s in zip(series.mean, series.spread, strict=True)]
        axes.fill_between(series.x, low, high, color=colour, alpha=0.15, linewidth=0)
    if part.mark is not None:
        axes.axvline(part.mark, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_xlabel(part.x_label)
    axes.set_ylabel(part.y_label)
    whole = all(float(x).is_integer() for series in part.series for x in series.x)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=whole))
    if part.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))


def _draw_bars(axes: Axes, part: Part, order: list[str], names: Mapping[str, str]) -> None:
    shown = list(reversed(part.series))
    colours = [_COLOURS[order.index(each.name) % len(_COLOURS)] for each in shown]
    values = [each.mean[0] for each in shown]
    spreads = [each.spread[0] for each in shown]
    places = range(len(shown))
    axes.barh(places, values, xerr=spreads, color=colours, alpha=0.85, ecolor="#444444", height=0.7)
    axes.set_yticks(places, [names[each.name] for each in shown])
    axes.set_xlabel(part.x_label)
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color="#444444", linewidth=0.6)
    if part.percent:
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    for place, value, spread in zip(places, values, spreads, strict=True):
        text = f"{value:.1%}" if part.percent else f"{value:,.3g}"
        axes.annotate(
            text,
            (max(value + spread, 0.0), place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    # Room for the numbers, and no negative side where there is nothing on it.
    furthest = max(value + spread for value, spread in zip(values, spreads, strict=True))
    axes.set_xlim(left=min(0.0, *values) * 1.1, right=1.2 * furthest if furthest > 0 else 1.0)


def _legend(figure: Figure, parts: Sequence[Part], names: Mapping[str, str]) -> None:
    """One for all curves, below."""
    drawn = {series.name for part in parts if not part.has_bars for series in part.series}
    if not drawn:
        return
    order = list(names)
    axes = figure.axes[0]
    handles = [
        axes.plot(
            [],
            [],
            color=_COLOURS[order.index(name) % len(_COLOURS)],
            linestyle=_DASHES[order.index(name) % len(_DASHES)],
            label=names[name],
        )[0]
        for name in order
        if name in drawn
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5))
