"""Text and CSV files that people write."""

from pathlib import Path
from typing import Any

import pytest

from dynamite_fl._csv import read_csv, read_text
from dynamite_fl.errors import JobError


def read(folder: Path, content: str | bytes) -> dict[str, list[Any]]:
    file = folder / "a.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_csv(file, known=["name", "speed"], needed=["speed"], words=["name"])


@pytest.mark.parametrize(
    "content",
    [
        "name,speed\na b,1\nc,2.5\n",
        "speed,name\n1,a b\n2.5,c",
        b"\xef\xbb\xbfname,speed\r\na b,1\r\n\r\nc,2.5\r\n",
        ' name , speed\n"a b", 1\n c ,2.5\n',
    ],
)
def test_columns_are_numbers_or_words(tmp_path: Path, content: str | bytes) -> None:
    assert read(tmp_path, content) == {"name": ["a b", "c"], "speed": [1.0, 2.5]}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "lacks the key 'speed'"),
        ("name,speed\n", "has no client"),
        ("name;speed\na;1\n", "separate columns by commas"),
        ("name\tspeed\na\t1\n", "separate columns by commas"),
        ("name,sped\na,1\n", "did you mean 'speed'"),
        ("speed,speed\n1,2\n", "two columns of one name"),
        ("name,speed\na,1\nb\n", "line 3 has 1 of 2 columns"),
        ("name,speed\n\na,fast\n", "line 3: speed is 'fast', not a number"),
        (b"name,speed\n\xff,1\n", "not a text file in UTF-8"),
    ],
)
def test_errors_name_the_file_and_the_line(
    tmp_path: Path, content: str | bytes, complaint: str
) -> None:
    with pytest.raises(JobError, match=complaint) as refused:
        read(tmp_path, content)
    assert str(tmp_path / "a.csv") in str(refused.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="cannot be read: Is a directory"):
        read_text(tmp_path)
