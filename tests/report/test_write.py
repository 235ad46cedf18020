"""Reports as ``dynamite report`` writes them."""

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from click.testing import Result
from typer.testing import CliRunner

from dynamite_fl._cli.all_commands import app
from dynamite_fl.compare.contenders import contenders_of, fixed_contender, runs_of
from dynamite_fl.compare.hindsight import FixedSetting
from dynamite_fl.job.training import load_training_job
from dynamite_fl.training.history_file import HistoryFile
from dynamite_fl.training.round_record import parse_line
from dynamite_fl.training.run_folder import RunFolder
from tests.report.runs import SHORT, play, play_run

_UNREADABLE = Path("/proc/self/mem")  # even for root, whom permissions do not stop


def report(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, words)])


def made(*words: str | Path) -> tuple[str, dict[str, Any], list[str]]:
    """Return the page's own markup, its charts and the notes."""
    result = report(*words, "--json")
    assert result.exit_code == 0, result.output
    written = json.loads(result.stdout)
    text = Path(written["file"]).read_text()
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text)
    assert found is not None
    return text[: found.start()], json.loads(found[1]), written["notes"]


def titles(markup: str) -> list[str]:
    return re.findall(r"<h3>(.*?)</h3>", markup)


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> Path:
    shutil.copytree(runs / "plain", tmp_path / "plain")
    return tmp_path / "plain"


def test_a_run_has_all_its_charts(runs: Path, tmp_path: Path) -> None:
    markup, charts, notes = made(runs / "plain", "--out", tmp_path / "a.html")
    assert notes == []
    assert titles(markup) == [
        "Accuracy by round",
        "Accuracy by seconds",
        "Accuracy by cost",
        "Loss",
        "Accuracy of each class",
        "Local steps",
        "Batch size",
        "Learning rate",
        "Limits left",
        "Seconds of each round",
        "Batch size of each device",
        "Gain of the first local step",
        "Largest stable learning rate",
        "Share of that gain in late local steps",
        "Mean gradient variance, M",
    ]
    lines = [json.loads(line) for line in (runs / "plain/history.jsonl").read_text().splitlines()]
    judged = [line for line in lines if line["metrics"] is not None]
    accuracies = [line["metrics"]["accuracy"] for line in judged]
    assert charts["chart-0"]["data"][0]["y"] == accuracies
    assert charts["chart-1"]["data"][0]["x"] == [line["seconds"] for line in judged]
    assert f"{accuracies[-1]:.1%}" in markup
    assert "test accuracy" in markup
    assert "camera-3" in markup
    job = (runs / "plain/job.toml").read_text()
    assert job.replace('"', "&quot;") in markup


