"""A crash of a server of real machines hides no release."""

from itertools import islice
from pathlib import Path

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.identity import Identity
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.releases import with_lost_releases, write_releases
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from tests.training.private import private_training


class Crash(Exception):  # noqa: N818  it says what happens
    pass


def crash(_: object) -> None:
    raise Crash


def folder_of(path: Path) -> RunFolder:
    path.mkdir(exist_ok=True)
    return RunFolder(path)


def test_a_round_whose_checkpoint_was_never_written_counts_twice(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    limit = {"deadline": 1e6, "budget": 1e6}
    first = private_training(is_real=True, limit=limit)
    with pytest.raises(Crash):
        Session(first, folder, on_round=[crash], seconds_between_checkpoints=0.0).run()
    made = private_training(is_real=True, limit=limit)
    assert made.privacy is not None
    history = Session(made, folder, seconds_between_checkpoints=0.0).run().history
    expected = [made.privacy.accountant.epsilon(k) for k in range(2, 10)]
    assert [record.epsilon for record in history] == expected


def test_simulations_repeat_their_noise_and_count_a_round_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with pytest.raises(Crash):
        Session(private_training(), folder, on_round=[crash]).run()
    assert not folder.releases.exists()
    made = private_training()
    assert made.privacy is not None
    history = Session(made, folder).run().history
    assert history[0].epsilon == made.privacy.accountant.epsilon(1)


def test_lost_releases_can_end_a_training(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    limit = {"epsilon": 4.0, "rounds": None, "deadline": 1e6, "budget": 1e6}
    made = private_training(is_real=True, limit=limit)
    assert made.privacy is not None
    *_, (progress, _) = islice(rounds(made, begin(made)), 2)
    write_releases(folder, made.privacy.most_releases - 1)
    after = with_lost_releases(made, folder, progress)
    assert after.ended is None
    assert after.ledger.epsilon == made.privacy.accountant.epsilon(made.privacy.most_releases - 1)
    assert after.ledger.epsilon <= 4.0
    write_releases(folder, made.privacy.most_releases)
    assert with_lost_releases(made, folder, progress).ended == "epsilon"
    write_releases(folder, 2)
    assert with_lost_releases(made, folder, progress) is progress


@pytest.mark.parametrize(
    "content",
    ["many", "", "1\n", "12\n", "1\n0123456789abcdef\n", "the last digit", "of another run", None],
)
def test_a_ledger_that_says_too_little_is_an_error(tmp_path: Path, content: str | None) -> None:
    """A file that was damaged, shortened, exchanged or removed allows nobody to overspend."""
    folder = folder_of(tmp_path / "a")
    made = private_training(is_real=True)
    *_, (progress, _) = islice(rounds(made, begin(made)), 2)
    write_releases(folder, 12)
    assert with_lost_releases(made, folder, progress) != progress
    right = folder.releases.read_text()
    if content is None:
        folder.releases.unlink()
    elif content == "the last digit":
        folder.releases.write_text(right.replace("12", "13", 1))
    elif content == "of another run":
        other = folder_of(tmp_path / "b")
        other.begin("", Identity({"model": "1f"}))
        write_releases(other, 12)
        folder.releases.write_text(other.releases.read_text())
    else:
        folder.releases.write_text(content)
    with pytest.raises(RunFolderError, match=r"releases\.txt is damaged"):
        with_lost_releases(made, folder, progress)


def test_a_ledger_behind_the_checkpoint_is_an_error(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    made = private_training(is_real=True)
    *_, (progress, _) = islice(rounds(made, begin(made)), 2)
    write_releases(folder, 1)
    with pytest.raises(RunFolderError, match="it has 1 of at least 2 rounds"):
        with_lost_releases(made, folder, progress)
