"""Where data is looked for."""

from pathlib import Path

import pytest

from dynamite_fl.task.datasets.folders import FileSearch, cache_folder, data_folders


def test_the_given_folder_comes_first_and_the_cache_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DYNAMITE_DATA", str(tmp_path / "named"))
    cache = tmp_path / "cache" / "dynamite-fl"
    assert cache_folder() == cache
    assert data_folders(tmp_path / "given") == [tmp_path / "given", tmp_path / "named", cache]
    assert data_folders(tmp_path / "named") == [tmp_path / "named", cache]
    monkeypatch.delenv("DYNAMITE_DATA")
    assert data_folders(None) == [cache]


@pytest.mark.parametrize("given", ["", "relative/cache"])
def test_a_cache_folder_that_is_not_absolute_is_ignored(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert cache_folder() == Path.home() / ".cache" / "dynamite-fl"


def test_files_are_taken_from_the_first_folder_that_has_them_all(tmp_path: Path) -> None:
    search = FileSearch([tmp_path / "a", tmp_path / "b"], ["raw", ""])
    for name in ("a/raw/x", "b/x", "b/y.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert search.find(["x", "y"]) == [tmp_path / "b/x", tmp_path / "b/y.gz"]
    assert search.find(["x"]) == [tmp_path / "a/raw/x"]
    assert search.find(["x", "z"]) is None


def test_an_error_names_what_is_missing_and_where_it_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    error = FileSearch([tmp_path], ["raw", ""]).missing(["x", "z"], "Download it.")
    lines = str(error).splitlines()
    assert lines[0] == "z (or z.gz) was not found in"
    assert lines[1:] == [f"  {tmp_path / 'raw'}", f"  {tmp_path}", "Download it."]
