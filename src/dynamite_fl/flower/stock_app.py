"""The ClientApp that stock SuperNodes run; the node's configuration describes the client.

The configuration has ``job``, the path of the job file on the device. It may have ``part``,
``incoming``, ``data-dir``, ``name`` and ``state``, which mean the same as the options of
``dynamite node``.
"""

from pathlib import Path

from flwr.app import Context

from dynamite_fl.client.client import Client
from dynamite_fl.flower.clientapp import client_app
from dynamite_fl.flower.job_parts import build_client
from dynamite_fl.job.training import load_training_job


def _configured_client(context: Context) -> Client:
    """Build the client that the node's configuration describes."""
    config = context.node_config
    data_dir = Path(str(config["data-dir"])) if "data-dir" in config else None
    part = int(config["part"]) if "part" in config else None
    incoming = Path(str(config["incoming"])) if "incoming" in config else None
    return build_client(load_training_job(Path(str(config["job"]))), data_dir, part, incoming)


app = client_app(_configured_client)
