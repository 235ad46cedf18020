"""How long a node is left out."""

import os
from pathlib import Path

import pytest

from dynamite_fl.flower.conduct import Conduct


def test_two_rounds_then_four_then_for_good(tmp_path: Path) -> None:
    conduct = Conduct(tmp_path / "excluded.txt")
    conduct.offend("lab", 10, "it lies")
    assert [conduct.is_left_out("lab", k) for k in (11, 12, 13)] == [True, True, False]
    conduct.offend("lab", 13, "it lies")
    assert [conduct.is_left_out("lab", k) for k in (14, 17, 18)] == [True, True, False]
    assert not conduct.is_left_out("ward", 14)
    conduct.offend("lab", 18, "it lies\nward\tforged")
    assert conduct.is_left_out("lab", 10**6)
    resumed = Conduct(tmp_path / "excluded.txt")
    resumed.read()
    assert resumed.excluded == {"lab": r"in round 18: it lies\nward\tforged"}


def test_the_operator_lets_a_node_in_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "excluded.txt"
    conduct = Conduct(path)
    for round_index in (1, 4, 9):
        conduct.offend("lab", round_index, "it lies")
    path.write_text("# nobody\n\n")
    conduct.read()
    assert not conduct.is_left_out("lab", 10)
    assert "lab may take part again, because excluded.txt says so." in caplog.text
    conduct.offend("lab", 11, "it lies")  # counted from the start
    assert not conduct.is_left_out("lab", 14)
    path.unlink()
    conduct.read()
    assert conduct.excluded == {}


def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "excluded.txt"
    path.write_text("lab\n")
    conduct = Conduct(path)
    conduct.read()
    path.unlink()
    for put in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")):
        put(path)
        conduct.read()  # and does not wait for a pipe
        assert set(conduct.excluded) == {"lab"}
        path.rmdir() if path.is_dir() else path.unlink()


def test_the_operator_keeps_a_node_out(tmp_path: Path) -> None:
    path = tmp_path / "excluded.txt"
    path.write_text("ward\nlab\tits disk is broken\n")
    conduct = Conduct(path)
    conduct.read()
    assert conduct.excluded == {"ward": "", "lab": "its disk is broken"}
    for round_index in (1, 4, 9):
        conduct.offend("cam", round_index, "it lies")
    assert set(conduct.excluded) == {"ward", "lab", "cam"}


def test_twenty_sound_replies_make_good_for_one_offence() -> None:
    conduct = Conduct()
    for offence in range(5):
        conduct.offend("lab", 100 * offence, "chance")
        for _ in range(20):
            conduct.praise("lab")
    assert conduct.excluded == {}