def rewrite(folder: RunFolder, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write another history, as if the training had gone another way."""
    folder.history.unlink()
    folder.checkpoint.unlink()
    file = HistoryFile(folder)
    for line in lines:
        record = parse_line(json.dumps(line))
        assert record is not None
        file.append(record)
    folder.write_end(folder.stopped_by() or "", file.last_check)


def lines_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]


def test_a_regression_has_its_own_metrics_and_its_worst_client(runs: Path, tmp_path: Path) -> None:
    """The errors are numbers and not per cent, and the larger one is the worse one."""
    markup, charts, notes = made(runs / "regression", "--out", tmp_path / "a.html")
    assert notes == []
    found = dict(zip(titles(markup), charts.values(), strict=True))
    assert list(found)[:6] == [
        "RMSE by round",
        "RMSE by seconds",
        "RMSE by cost",
        "MAE by round",
        "Loss",
        "RMSE of clients",
    ]
    judged = [line for line in lines_of(runs / "regression") if line["metrics"] is not None]
    by_round = found["RMSE by round"]
    assert by_round["data"][0]["y"] == [line["metrics"]["rmse"] for line in judged]
    assert "tickformat" not in by_round["layout"]["yaxis"]
    *_, mean, worst = found["RMSE of clients"]["data"]
    assert (mean["name"], worst["name"]) == ("mean of clients", "worst client")
    clients = [line["client_metrics"] for line in judged]
    assert worst["y"] == [max(errors) for errors in clients]
    assert mean["y"] == pytest.approx([sum(errors) / 2 for errors in clients])
    assert clients[-1][1] == max(clients[-1])
    for words in ("test RMSE", f"{judged[-1]['metrics']['rmse']:.4g}", f"{clients[-1][1]:.4g}"):
        assert words in markup
    assert f"far; {sum(clients[-1]) / 2:.4g} on average" in markup
    assert "ccuracy" not in markup


def test_a_comparison_of_errors_prefers_the_lowest(runs: Path, tmp_path: Path) -> None:
    markup, charts, notes = made(runs / "errors", "--out", tmp_path / "a.html")
    assert notes == []
    found = dict(zip(titles(markup), charts.values(), strict=True))
    finals = {run.name: lines_of(run)[-1]["metrics"]["rmse"] for run in (runs / "errors").iterdir()}
    means = {
        name: (finals[f"{name}-0"] + finals[f"{name}-1"]) / 2 for name in ("dynamite", "fedavg")
    }
    best, second = sorted(means, key=means.__getitem__)
    assert markup.index(f"</i>{best}</td>") < markup.index(f"</i>{second}</td>")
    assert "RMSE, lower is better" in markup
    assert "best RMSE" in markup
    assert f"The target is {means['fedavg']:.4g}, the mean RMSE of fedavg" in markup
    assert f'<div class="value">{means[second] - means[best]:.4g}</div>' in markup
    dots = found["Final RMSE of each seed"]
    assert dots["data"][0]["x"] == [finals[f"{best}-0"], finals[f"{best}-1"]]
    assert dots["data"][0]["hovertemplate"].startswith("%{x:.4g}")
    tried = found["RMSE of fixed settings on the first seed"]["data"][0]["marker"]
    assert tried["color"] == sorted(tried["color"])
    assert tried["reversescale"] is True  # the lowest error has the colour of the best
    assert "tickformat" not in tried["colorbar"]
    fixed = (finals["fixed-5x20-0"] + finals["fixed-5x20-1"]) / 2
    better = "fixed-5x20" if fixed < means["fedavg"] else "fedavg"
    assert f"the best setting is {better}" in markup
    assert "ccuracy" not in markup


def test_runs_that_are_judged_by_different_metrics_are_not_mixed(
    runs: Path, tmp_path: Path
) -> None:
    both = (runs / "versus" / "fedavg-0", runs / "errors" / "dynamite-1")
    markup, _, notes = made(*both, "--out", tmp_path / "a.html")
    note = "judged by different metrics (accuracy, rmse): those of accuracy are compared"
    assert any(note in words for words in notes)
    assert "</i>fedavg</td>" in markup
    assert "</i>dynamite</td>" not in markup
    assert '<td class="name">dynamite-1</td><td>-</td>' in markup


def test_a_run_that_diverged_is_shown_but_has_no_result(runs: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    for name in ("fedavg-0", "dynamite-0"):
        shutil.copytree(runs / "errors" / name, both / name)
    *lines, last = lines_of(both / "dynamite-0")
    last["metrics"], last["loss"] = {"rmse": None, "mae": None}, None
    rewrite(RunFolder(both / "dynamite-0"), [*lines, last])
    markup, _, _ = made(both)
    assert "</i>dynamite</td>" not in markup
    assert '<td class="name">dynamite-0</td><td>not a number</td>' in markup
    alone, _, _ = made(both / "dynamite-0")
    assert '<div class="value">not a number</div>' in alone


def test_a_stream_has_buffers_drift_and_the_terms_of_the_bound(runs: Path, tmp_path: Path) -> None:
    markup, charts, _ = made(runs / "stream", "--out", tmp_path / "a.html")
    found = dict(zip(titles(markup), charts.values(), strict=True))
    arrived, stored = found["Samples on devices"]["data"]
    assert arrived["y"][0] == stored["y"][0] == 200  # twenty on each of ten devices
    assert arrived["y"][-1] > 400
    assert stored["y"][-1] == 9 * 40 + 36  # forty fit in a buffer; one device has but 36 samples
    assert "Drift caused by arrivals, ψ" in found
    gap, noise, bias = found["Terms of the bound on the loss after each round"]["data"]
    assert gap["x"] == noise["x"]
    assert min(gap["y"]) > max(bias["y"])


def test_a_comparison_has_bands_targets_and_hindsight(runs: Path, tmp_path: Path) -> None:
    markup, charts, notes = made(runs / "versus", "--out", tmp_path / "a.html")
    assert notes == []
    found = dict(zip(titles(markup), charts.values(), strict=True))
    names = [trace.get("name") for trace in found["Accuracy by seconds"]["data"]]
    assert sorted(name for name in names if name) == ["dynamite", "fedavg"]
    assert len(names) == 6  # each with the two edges of its band
    (seconds,) = (each for title, each in found.items() if title.startswith("Seconds to"))
    bars = [trace for trace in seconds["data"] if trace["type"] == "bar"]
    assert [len(bar["x"]) for bar in bars] == [1, 1]
    assert "Share of the way from FedAvg to the best fixed setting" in found
    tried = found["Accuracy of fixed settings on the first seed"]["data"][0]
    assert len(tried["x"]) == len(list((runs / "versus").glob("fixed-*-0")))
    assert "dynamite compare job.toml --controllers dynamite,fedavg --seeds 2 --hindsight" in markup


def test_methods_at_many_rates_are_shown_at_the_best_one(tmp_path: Path) -> None:
    """FedAvg is run at three rates, one of which diverges, and FedAdam at two that a user chose."""
    job = load_training_job(overrides=[*SHORT, "limits.rounds=2"])
    names = ["uniform", "fedavg@0.01", "fedavg@0.3", "fedadam@0.1x0.1", "fedadam@0.1x0.3"]
    contenders = [*contenders_of(job, names), fixed_contender(FixedSetting(5, 20, 0.1))]
    for planned in runs_of(job, contenders, [0], tmp_path):
        play(planned.path, planned.job)
    shutil.copytree(tmp_path / "fedavg@0.3-0", tmp_path / "fedavg@100-0")
    (tmp_path / "fedavg@100-0" / "ended.txt").unlink()
    (tmp_path / "fedavg@100-0" / "diverged.txt").write_text("all updates were refused\n")
    markup, charts, notes = made(tmp_path, "--out", tmp_path / "a.html")
    assert notes == [f"{tmp_path / 'fedavg@100-0'} diverged: all updates were refused"]
    found = dict(zip(titles(markup), charts.values(), strict=True))
    names = [trace.get("name") for trace in found["Accuracy by seconds"]["data"]]
    shown = ["fedadam@0.1x0.1", "fedadam@0.1x0.3", "fedavg@0.3", "uniform"]
    assert sorted(name for name in names if name) == shown
    (fedavg,) = found["Accuracy at the rates that were tried, on the first seed"]["data"]
    assert fedavg["x"] == [0.01, 0.3]
    assert "Of 2 rates for fedavg, fedavg@0.3 is the best." in markup
    assert "better than that of fedavg@0.3." in markup
    command = "--controllers fedadam@0.1x0.1,fedadam@0.1x0.3,uniform --seeds 1 --hindsight"
    assert f"dynamite compare job.toml {command}" in markup


def test_figures_are_those_of_the_comparison_itself(runs: Path, tmp_path: Path) -> None:
    """The table has the figures that ``compare`` prints."""
    markup, _, _ = made(runs / "versus", "--out", tmp_path / "a.html")
    finals = []
    for name in ("fedavg-0", "fedavg-1"):
        lines = (runs / "versus" / name / "history.jsonl").read_text().splitlines()
        finals.append(json.loads(lines[-1])["metrics"]["accuracy"])
    assert f"{sum(finals) / 2:.1%} <span" in markup
    assert f"The target is {sum(finals) / 2:.1%}, the mean accuracy of fedavg" in markup


@pytest.mark.parametrize("name", ["plain", "stream", "regression", "versus", "errors"])
def test_plotly_accepts_all_charts(runs: Path, tmp_path: Path, name: str) -> None:
    """Plotly's Python package checks every key and value, once colours are replaced."""

    def colored(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: colored(each) for key, each in value.items()}
        if isinstance(value, list):
            return [colored(each) for each in value]
        is_ours = isinstance(value, str) and value.startswith("--")
        return (
            {"sequential": "Blues"}.get(value, "red" if is_ours else value)
            if isinstance(value, str)
            else value
        )

    _, charts, _ = made(runs / name, "--out", tmp_path / "a.html")
    for chart in charts.values():
        go.Figure(colored(chart))


def test_by_default_it_is_in_the_folder(copy: Path) -> None:
    result = report(copy)
    assert result.exit_code == 0
    assert str(copy / "report.html") in result.stdout
    assert (copy / "report.html").is_file()


def test_nothing_in_it_comes_from_elsewhere(runs: Path, tmp_path: Path) -> None:
    markup, _, _ = made(runs / "plain", "--out", tmp_path / "a.html")
    assert "default-src 'none'" in markup
    assert not re.search(r'(src|href)="(?!data:)', markup)


def test_a_run_that_has_not_ended_is_shown_up_to_now(copy: Path) -> None:
    (copy / "ended.txt").unlink()
    markup, _, notes = made(copy)
    assert notes == [f"{copy} still runs or was interrupted; it is shown after round 12"]
    assert "not ended yet" in markup
    assert "after round 12" in markup


def test_a_history_cut_off_in_a_line_is_shown_to_there(copy: Path) -> None:
    history = copy / "history.jsonl"
    history.write_text(history.read_text()[:-100])
    markup, charts, notes = made(copy)
    assert notes == [f"{copy}: the history is cut off in the middle of its last line"]
    assert "cut off" in markup
    assert charts["chart-5"]["data"][0]["x"] == list(range(1, 12))


def test_a_history_of_an_older_version_is_shown(copy: Path, runs: Path) -> None:
    """Its lines have an accuracy, its run says nothing about metrics, and nothing has checks."""
    history, identity = copy / "history.jsonl", copy / "run.json"
    lines = lines_of(copy)
    (copy / "checkpoint.safetensors").unlink()
    (copy / "ended.txt").write_text((copy / "ended.txt").read_text().splitlines()[0] + "\n")
    for line in lines:
        del line["check"]
        line["accuracy"] = (line.pop("metrics") or {"accuracy": None})["accuracy"]
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    saved = json.loads(identity.read_text())
    del saved["leading_metric"], saved["job"], saved["check"]
    identity.write_text(json.dumps({**saved, "format": 2}))
    _, charts, notes = made(copy)
    assert notes == []
    _, expected, _ = made(runs / "plain", "--out", copy / "new.html")
    assert charts == expected


def test_a_run_whose_identity_is_damaged_is_shown_with_a_note(copy: Path) -> None:
    (copy / "run.json").write_text("[1")
    markup, _, notes = made(copy)
    assert any("the metric that leads is unknown, and accuracy is assumed" in n for n in notes)
    assert "Accuracy by round" in titles(markup)


def test_a_run_before_its_first_round_shows_its_job(copy: Path) -> None:
    (copy / "history.jsonl").write_text("")
    for name in ("ended.txt", "checkpoint.safetensors"):
        (copy / name).unlink()
    markup, charts, notes = made(copy)
    assert "before its first round" in notes[0]
    assert charts == {}
    assert "perceptron" in markup or "softmax" in markup


@pytest.mark.parametrize("content", [None, "no = [toml", "[limits]\nrounds = 1\n"])
def test_without_a_sound_job_the_rounds_are_shown(copy: Path, content: str | None) -> None:
    if content is None:
        (copy / "job.toml").unlink()
    else:
        (copy / "job.toml").write_text(content)
    markup, charts, notes = made(copy)
    assert len(notes) == 1
    assert "job" in notes[0]
    assert "Limits left" not in titles(markup)
    assert len(charts) == 14


@pytest.mark.skipif(not _UNREADABLE.exists(), reason="needs a file that nobody can read")
@pytest.mark.parametrize("name", ["job.toml", "ended.txt", "history.jsonl"])
def test_a_file_that_cannot_be_read_is_said_and_the_rest_is_shown(copy: Path, name: str) -> None:
    (copy / name).unlink()
    (copy / name).symlink_to(_UNREADABLE)
    _, _, notes = made(copy)
    assert any(name in note and "Input/output error" in note for note in notes)


@pytest.mark.skipif(not _UNREADABLE.exists(), reason="needs a file that nobody can read")
def test_names_of_machines_that_cannot_be_read_are_done_without(copy: Path) -> None:
    (copy / "nodes.json").symlink_to(_UNREADABLE)
    markup, _, _ = made(copy)
    assert "device 10" in markup


def test_missing_folders_are_noted_and_the_rest_is_shown(
    runs: Path, copy: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    gone = tmp_path / "gone"
    _, charts, notes = made(runs / "stream", gone, copy, empty, "--out", tmp_path / "a.html")
    assert f"{gone} does not exist" in notes
    assert any(note.startswith(f"{empty} holds no run") for note in notes)
    assert any("not of one job: they differ in stream," in note for note in notes)
    assert charts


def test_two_comparisons_are_told_apart(runs: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(runs / "versus", again)
    shown = report(runs / "versus", again, again, "--json", "--out", tmp_path / "a.html")
    assert json.loads(shown.stdout)["runs"] == 2 * len(list(again.iterdir()))
    text = (tmp_path / "a.html").read_text()
    for name in ("versus/dynamite", "again/dynamite", "versus/fedavg", "again/fedavg"):
        assert f"</i>{name}</td>" in text
    assert "the mean accuracy of versus/fedavg" in text
    assert "</i>versus/fixed-" not in text  # fixed settings are for hindsight
    assert "Share of the way from FedAvg to the best fixed setting" in text
    assert "--controllers dynamite,fedavg --seeds 2 --hindsight" in text


def test_comparisons_whose_folders_have_the_same_name_are_told_apart(
    runs: Path, tmp_path: Path
) -> None:
    days = [tmp_path / day / "trial" for day in ("monday", "tuesday")]
    for day in days:
        shutil.copytree(runs / "versus" / "fedavg-0", day / "fedavg-0")
    markup, _, _ = made(*days, "--out", tmp_path / "a.html")
    for name in ("monday/trial/fedavg", "tuesday/trial/fedavg"):
        assert f"</i>{name}</td>" in markup
    assert markup.count('<td class="minor">1</td>') == 2  # one seed each


def test_names_that_begin_alike_have_rows_of_their_own(runs: Path, tmp_path: Path) -> None:
    """Charts shorten the names, after which they are the same."""
    both = tmp_path / "both"
    for source, end in (("dynamite", "left"), ("fedavg", "right")):
        shutil.copytree(runs / "versus" / f"{source}-0", both / f"{'long-' * 6}{end}-0")
    markup, charts, _ = made(both)
    found = dict(zip(titles(markup), charts.values(), strict=True))
    dots = found["Final accuracy of each seed"]
    assert [trace["y"] for trace in dots["data"]] == [[0], [1]]
    (seconds,) = (each for title, each in found.items() if title.startswith("Seconds to"))
    assert [trace["y"] for trace in seconds["data"] if trace["type"] == "bar"] == [[0], [1]]
    for chart in (dots, seconds):
        assert chart["layout"]["yaxis"]["tickvals"] == [0, 1]
        assert len(set(chart["layout"]["yaxis"]["ticktext"])) == 1


def test_real_machines_have_their_own_names(copy: Path) -> None:
    names = [f"machine-{k}" for k in range(10)]
    (copy / "nodes.json").write_text(json.dumps({"training": "a", "names": names}))
    markup, _, _ = made(copy)
    assert all(name in markup for name in names)
    assert "dynamite serve job.toml --name again" in markup
    (copy / "nodes.json").write_text("[1")
    markup, _, notes = made(copy)
    assert notes == []
    assert "device 10" in markup


def test_nothing_to_show_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    result = report(tmp_path / "gone", "--out", tmp_path / "a.html")
    assert result.exit_code == 2
    assert "gone does not exist" in result.stderr
    assert not (tmp_path / "a.html").exists()


def test_a_name_cannot_be_markup(copy: Path) -> None:
    evil = copy.with_name("<script>alert(1)<&")
    copy.rename(evil)
    job = (evil / "job.toml").read_text()
    (evil / "job.toml").write_text(job.replace("camera-1", "</script><img src=x onerror=alert(1)>"))
    markup, charts, _ = made(evil)
    assert "<script>alert" not in markup
    assert "<img" not in markup
    assert "&lt;script&gt;alert(1)&lt;&amp;" in markup
    assert "&lt;/script&gt;&lt;img" in markup
    text = (evil / "report.html").read_text()
    assert "<img src=x" not in text
    ticks = charts["chart-10"]["layout"]["yaxis"]["ticktext"]
    assert ticks[0].startswith("&lt;/script&gt;")


def test_a_private_run_shows_its_epsilon(tmp_path: Path) -> None:
    overrides = ["limits.epsilon=30", "limits.delta=0.05", "training.learning_rate=0.05"]
    overrides += ["privacy={clip_norm=1, noise_multiplier=2}", "controller=fedavg"]
    run = play_run(tmp_path / "run", overrides)
    markup, charts, notes = made(run, "--out", tmp_path / "a.html")
    assert notes == []
    assert "privacy loss, epsilon" in markup
    assert "of 30.00, " in markup
    assert '"epsilon"' in json.dumps(charts)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "folder", "hole"])
def test_a_hostile_folder_neither_hangs_nor_fills_the_memory(copy: Path, kind: str) -> None:
    """Each file in turn is none; what can be shown is shown."""
    for name in ("run.json", "nodes.json", "job.toml", "ended.txt", "checkpoint.safetensors"):
        file = copy / name
        before = file.read_bytes() if file.exists() else None
        file.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        elif kind == "hole":
            file.touch()
            os.truncate(file, 1 << 40)
        else:
            file.symlink_to(kind)
        made(copy, "--out", copy / "new.html")
        file.rmdir() if kind == "folder" else file.unlink()
        if before is not None:
            file.write_bytes(before)


def test_devices_of_a_job_are_not_read_from_a_pipe(copy: Path) -> None:
    os.mkfifo(copy / "devices.csv")
    job = (copy / "job.toml").read_text()
    table = job[job.index("[devices]") :]
    table = table[: table.index("\n\n")]
    (copy / "job.toml").write_text('devices = "devices.csv"\n' + job.replace(table, ""))
    _, _, notes = made(copy)
    assert "devices.csv cannot be read: it is not a regular file" in notes[0]


def test_a_link_is_not_followed_when_the_report_is_written(copy: Path, tmp_path: Path) -> None:
    """Who made the folder might have chosen any file of ours."""
    (tmp_path / "precious").write_text("mine")
    (copy / "report.html").symlink_to(tmp_path / "precious")
    result = report(copy)
    assert result.exit_code == 2
    assert "is a link" in result.stderr
    assert (tmp_path / "precious").read_text() == "mine"
