"""The entry point of ``dynamite``.

It imports the commands inside ``main``, so that Ctrl-C ends the command without a traceback from
its first moment on.
"""

import io
import os
import sys
import warnings


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning in one line."""
    sys.stderr.write(f"warning: {message}\n")


def main() -> None:
    """Run the command line."""
    try:
        from dynamite_fl._cli.all_commands import app
        from dynamite_fl._cli.errors import CANNOT_USE, is_output_error
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)  # INTERRUPTED, which may not be imported yet
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
