"""The command ``dynamite node``."""

from pathlib import Path

from tests._cli.machines import refusal, write_job


def test_a_folder_without_keys(tmp_path: Path) -> None:
    assert "is not a node's folder" in refusal("node", "--name", "a", "--keys", tmp_path)


def test_a_part_that_the_job_does_not_have(tmp_path: Path) -> None:
    output = refusal("node", write_job(tmp_path, 5), "--name", "a", "--part", 2)
    assert "--part is 2, but the job has 2 devices: use 0 to 1" in output
