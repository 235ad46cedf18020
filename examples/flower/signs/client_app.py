"""A device's side: its data, in the client that plays the rounds."""

from flwr.app import Context

from dynamite_fl.client.client import Client
from dynamite_fl.flower import client_app, local_client
from signs.task import make_task


def make_client(context: Context) -> Client:
    """The client with this device's data."""
    return local_client(make_task(seed=1 + int(context.node_config["partition-id"])))


app = client_app(make_client)
