"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

JobFile = Annotated[
    Path | None, typer.Argument(help="A job file in TOML. Default: the embedded job.")
]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a key of the job, such as limits.deadline=500; the value none removes it. "
        "Repeatable.",
    ),
]
Name = Annotated[
    str | None, typer.Option("--name", help="The name of the run's folder. Default: date and time.")
]
Runs = Annotated[Path, typer.Option("--runs", help="The folder that holds run folders.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="The folder that holds datasets. Default: $DYNAMITE_DATA."),
]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(
        help="Where to compute: on this machine, or on Ray, here or on the cluster $RAY_ADDRESS."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
LastLine = Annotated[
    bool, typer.Option("--json", help="Print the last line of the history as JSON.")
]
