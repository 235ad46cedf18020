"""The entry point of ``dynamite``.

What a command needs is imported when it runs, so that help and errors come at once.
"""

import io
import os
import sys

# Importing a command's module registers it, so this is the order of the commands in the help text.
# isort: off
from dynamite_fl._cli import plan, run, resume, show, report, compare  # noqa: F401
from dynamite_fl._cli import serve, node, cluster, keys, experiment  # noqa: F401

# isort: on
from dynamite_fl._cli.app import app as app
from dynamite_fl._cli.errors import CANNOT_USE, INTERRUPTED


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that lack bars and boxes
    try:
        app(prog_name="dynamite")
    except OSError as error:  # for example, the disk that output goes to is full
        sys.stderr.write(f"dynamite: the output cannot be written: {error.strerror}\n")
        os._exit(CANNOT_USE)  # an ordinary exit would try to write it once more
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
