"""Tables and bars in terminals."""

import io
import math

import pytest
from rich.console import Console

from dynamite_fl._cli.views.tables import labelled_rows, limit_used, plain_table


@pytest.mark.parametrize(("share", "filled"), [(0.0, 0), (0.5, 10), (1.0, 20), (1.3, 20)])
def test_a_bar_shows_the_share_and_is_never_longer_than_full(share: float, filled: int) -> None:
    text = limit_used(200 * share, 200, width=100).plain
    assert text.count("━") == filled
    assert text.count("━") + text.count("─") == 20
    assert text.endswith(f"{share:4.0%}")


def test_no_limit_has_no_bar() -> None:
    assert limit_used(1234.5, math.inf, width=100).plain.strip() == "1,234.5, no limit"
    assert "━" not in limit_used(30, 120, width=40).plain


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
