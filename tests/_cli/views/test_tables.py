"""Tables in terminals."""

import io

from rich.console import Console

from dynamite_fl._cli.views.tables import plain_table
from dynamite_fl._progress import labelled_rows


def test_tables_have_names_on_the_left_and_numbers_on_the_right() -> None:
    table, rows = plain_table("device", "batch"), labelled_rows()
    table.add_row("camera", "7")
    rows.add_row("accuracy", "80%")
    console = Console(file=io.StringIO(), width=40)
    console.print(table)
    console.print(rows)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split() for line in lines] == [
        ["device", "batch"],
        ["camera", "7"],
        ["accuracy", "80%"],
    ]
    assert lines[1].index("7") == lines[0].index("batch") + 4
