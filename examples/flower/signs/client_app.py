"""The app of a device: a client with the device's own data."""

from flwr.app import Context

from dynamite_fl.client.client import Client
from dynamite_fl.flower import client_app, local_client
from signs.task import make_task


def make_client(context: Context) -> Client:
    """Return the client with this device's data."""
    return local_client(make_task(seed=1 + int(context.node_config["partition-id"])))


app = client_app(make_client)
