"""The entry point of ``dynamite``.

Commands import what they need when they run, so that help texts and errors are shown at once.
"""

import io
import os
import sys
import warnings

# Importing a command's module registers it, so this is the order of the commands in the help text.
# isort: off
from dynamite_fl._cli import plan, new, run, resume, show, report, watch, compare  # noqa: F401
from dynamite_fl._cli import serve, node, cluster, keys, experiment  # noqa: F401

# isort: on
from dynamite_fl._cli.app import app as app
from dynamite_fl._cli.errors import CANNOT_USE, INTERRUPTED, is_output_error


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning in one line."""
    sys.stderr.write(f"warning: {message}\n")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that lack bars and boxes
    warnings.showwarning = _show_warning
    try:
        app(prog_name="dynamite")
    except OSError as error:
        if not is_output_error(error):
            raise
        sys.stderr.write(f"dynamite: the output cannot be written: {error.strerror}\n")
        os._exit(CANNOT_USE)  # an ordinary exit would try to write it once more
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
