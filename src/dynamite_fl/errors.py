"""Every error that a user of this package should expect.

All of them are a ``DynamiteError``. The command ``dynamite`` shows them as one line and an exit
code; any other exception is a bug of ours and keeps its traceback. Errors about a wrong value are a
``ValueError`` too, so that code that knows nothing of this package can catch them.

``Infeasible`` is the one error that lives elsewhere, in ``plan/feasibility.py``: its message is
computed from the fleet and the limits.
"""


class DynamiteError(Exception):
    """The base of all errors that this package raises on purpose.

    Its message says what is wrong and what to change.
    """


class InvalidInput(DynamiteError, ValueError):  # noqa: N818  it says what the input is
    """A value, a setting or a file that cannot be used."""


class JobError(InvalidInput):
    """A job file or a command-line option that cannot be used."""


class UserCodeError(DynamiteError):
    """An exception in the user's own code, such as a task or a controller.

    Its ``__cause__`` is the original exception, whose traceback has the frames of that code.
    """


class DatasetError(InvalidInput):
    """A dataset that is missing, incomplete or damaged."""


class RunFolderError(DynamiteError):
    """A run folder that is missing, damaged or of another training."""


class OutputError(DynamiteError, OSError):
    """A file that cannot be written, for example because the disk is full."""


class Diverged(DynamiteError):  # noqa: N818  it says what the training did
    """All updates of a round, or the server's step after it, are NaN, infinite or misshapen."""


class NoSampleYet(DynamiteError):  # noqa: N818  it says what is the matter
    """Nothing has arrived that a client could learn from, so it cannot take part in a round."""


class TooFewNodes(DynamiteError):  # noqa: N818  it says what is wrong
    """Fewer nodes are connected than a round needs."""


class WorkerError(DynamiteError, RuntimeError):
    """A worker process died, or what it computed failed."""


class MissingExtra(DynamiteError, ImportError):  # noqa: N818  it says what is the matter
    """An optional dependency that is needed is not installed.

    Example:
        >>> print(MissingExtra("a report", "report"))
        a report needs an optional dependency: pip install 'dynamite-fl[report]'
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency: pip install 'dynamite-fl[{extra}]'")
