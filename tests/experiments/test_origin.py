"""Run folders keep the states of the program that made them."""

from pathlib import Path

from dynamite_fl.experiments.origin import (
    Origin,
    current_origin,
    in_words,
    read_origins,
    record_origin,
)

FIRST, SECOND = Origin("2026-01-02", "0.1.0", "abc"), Origin("2026-01-05", "0.1.0", "def+")


def test_a_continued_run_has_several_origins(tmp_path: Path) -> None:
    record_origin(tmp_path, FIRST)
    (tmp_path / "checkpoint.safetensors").touch()
    for origin in (FIRST, SECOND):
        record_origin(tmp_path, origin)
    assert read_origins(tmp_path) == [FIRST, SECOND]


def test_a_state_that_left_no_checkpoint_is_not_named(tmp_path: Path) -> None:
    """Runs are noted before they start; a run without a checkpoint starts again."""
    record_origin(tmp_path, FIRST)
    (tmp_path / "history.jsonl").touch()
    record_origin(tmp_path, SECOND)
    assert read_origins(tmp_path) == [SECOND]


def test_a_folder_without_a_note() -> None:
    assert read_origins(Path("nowhere")) == []


def test_origins_are_described_in_words() -> None:
    both = "from 2026-01-02 to 2026-01-05 with version 0.1.0, commit abc, def+"
    assert in_words([FIRST, SECOND]) == both
    assert in_words([Origin("2026-01-02", "0.1.0", "")]) == "on 2026-01-02 with version 0.1.0"


def test_the_running_program() -> None:
    assert current_origin().version
