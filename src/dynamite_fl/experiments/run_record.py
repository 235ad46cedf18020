"""The record of a finished run: all that figures, tables and verdicts are made from.

A record is one small file beside the run's folder. The folder may be removed then, and with it the
model and what only a training needs. Records are small enough to be kept with the results.
"""

import json
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dynamite_fl._atomic import write_atomically
from dynamite_fl._json import json_ready
from dynamite_fl._leading_metric import LeadingMetric
from dynamite_fl._regular import read_regular_text
from dynamite_fl.errors import RunFolderError
from dynamite_fl.experiments.origin import Origin
from dynamite_fl.job.read import to_toml
from dynamite_fl.job.runs import refuse_other_tables
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.training.history import History
from dynamite_fl.training.round_record import RoundRecord, parse_line

_FORMAT = 1
_MOST_BYTES = 100_000_000
_REMOVE = "remove it to train this run again"
_OF_ROUNDS = ("round", "seconds", "cost", "local_steps", "batch_mean")
_OF_EVALUATIONS = ("metrics", "loss", "stream_loss", "class_accuracy")


@dataclass(frozen=True)
class RunRecord:
    """What is kept of a finished run.

    Attributes:
        tables: The tables of its job.
        origins: The states of the program that made it.
        history: The fields of the run's history that experiments use, in six significant digits.
    """

    tables: dict[str, Any]
    origins: tuple[Origin, ...]
    history: History


def record_file(run_folder: Path) -> Path:
    """Return the file of a run's record, beside the run's folder.

    Example:
        >>> record_file(Path("reduced/stream-table/burst-fedavg-0")).as_posix()
        'reduced/stream-table/burst-fedavg-0.json'
    """
    return run_folder.with_name(f"{run_folder.name}.json")


def write_record(file: Path, job: TrainingJob, origins: list[Origin], history: History) -> None:
    """Write the record of a finished run."""
    values = {
        "format": _FORMAT,
        "job": to_toml(job.tables).splitlines(),
        "origins": [asdict(origin) for origin in origins],
        "leading_metric": asdict(history.leading_metric),
        "columns": _OF_ROUNDS,
        "rounds": [[getattr(record, name) for name in _OF_ROUNDS] for record in history],
        "evaluations": {
            record.round: {name: getattr(record, name) for name in _OF_EVALUATIONS}
            for record in history
            if record.is_evaluated
        },
    }
    text = json.dumps(_shortened(json_ready(values)), allow_nan=False, separators=(",", ":"))
    write_atomically(file, text + "\n")


def read_record(file: Path, job: TrainingJob) -> RunRecord:
    """Return the record of a run.

    Raises:
        RunFolderError: The file cannot be read or is damaged, or it is of another job.
    """
    try:
        record = _from_json(json.loads(read_regular_text(file, _MOST_BYTES)))
        refuse_other_tables(file, record.tables, job, _REMOVE)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        what = str(error) or type(error).__name__
        raise RunFolderError(
            f"{file} is damaged ({what}): copy it from a backup, or {_REMOVE}"
        ) from None
    return record


def _from_json(values: dict[str, Any]) -> RunRecord:
    """Return the record that a file describes; raise any of several errors if it is damaged."""
    if values["format"] != _FORMAT:
        raise ValueError(f"its format is {values['format']} and not {_FORMAT}")
    evaluations = values["evaluations"]
    rounds = [
        _round(
            {**dict(zip(values["columns"], row, strict=True)), **evaluations.get(f"{row[0]}", {})}
        )
        for row in values["rounds"]
    ]
    if not rounds or [record.round for record in rounds] != list(range(1, len(rounds) + 1)):
        raise ValueError("its rounds are not numbered from 1 on")
    if not all(isinstance(text, str) for origin in values["origins"] for text in origin.values()):
        raise ValueError("its origins are not text")
    return RunRecord(
        tables=tomllib.loads("\n".join(values["job"])),
        origins=tuple(Origin(**origin) for origin in values["origins"]),
        history=History(tuple(rounds), LeadingMetric(**values["leading_metric"])),
    )


def _round(values: dict[str, Any]) -> RoundRecord:
    record = parse_line(json.dumps(values))
    if record is None or any(getattr(record, key) != value for key, value in values.items()):
        raise ValueError(f"round {values.get('round')} has a wrong value")
    return record


def _shortened(value: Any) -> Any:
    """Return a value of JSON with six significant digits of each number.

    Example:
        >>> _shortened({"cost": [3.1999999999999997]})
        {'cost': [3.2]}
    """
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _shortened(entry) for key, entry in value.items()}
    return [_shortened(entry) for entry in value] if isinstance(value, list) else value
