"""An HTML page in one file: style, script, plotly.js and the data of the charts.

Text that comes from run folders is escaped, in the markup and in the script's data.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from string import Template
from typing import Any

from dynamite_fl.errors import MissingExtra
from dynamite_fl.report.chart import Chart

_CARDS_IN_A_ROW = 6


@dataclass(frozen=True)
class Card:
    """An important figure.

    Attributes:
        label: The name of the figure.
        value: The figure.
        detail: More about it, in small letters.
        share: Share of a limit that is used, drawn as a bar; None for no bar.
    """

    label: str
    value: str
    detail: str = ""
    share: float | None = None


@dataclass
class Page:
    """A page that is built section by section.

    Attributes:
        title: Title of the page.
        above: Text above the title.
        below: Markup below the title.
    """

    title: str
    above: str = ""
    below: str = ""
    _parts: list[str] = field(default_factory=list)
    _charts: dict[str, Chart] = field(default_factory=dict)

    def notes(self, notes: Sequence[str]) -> None:
        """Add notes that the reader should see first."""
        if notes:
            self.add(
                f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>'
            )

    def cards(self, cards: Sequence[Card]) -> None:
        """Add figures side by side."""
        shown = "".join(map(_card, cards))
        rows = math.ceil(len(cards) / _CARDS_IN_A_ROW)
        columns = math.ceil(len(cards) / max(rows, 1))
        self.add(f'<div class="cards" style="--columns:{columns}">{shown}</div>')

    def section(self, title: str, intro: str = "") -> None:
        """Add a heading, with an introduction below it."""
        self.add(f"<h2>{escape(title)}</h2>")
        self.add(f"<p>{escape(intro)}</p>" if intro else "")

    def charts(self, charts: Iterable[Chart], *, small: bool = False) -> None:
        """Add charts, as many side by side as fit the screen."""
        kind = "charts small" if small else "charts"
        figures = [self._figure(chart) for chart in charts if not chart.is_empty]
        if figures:
            self.add(f'<div class="{kind}">{"".join(figures)}</div>')

    def legend(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add names and colours that apply to all charts of a section."""
        self.add(_legend(entries, "legend section-legend"))

    def copyable(self, text: str) -> None:
        """Add text with a button that copies it."""
        key = f"text-{len(self._parts)}"
        self.add(
            f'<div class="sheet copyable"><button data-copies="{key}">Copy</button>'
            f'<pre id="{key}">{escape(text)}</pre></div>'
        )

    def add(self, markup: str) -> None:
        """Add markup; text from run folders in it must be escaped."""
        self._parts.append(markup)

    def _figure(self, chart: Chart) -> str:
        key = f"chart-{len(self._charts)}"
        self._charts[key] = chart
        return (
            f"<figure{' class=wide' if chart.wide else ''}><h3>{escape(chart.title)}</h3>"
            + (_legend(chart.legend, "legend") if chart.legend else "")
            + f'<div class="plot" id="{key}" style="height:{chart.height}px"></div>'
            + (f"<figcaption>{escape(chart.note)}</figcaption>" if chart.note else "")
            + "</figure>"
        )

    def html(self, version: str) -> str:
        """Return the whole page.

        Raises:
            MissingExtra: plotly is not installed.
        """
        return Template(text_file("template.html")).substitute(
            title=escape(self.title),
            above=escape(self.above),
            below=self.below,
            style=text_file("style.css"),
            body=self.body,
            version=escape(version),
            charts=for_script(self.chart_data),
            plotly=plotly_script(),
            script=text_file("charts.js"),
        )

    @property
    def body(self) -> str:
        """The markup below the header."""
        return "\n".join(part for part in self._parts if part)

    @property
    def chart_data(self) -> dict[str, Any]:
        """The charts by the ids of their places in the body, as the page's script expects them."""
        return {key: chart.to_json() for key, chart in self._charts.items()}


def for_script(value: object) -> str:
    r"""Return JSON without characters that could end the script element around it.

    Example:
        >>> print(for_script({"name": "</script>"}))
        {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def plotly_script() -> str:
    """Return plotly.js.

    Raises:
        MissingExtra: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingExtra("a report", "report") from None
    return str(get_plotlyjs())


def text_file(name: str) -> str:
    """Return the text of a file beside this module."""
    return (resources.files("dynamite_fl.report") / name).read_text(encoding="utf-8")


def _card(card: Card) -> str:
    bar = ""
    if card.share is not None:
        bar = (
            f'<div class="bar"><i style="width:{100 * min(max(card.share, 0), 1):.1f}%"></i></div>'
        )
    detail = f'<div class="more">{escape(card.detail)}</div>' if card.detail else ""
    return (
        f'<div class="card"><div class="what">{escape(card.label)}</div>'
        f'<div class="value">{escape(card.value)}</div>{detail}{bar}</div>'
    )


def _legend(entries: Iterable[tuple[str, str]], kind: str) -> str:
    items = [
        f'<li><i style="background:var({shade})"></i>{escape(name)}</li>' for name, shade in entries
    ]
    return f'<ul class="{kind}">{"".join(items)}</ul>'
