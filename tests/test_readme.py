"""What the README shows is what one gets."""

import contextlib
import io
import re
from importlib import resources
from pathlib import Path

import pytest

from dynamite_fl.job.build import build_training
from dynamite_fl.job.training import load_training_job
from dynamite_fl.simulation.engine import SimulatedEngine
from dynamite_fl.stream.buffer import Storage
from tests._cli.commands import dynamite

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def test_plan_output_is_current() -> None:
    (shown,) = (block for block in blocks("") if block.startswith("$ dynamite plan\n"))
    lines = [line.rstrip() for line in dynamite("plan", columns=80).stdout.splitlines()]
    assert shown.removeprefix("$ dynamite plan\n").strip() == "\n".join(lines).strip()


def test_job_can_be_planned_and_python_agrees(tmp_path: Path) -> None:
    (job,) = blocks("toml")
    (tmp_path / "job.toml").write_text(job)
    shown = dynamite("plan", tmp_path / "job.toml")
    assert shown.returncode == 0, shown.stderr
    (code,) = blocks("python")
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(code, names)  # noqa: S102  our own README
    plan = names["plan"]
    assert f"local steps  {plan.local_steps} in" in shown.stdout  # type: ignore[attr-defined]
    assert printed.getvalue().startswith(f"{plan.local_steps} [")  # type: ignore[attr-defined]


def test_the_stream_can_be_trained_on(tmp_path: Path) -> None:
    (stream,) = (block for block in blocks("") if block.startswith("[stream]\n"))
    embedded = resources.files("dynamite_fl.job").joinpath("training.toml").read_text()
    (tmp_path / "job.toml").write_text(f"{embedded}\n{stream}")
    job = load_training_job(tmp_path / "job.toml", ["limits.rounds=2"])
    engine = build_training(job).engine
    assert isinstance(engine, SimulatedEngine)
    assert engine.streams is not None
    assert engine.streams.storage == Storage("reservoir", 500)


def test_the_job_can_be_tracked(tmp_path: Path) -> None:
    (track,) = (block for block in blocks("") if block.startswith("[training]\ntrack"))
    embedded = resources.files("dynamite_fl.job").joinpath("training.toml").read_text()
    job = embedded.replace("[training]\n", track)
    (tmp_path / "job.toml").write_text(job)
    assert load_training_job(tmp_path / "job.toml").trackers == ("tensorboard", "mlflow")


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text()))
def test_links_lead_somewhere(target: str) -> None:
    assert (README.parent / target).exists()
