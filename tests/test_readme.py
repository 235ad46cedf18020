"""The README says what is true, beyond what ``tests/test_documents.py`` runs."""

import re

from tests.documents import ROOT

README = (ROOT / "README.md").read_text()


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 135


def test_the_headings_count_the_lines() -> None:
    """A model in 15 lines and machines in 5, as the headings promise."""
    (model,) = re.findall(r"## Your own model, in 15 lines\n+```python\n(.*?)```", README, re.S)
    (machines,) = re.findall(
        r"## Your own machines, in 5\n+[^\n]*\n+```text\n(.*?)```", README, re.S
    )
    assert len([line for line in model.splitlines() if line.strip()]) == 15
    assert len(machines.splitlines()) == 5
