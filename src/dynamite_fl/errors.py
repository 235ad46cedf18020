"""Every error that a user of this package should expect.

All of them are a ``DynamiteError``. The command ``dynamite`` shows them as one line and an exit
code; any other exception is a bug of ours and keeps its traceback. Errors about a wrong value are a
``ValueError`` too, so that code that knows nothing of this package can catch them.

``Infeasible`` is the one error that lives elsewhere, in ``plan/feasibility.py``: its message is
computed from the fleet and the limits.
"""


class DynamiteError(Exception):
    """The base of all errors that this package raises on purpose.

    What to do: read the message, which says what is wrong and what to change. Catch this class to
    catch all of them.
    """


class InvalidInput(DynamiteError, ValueError):  # noqa: N818  it says what the input is
    """A value, a setting or a file that cannot be used.

    What to do: change what the message names, to what it says.
    """


class JobError(InvalidInput):
    """A job file or a command-line option that cannot be used.

    What to do: change the key that the message names. The reference lists all keys of a job.
    """


class UserCodeError(DynamiteError):
    """An exception in the user's own code, such as a task or a controller.

    What to do: mend that code. A command shows the part of the traceback that is in it.

    Its ``__cause__`` is the original exception, whose traceback has the frames of that code.
    """


class DatasetError(InvalidInput):
    """A dataset that is missing, incomplete or damaged.

    What to do: put the files that the message names into ``--data-dir`` or ``$DYNAMITE_DATA``, or
    delete damaged files, so that they are downloaded again.
    """


class RunFolderError(DynamiteError):
    """A run folder that is missing, damaged or of another training.

    What to do: choose another folder, or give the job, the data and the task that the folder is of.
    The message says what differs.
    """


class OutputError(DynamiteError, OSError):
    """A file that cannot be written, for example because the disk is full.

    What to do: make room, or choose another folder. Then continue the run: what was saved is whole.
    """


class Diverged(DynamiteError):  # noqa: N818  it says what the training did
    """All updates of a round, or the server's step after it, are NaN, infinite or misshapen.

    What to do: try a smaller learning rate, clip gradients with ``optimizer.clip_norm``, or scale
    the inputs. If updates are misshapen, devices do not train the same model.
    """


class NoSampleYet(DynamiteError):  # noqa: N818  it says what is the matter
    """Nothing has arrived that a client could learn from, so it cannot take part in a round.

    What to do: wait until samples have arrived in the node's folder, or give clients some samples
    at the start. A node without samples is absent, and the training goes on with the others.
    """


class TooFewNodes(DynamiteError):  # noqa: N818  it says what is wrong
    """Fewer nodes are connected than a round needs.

    What to do: start the missing nodes or look at their logs, then start the training again. It
    continues from its checkpoint. Fewer nodes may be enough: see ``--min-nodes``.
    """


class WorkerError(DynamiteError, RuntimeError):
    """A worker process died, or what it computed failed.

    What to do: look at the message of the worker. If it ran out of memory, use fewer ``workers`` or
    smaller batches. ``dynamite resume`` continues from the last checkpoint.
    """


class MissingExtra(DynamiteError, ImportError):  # noqa: N818  it says what is the matter
    """An optional dependency that is needed is not installed.

    What to do: run the ``pip install`` that the message says.

    Example:
        >>> print(MissingExtra("a report", "report"))
        a report needs an optional dependency: pip install 'dynamite-fl[report]'
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency: pip install 'dynamite-fl[{extra}]'")
