"""Tables that several views share."""

from rich.table import Table


def plain_table(first: str, *headings: str) -> Table:
    """Return a table without lines: names on the left, numbers on the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
