import json
from pathlib import Path

from dynamite_fl.report.history import read_history
from dynamite_fl.report.recover import recover

LINE = {
    "round": 1,
    "seconds": 2.0,
    "cost": 3.0,
    "local_steps": 4,
    "batch_mean": 5.0,
    "accuracy": 0.5,
    "clients": [0, 1],
    "batch_sizes": [4, 6],
}


def written(path: Path, *lines: object) -> Path:
    file = path / "history.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def test_a_sound_history_is_read_as_it_is(runs: Path) -> None:
    file = runs / "stream" / "history.jsonl"
    history, wrong = recover(file)
    assert not wrong
    plain = read_history(file)
    assert len(history) == len(plain) == 12
    for ours, theirs in zip(history.lines, plain.lines, strict=True):
        assert ours == {key: theirs[key] for key in ours}
        assert set(theirs) - set(ours) == {"samples", "probed"}


def test_a_line_that_is_cut_off_is_said(tmp_path: Path) -> None:
    file = written(tmp_path, LINE, {**LINE, "round": 2})
    file.write_text(file.read_text()[:-20])
    history, wrong = recover(file)
    assert [line["round"] for line in history.lines] == [1]
    assert wrong == ["its history is cut off in the middle of its last line"]


def test_lines_that_make_no_sense_are_left_out_and_counted(tmp_path: Path) -> None:
    nonsense = [
        "words",
        [1],
        None,
        {"round": 3},
        {**LINE, "seconds": "long"},
        {**LINE, "cost": True},
    ]
    nonsense.append({**LINE, "cost": 10**400})
    file = written(tmp_path, LINE, *nonsense, {**LINE, "round": 8})
    file.write_bytes(file.read_bytes() + b"\xff\xfe{\n" + b"[" * 100_000 + b"\n")
    history, wrong = recover(file)
    assert [line["round"] for line in history.lines] == [1, 8]
    assert len(wrong) == 1
    assert "9 of the 11 lines" in wrong[0]
    assert "line 2 and others" in wrong[0]


def test_what_is_unsound_in_a_line_is_left_out(tmp_path: Path) -> None:
    odd = {
        **LINE,
        "accuracy": "high",
        "batch_sizes": [4],
        "step_seconds": [0.1, None],
        "absent": "nobody",
        "estimates": [1],
    }
    history, wrong = recover(written(tmp_path, odd))
    assert not wrong
    (line,) = history.lines
    assert line["accuracy"] is None
    assert line["absent"] == []
    assert line["estimates"] == {}
    assert "batch_sizes" not in line
    assert line["step_seconds"] == [0.1, None]


def test_devices_that_are_not_known_are_left_out_with_all_that_is_theirs(tmp_path: Path) -> None:
    (line,) = recover(written(tmp_path, {**LINE, "clients": [0, None], "absent": [None]}))[0].lines
    assert line["absent"] == []
    assert "clients" not in line
    assert "batch_sizes" not in line


def test_a_class_that_was_not_judged_is_not_the_worst(tmp_path: Path) -> None:
    classes = {"0": 0.5, "1": None, "2": 0.25}
    history, _ = recover(written(tmp_path, {**LINE, "class_accuracy": classes}))
    assert history.worst_class == ("2", 0.25)
    history, _ = recover(written(tmp_path, {**LINE, "class_accuracy": {"0": None}}))
    assert history.worst_class is None
