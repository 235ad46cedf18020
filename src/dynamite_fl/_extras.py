"""Which optional dependency belongs to which extra of the distribution."""

from collections.abc import Iterator
from contextlib import contextmanager

from dynamite_fl.errors import MissingExtra

_FLOWER = ("cryptography", "fastapi", "flwr", "httpx", "starlette", "uvicorn")
_TRAIN = ("torch", "safetensors", "sklearn")
_REPORT = ("plotly", "matplotlib")
# Modules that may be missing, and the extra that installs them.
_EXTRAS = {
    **dict.fromkeys(_TRAIN, "train"),
    **dict.fromkeys(_FLOWER, "flower"),
    **dict.fromkeys(_REPORT, "report"),
    "ray": "ray",
}


def extra_of(error: ModuleNotFoundError) -> str | None:
    """Return the extra that installs a missing module; None if no extra does.

    Example:
        >>> extra_of(ModuleNotFoundError(name="torch.nn")), extra_of(ModuleNotFoundError(name="a"))
        ('train', None)
    """
    return _EXTRAS.get((error.name or "").partition(".")[0])


@contextmanager
def naming_extras(what: str) -> Iterator[None]:
    """Replace the error for a missing module by one that says which extra installs it.

    Args:
        what: What needs the module, as the subject of a sentence.

    Raises:
        MissingExtra: A module of an extra is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        extra = extra_of(error)
        if extra is None:
            raise
        raise MissingExtra(what, extra) from None
