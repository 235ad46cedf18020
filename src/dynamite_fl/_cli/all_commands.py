"""All commands of ``dynamite``: importing a command's module registers it.

Commands import what they need when they run, so that help texts and errors are shown at once.
"""

# This is the order of the commands in the help text.
# isort: off
from dynamite_fl._cli import plan, new, run, resume, show, report, watch, compare  # noqa: F401
from dynamite_fl._cli import serve, node, cluster, keys, experiment  # noqa: F401

# isort: on
from dynamite_fl._cli.app import app as app
