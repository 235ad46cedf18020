"""Objects that a job gives by a name and settings: how they are made, and written as a table."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from dynamite_fl._validate import check_settings
from dynamite_fl.errors import InvalidInput

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Named = TypeVar("Named", bound="DataclassInstance")


def make_named(
    table: str, name: str, kinds: Mapping[str, type[Named]], settings: Mapping[str, Any]
) -> Named:
    """Return the object of a known name.

    Args:
        table: The name of the job's table, for errors.
        name: The name.
        kinds: The class of each known name.
        settings: The fields of the class that are given.

    Raises:
        JobError: A setting is unknown.
    """
    kind = kinds[name]
    check_settings(f"{table} {name}", settings, [field.name for field in fields(kind)])
    return kind(**settings)


def named_table(table: str, value: Named, kinds: Mapping[str, type[Named]]) -> dict[str, Any]:
    """Return an object as a job's table: its name and all its settings.

    Args:
        table: The name of the job's table, for errors.
        value: The object.
        kinds: The class of each known name.

    Raises:
        InvalidInput: The object is of none of these classes.
    """
    for name, kind in kinds.items():
        if type(value) is kind:
            return {"name": name, **asdict(value)}
    raise InvalidInput(f"{table} is {value!r}: give a name or an object of dynamite_fl.server")
