"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

JobFile = Annotated[
    Path | None, typer.Argument(help="A job file in TOML. Default: the embedded job.")
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")]
RunPaths = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", help="Run folders, or folders that hold run folders."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a key of the job, such as limits.deadline=500. The value none removes the "
        "key. Can be repeated.",
    ),
]
Name = Annotated[
    str | None, typer.Option("--name", help="The name of the run folder. Default: date and time.")
]
Runs = Annotated[Path, typer.Option("--runs", help="The folder that holds run folders.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="The folder that holds datasets. Default: $DYNAMITE_DATA."),
]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(
        help="Where to compute: local for this machine, or ray for the Ray cluster at "
        "$RAY_ADDRESS. Without $RAY_ADDRESS, Ray is started on this machine."
    ),
]


def run_path(runs: Path, name: str) -> Path:
    """Return the folder of a run; refuse a name that leads out of the folder of runs."""
    from dynamite_fl._validate import check_folder_name  # only now, since it loads NumPy

    check_folder_name("--name", name)
    return runs / name


Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
LastLine = Annotated[
    bool, typer.Option("--json", help="Print the last line of the history as JSON.")
]
