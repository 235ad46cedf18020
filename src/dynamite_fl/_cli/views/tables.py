"""Tables and bars that several views share."""

import math

from rich.table import Table
from rich.text import Text

from dynamite_fl._format import number, percent

NARROW = 78  # columns of a terminal below which views show less
_BAR = 20  # characters


def plain_table(first: str, *headings: str) -> Table:
    """Return a table without lines: names on the left, numbers on the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def labelled_rows() -> Table:
    """Return a table of labels and values."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    return grid


def limit_used(used: float, limit: float, width: int) -> Text:
    """Return how much of a limit is used, with a bar if the terminal is wide enough.

    Args:
        used: What is used, in the unit of the limit.
        limit: The limit; ``math.inf`` for none.
        width: Columns of the terminal.

    Example:
        >>> limit_used(30, 120, width=40).plain, limit_used(30, math.inf, width=40).plain
        ('30.0 of 120.0, 25%', '30.0, no limit')
    """
    if math.isinf(limit):
        text = f"{number(used, 1)}, no limit"
        return Text(text if width < NARROW else f"{used:>12,.1f}, no limit")
    share = used / limit
    if width < NARROW:
        return Text(f"{number(used, 1)} of {number(limit, 1)}, {percent(share, 0)}")
    filled = round(_BAR * min(share, 1.0))
    return Text.assemble(
        f"{used:>12,.1f} of {limit:>12,.1f}  ",
        ("━" * filled, "cyan"),
        ("─" * (_BAR - filled), "dim"),
        f" {share:4.0%}",
    )
