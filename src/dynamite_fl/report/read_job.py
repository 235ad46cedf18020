"""A training job as far as a report needs it, read without building what it describes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dynamite_fl._regular import read_regular_text
from dynamite_fl.errors import InvalidInput
from dynamite_fl.job.devices import build_devices
from dynamite_fl.job.training import TrainingJob
from dynamite_fl.stream.stream import Stream
from dynamite_fl.training.run_folder import RunFolder


def setting(tables: Mapping[str, Any], table: str, key: str, default: Any = None) -> Any:
    """Return a setting of a table, or the default if the table or the setting is missing."""
    entry = tables.get(table)
    return entry.get(key, default) if isinstance(entry, Mapping) else default


def device_names(folder: RunFolder, job: TrainingJob | None) -> Sequence[str]:
    """Return the names of real machines, or of the job's devices; none if neither is known."""
    if folder.nodes.is_file():
        try:
            text = read_regular_text(folder.nodes)
            return [str(name) for name in json.loads(text)["names"]]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return ()
    if job is None:
        return ()
    try:
        devices = build_devices(job.tables["devices"], setting(job.tables, "training", "seed", 0))
    except InvalidInput:
        return ()
    return [devices.label(index) for index in range(len(devices))]


def stream_buffer_size(tables: Mapping[str, Any]) -> float | None:
    """Return the most samples that a device stores; None if there is no limit or no stream."""
    if "stream" not in tables:
        return None
    dataset = str(setting(tables, "task", "dataset", ""))
    try:
        return Stream.from_table(tables["stream"], dataset).capacity
    except InvalidInput:
        return None
