"""Progress in a notebook, in a real kernel where one is installed."""

import pytest
from rich.text import Text

from dynamite_fl._notebook import NotebookDisplay

CODE = """
import dynamite_fl as fl
task = fl.make_task("softmax", "digits")
limits = fl.Limits(deadline=30, budget=40, cost_per_sample=0.0005, cost_per_round=1)
result = fl.train(task, devices="testbed5", limits=limits, learning_rate=0.05{more})
"""


class Handle:
    """Stands for the handle of a displayed output."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, data: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(data)


def test_pictures_are_html_and_text_and_are_not_drawn_too_often() -> None:
    words, handle = ["<one>"], Handle()
    output = NotebookDisplay(lambda: Text(words[0], style="bold"), handle)
    for words[0] in ("<two>", "<three>", "<four>"):
        output.refresh()
    output.stop()
    assert [data["text/plain"].strip() for data in handle.shown] == ["<two>", "<four>"]
    assert "&lt;four&gt;" in handle.shown[-1]["text/html"]


@pytest.mark.slow
@pytest.mark.parametrize(("more", "outputs"), [("", 1), (", progress=False", 0)])
def test_training_shows_its_progress_below_the_cell(more: str, outputs: int) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cell = nbformat.v4.new_code_cell(CODE.format(more=more))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(notebook, timeout=600).execute()
    assert len(notebook.cells[0].outputs) == outputs
    for output in notebook.cells[0].outputs:
        assert output.output_type == "display_data"
        assert "dynamite-feedback on 5 devices" in output.data["text/plain"]
        assert "accuracy" in output.data["text/html"]
