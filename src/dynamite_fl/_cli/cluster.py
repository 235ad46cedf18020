"""The command ``dynamite cluster``: a server and its nodes on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from dynamite_fl._cli.app import app
from dynamite_fl._cli.errors import errors
from dynamite_fl._cli.options import DataDir, JobFile, LastLine, Overrides, Runs, run_path
from dynamite_fl._cli.serve import (
    MinNodes,
    RunName,
    Wait,
    prepare_task,
    sigterm_as_interrupt,
    tell,
    train_with_nodes,
)
from dynamite_fl.errors import JobError

_EPILOG = """
[bold]Example[/bold]

dynamite cluster --name trial -n 5 --cpu-shares 1,1,0.5,0.5,0.2

After an interruption, repeat the command to continue.
"""


@app.command(epilog=_EPILOG)
def cluster(
    name: RunName,
    job: JobFile = None,
    overrides: Overrides = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            "-n", min=1, help="The number of devices, each a node. Default: that of the job."
        ),
    ] = None,
    cpu_shares: Annotated[
        str,
        typer.Option(
            metavar="A,B,...",
            help="The share of the time in which each node may compute. The list is repeated if "
            "there are more nodes.",
        ),
    ] = "1,0.5,0.25",
    min_nodes: MinNodes = 1,
    wait: Wait = 300.0,
    runs: Runs = Path("runs"),
    data_dir: DataDir = None,
    as_json: LastLine = False,
) -> None:
    """Try out a training on real machines: run a server and unequal nodes on this machine."""
    with errors(as_json, extra="flower"):
        shares = _shares(cpu_shares)

        changes = [*(overrides or []), *_with_devices(nodes)]

        from dynamite_fl._cli.show import show_run
        from dynamite_fl._cli.train import open_view
        from dynamite_fl.training.run_folder import RunFolder

        folder = RunFolder(run_path(runs, name))
        with sigterm_as_interrupt(), open_view(folder, as_json) as view:
            from dynamite_fl.flower.cluster import node_names, started_nodes
            from dynamite_fl.flower.serve import open_job, open_superlink
            from dynamite_fl.job.build_data import number_of_devices
            from dynamite_fl.job.runs import opened_run
            from dynamite_fl.task.fingerprint import fingerprint

            training_job = open_job(folder, job, changes)
            if not folder.is_finished:
                task = prepare_task(training_job, data_dir, view)
                names = node_names(number_of_devices(training_job))
                with (
                    opened_run(folder, training_job, fingerprint(task), task.leading_metric),
                    open_superlink(folder, "127.0.0.1", 0, keys=None) as link,
                    started_nodes(folder, link.port, names, shares, data_dir),
                ):
                    logs = folder.path / "nodes"
                    tell(view, f"Nodes started: {len(names)}. Their logs are in {logs}.")
                    train_with_nodes(
                        training_job,
                        task,
                        folder,
                        link,
                        view,
                        min_nodes=min_nodes,
                        wait=wait,
                        names=names,
                    )
        show_run(folder, as_json)


def _with_devices(count: int | None) -> list[str]:
    """Return the override that gives a job this number of devices, whose speeds are measured."""
    return [] if count is None else [f"devices={{clients={count}}}"]


def _shares(text: str) -> list[float]:
    """Read the option --cpu-shares."""
    rule = f"--cpu-shares is {text!r}: it must be numbers above 0, at most 1, such as 1,0.5"
    try:
        shares = [float(word) for word in text.split(",")]
    except ValueError:
        raise JobError(rule) from None
    if not all(0 < share <= 1 for share in shares):
        raise JobError(rule)
    return shares
