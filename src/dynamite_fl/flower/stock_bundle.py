"""The app bundle for stock SuperNodes.

A stock SuperNode runs the app that a server sends. This bundle only imports ``stock_app`` from the
dynamite-fl that is installed on the device, so a device never runs code from the network.
"""

import hashlib
import warnings

from flwr.cli.build import build_fab_from_files
from flwr.supercore.fab import Fab

ID, VERSION = "dynamite/dynamite-node", "1.0.0"

_FILES = {
    "pyproject.toml": f"""
[project]
name = "dynamite-node"
version = "{VERSION}"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "dynamite"

[tool.flwr.app.components]
serverapp = "dynamite_node.app:app"
clientapp = "dynamite_node.app:app"
""",
    "dynamite_node/__init__.py": "",
    "dynamite_node/app.py": "from dynamite_fl.flower.stock_app import app as app\n",
}


def stock_bundle() -> Fab:
    """Build the bundle; its bytes are the same every time."""
    with warnings.catch_warnings():  # flwr uses what newer versions of pathspec deprecate
        warnings.simplefilter("ignore", DeprecationWarning)
        content, _ = build_fab_from_files({name: text.encode() for name, text in _FILES.items()})
    return Fab(hashlib.sha256(content).hexdigest(), content, {})
