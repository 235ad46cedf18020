"""The one mechanism that runs what documents show.

A document is run from its top to its end, in a folder and a namespace of its own:

- ``python`` is run. ``python my_module.py`` is written into this file instead, and so are ``toml``
  and ``text`` with the name of a file.
- ``toml`` without a name is a part of a job: it must be usable beside the embedded job.
- ``console`` has commands behind a ``$``, which must end well. The lines behind a command are its
  output, where ``...`` stands for any lines. The commands of ``console together`` run at once.
- ``text`` without a name, and blocks of Sphinx such as ``{toctree}``, are not run.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynamite_fl.job.training import load_training_job, resolve_tables
from tests._cli.commands import invoke
from tests.processes import HANG_SECONDS, start_command

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = ("_build", "reference")
PAGES = [
    page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in GENERATED
]
DOCUMENTS = [ROOT / "README.md", *PAGES]


@dataclass(frozen=True)
class Block:
    """A block of a document: its language, the words behind it, and its text."""

    language: str
    words: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command that a document shows, and its output; None if the document shows none."""

    line: str
    output: str | None


def blocks(document: Path) -> list[Block]:
    """Return the blocks of a document, in their order."""
    pattern = r"^```([\w{}-]*) ?([^\n]*)\n(.*?)^```$"
    found = re.findall(pattern, document.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*parts) for parts in found]


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield Command(line.strip(), output.strip() or None)


def run_document(document: Path, folder: Path, *, in_process: bool) -> None:
    """Run all blocks of a document.

    Args:
        document: The document.
        folder: An empty folder, which is the current one.
        in_process: Whether commands run in this process, which is quick, or as a user runs them.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(document):
        if block.language in ("python", "toml", "text") and block.words:
            (folder / block.words).write_text(block.text)
        elif block.language == "python":
            run_python_block(block.text, names)
        elif block.language == "toml":
            resolve_tables({**load_training_job().tables, **tomllib.loads(block.text)}, folder)
        elif block.language == "console" and block.words == "together":
            _run_together([command.line for command in commands(block.text)], folder)
        elif block.language == "console":
            for command in commands(block.text):
                shown = _run(command.line, folder, in_process=in_process)
                if command.output is not None:
                    assert_shown(command.output, shown)
        else:
            assert block.language == "text" or block.language.startswith("{"), block


def run_python_block(code: str, names: dict[str, Any]) -> str:
    """Run Python code to its end, and return what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)  # noqa: S102  our own documents
    return printed.getvalue()


def assert_shown(expected: str, output: str) -> None:
    """Check that a document shows an output, where ``...`` stands for any lines."""
    lines = "\n".join(line.rstrip() for line in output.splitlines()).strip()
    parts = [re.escape(part) for part in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE)]
    assert re.fullmatch(r"(?:.*\n)*?.*".join(parts), lines), lines


def _run(line: str, folder: Path, *, in_process: bool) -> str:
    """Run a command to its end and return what it printed; without progress, if it trains."""
    if not in_process:
        return _run_in_shell(line, folder)
    program, *words = shlex.split(line)
    if program == "python":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(words[0], run_name="__main__")
        return printed.getvalue()
    assert program == "dynamite", line
    result = invoke(*words, columns=80)
    assert result.exit_code == 0, result.output
    return _without_progress(result.stdout)


def _run_in_shell(line: str, folder: Path) -> str:
    """Run a command as a user does; the figures in documents are of a processor with AVX2."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8", "ATEN_CPU_CAPABILITY": "avx2"}
    result = subprocess.run(
        ["/bin/bash", "-c", line],
        env={**os.environ, "PATH": path, **own},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert result.returncode == 0, line + result.stdout + result.stderr
    return _without_progress(result.stdout)


def _without_progress(output: str) -> str:
    """Keep the first line of a training and its summary."""
    first, *others = output.splitlines() or [""]
    if first.startswith("Training in "):
        name = first.removeprefix("Training in ")
        ends = [index for index, other in enumerate(others) if other.endswith(f", {name}")]
        others = others[ends[-1] :] if ends else others
    return "\n".join([first, *others])


def _run_together(lines: list[str], folder: Path) -> None:
    """Start commands at the same time, and wait until all of them have ended well."""
    started = [start_command(*shlex.split(line)[1:], cwd=folder) for line in lines]
    try:
        for process in started:
            assert process.wait(HANG_SECONDS) == 0, process.args
    finally:
        for process in started:
            process.kill()
            process.wait(HANG_SECONDS)
