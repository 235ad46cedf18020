"""What benchmarks of accuracy share: a job to ``dynamite compare``, and its figures as text."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXAMPLES = str(Path(__file__).parents[1] / "examples")


def parser_of(document: str | None, runs: str) -> argparse.ArgumentParser:
    """Return a parser of the options that all comparisons have."""
    parser = argparse.ArgumentParser(description=(document or "").partition("\n")[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", default=runs, help="where runs are kept, to be taken up again")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--again", nargs="+", default=[], help="controllers whose kept runs are removed first"
    )
    return parser


def compared(
    arguments: argparse.Namespace, name: str, job: str, controllers: Sequence[str], *more: str
) -> dict[str, Any]:
    """One case, as ``dynamite compare --json`` reports it; finished runs are not run again."""
    folder = Path(arguments.runs)
    folder.mkdir(parents=True, exist_ok=True)
    for controller in arguments.again:
        for path in (folder / name).glob(f"{controller}-[0-9]*"):
            shutil.rmtree(path)
    file = folder / f"{name}.toml"
    file.write_text(job)
    command = [sys.executable, "-c", "from dynamite_fl._cli.main import main; main()", "compare"]
    command += [str(file), "--controllers", ",".join(controllers), "--json", *more]
    command += ["--seeds", str(arguments.seeds), "--runs", str(folder), "--name", name]
    command += ["--data-dir", arguments.data_dir, "--jobs", str(arguments.jobs)]
    # Tasks of examples load their data themselves.
    modules = os.pathsep.join(filter(None, [EXAMPLES, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "DYNAMITE_DATA": arguments.data_dir, "PYTHONPATH": modules}
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False, env=environment
    )
    found: dict[str, Any] = json.loads(done.stdout or "{}")
    if "controllers" not in found:
        raise SystemExit(f"{name}: {done.stderr.strip()[-500:]}")
    for run, reason in found["failed"].items():
        print(f"{name}: {run} failed: {reason}", file=sys.stderr)
    (folder / f"{name}.json").write_text(done.stdout)
    return found


def percent(spread: dict[str, Any]) -> str:
    """Mean and standard deviation over seeds, in per cent."""
    mean, deviation = 100 * spread["mean"], spread["deviation"]
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {100 * deviation:.1f}"


def accuracies(found: dict[str, Any], controllers: Sequence[str]) -> str:
    """Each controller's test accuracy, the best in bold, as cells of a table."""
    rows = {row["controller"]: row["final"] for row in found["controllers"]}
    texts = {name: percent(rows[name]) for name in controllers}
    return " | ".join(f"**{t}**" if n == found["best"] else t for n, t in texts.items())


def hindsight(found: dict[str, Any], controllers: Sequence[str]) -> str:
    """Return the best fixed setting, and the share of the way to it that contenders cover."""
    looked = found["hindsight"]
    best = looked["best"]
    pair = f"{best['controller'].removeprefix('fixed-')}: {percent(best['final'])}"
    shares = [looked["covered"][name] for name in controllers]
    return " | ".join([pair, *("n/a" if each is None else f"{each:.0%}" for each in shares)])
