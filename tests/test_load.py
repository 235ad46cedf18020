"""Objects of the user's own modules."""

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynamite_fl._load import load_object
from dynamite_fl.errors import JobError, UserCodeError


@pytest.fixture(autouse=True)
def _unchanged_path() -> Iterator[None]:
    path = sys.path.copy()
    yield
    assert sys.path == path


def folder_with(tmp_path: Path, name: str, **files: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    for module, text in files.items():
        (folder / f"{module}.py").write_text(text)
    return folder


def test_the_current_folder_is_searched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder_with(tmp_path, "here", load_a="value = 1"))
    assert load_object("load_a:value", "number") == 1
    other = folder_with(tmp_path, "other", load_a="value = 2")
    assert load_object("load_a:value", "number", [other]) == 2  # given folders come first


def test_modules_beside_can_be_imported_at_once_and_later(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path,
        "job",
        load_main="import load_beside\nvalue = load_beside.value\n"
        "def later():\n    import load_later\n    return load_later.value\n",
        load_beside="value = 3",
        load_later="value = 4",
    )
    assert load_object("load_main:value", "number", [folder]) == 3
    assert load_object("load_main:later", "function", [folder])() == 4


def test_modules_of_two_folders_do_not_mix(tmp_path: Path) -> None:
    text = "import load_twin\ndef make():\n    return load_twin.value\n"
    first, second = (
        folder_with(tmp_path, name, load_both=text, load_twin=f"value = {name!r}")
        for name in ("first", "second")
    )
    make_first = load_object("load_both:make", "function", [first])
    make_second = load_object("load_both:make", "function", [second])
    assert (make_first(), make_second()) == ("first", "second")
    assert load_object("load_both:make", "function", [second]) is make_second  # imported once


def test_modules_of_a_package_can_be_named(tmp_path: Path) -> None:
    package = folder_with(
        tmp_path, "load_package", __init__="", part="from . import base\nvalue = base.value"
    )
    (package / "base.py").write_text("value = 5")
    assert load_object("load_package.part:value", "number", [tmp_path]) == 5


def test_a_module_with_the_name_of_another_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "job", pathlib="value = 1")
    with pytest.raises(JobError, match="already imported: rename the file"):
        load_object("pathlib:value", "number", [folder])


def test_the_error_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="task nowhere:make: there is no module") as caught:
        load_object("nowhere:make", "task", [tmp_path])
    assert str(tmp_path) in str(caught.value)
    assert str(Path.cwd()) in str(caught.value)


@pytest.mark.parametrize("spec", ["module", "module:", ":name", "module:a b", ""])
def test_malformed_names(spec: str) -> None:
    with pytest.raises(JobError, match="write it as module:name"):
        load_object(spec, "task")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import load_not_there", "ModuleNotFoundError: No module named 'load_not_there'"),
        ("def", "SyntaxError: invalid syntax"),
    ],
)
def test_exceptions_of_the_module_keep_their_frames(
    text: str, message: str, tmp_path: Path
) -> None:
    folder = folder_with(tmp_path, "job", load_broken=text)
    with pytest.raises(UserCodeError, match=message) as caught:
        load_object("load_broken:make", "task", [folder])
    cause = caught.value.__cause__
    assert cause is not None
    if not isinstance(cause, SyntaxError):
        files = [frame.filename for frame in traceback.extract_tb(cause.__traceback__)]
        assert str(folder / "load_broken.py") in files
