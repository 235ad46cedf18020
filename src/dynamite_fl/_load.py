"""Objects of the user's own, named as ``module:name``.

A module is looked for in given folders, such as that of the job file, then in the current folder,
then on Python's path. Modules beside a user's module can be imported by it, at any time. Python's
path stays as it is.
"""

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from dynamite_fl._validate import suggestion
from dynamite_fl.errors import DynamiteError, JobError, UserCodeError


def load_object(spec: str, what: str, folders: Sequence[Path] = ()) -> Any:
    """Return an object of a user's module.

    Args:
        spec: The object, as ``module:name``.
        what: What the object is, for messages: ``task`` or ``controller``.
        folders: The folders to search before the current folder and Python's path.

    Raises:
        JobError: The specification is malformed, or the module or the object does not exist.
        UserCodeError: The module raised an exception while it was imported.

    Example:
        >>> load_object("math:pi", "number")
        3.141592653589793
        >>> load_object("sys:pathh", "number")
        Traceback (most recent call last):
        dynamite_fl.errors.JobError: number sys:pathh: sys has no 'pathh': did you mean 'path'?
    """
    module_name, _, name = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if not module_name or not name.isidentifier():
        raise JobError(f"{what} is {spec!r}: write it as module:name")
    searched = list(dict.fromkeys(folder.resolve() for folder in (*folders, Path.cwd())))
    module = _import_module(module_name, f"{what} {spec}", searched)
    if not hasattr(module, name):
        public = [known for known in vars(module) if not known.startswith("_")]
        where = getattr(module, "__file__", None) or module_name
        raise JobError(f"{what} {spec}: {where} has no {name!r}: {suggestion(name, public)}")
    return getattr(module, name)


@contextmanager
def user_code(action: str) -> Iterator[None]:
    """Turn an exception of the user's code into a ``UserCodeError`` with the original as cause.

    A ``DynamiteError`` passes unchanged: it already says what to change.

    Args:
        action: What the user's code is doing, for the message.

    Example:
        >>> with user_code("task my:make"):
        ...     {}["data"]
        Traceback (most recent call last):
        dynamite_fl.errors.UserCodeError: task my:make failed: KeyError: 'data'
    """
    try:
        yield
    except DynamiteError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(f"{action} failed: {type(error).__name__}: {error}") from error


def _import_module(module_name: str, spec: str, folders: Sequence[Path]) -> ModuleType:
    """Import a module from the first folder that has it, else from Python's path."""
    folder = next((folder for folder in folders if _file(folder, module_name)), None)
    try:
        with user_code(f"{spec}: importing {module_name}"):
            if folder is None:
                return importlib.import_module(module_name)
            with _BESIDE.first(folder):
                module = importlib.import_module(module_name)
    except UserCodeError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and _is_part(module_name, cause.name):
            places = ", ".join(map(str, folders))
            raise JobError(
                f"{spec}: there is no module {module_name!r} in {places} or on Python's path"
            ) from None
        raise
    file = _file(folder, module_name)
    if file is None or Path(module.__file__ or "").resolve() != file.resolve():
        raise JobError(
            f"{spec}: {file} cannot be imported, because another module of the name "
            f"{module_name!r} is already imported: rename the file"
        )
    return module


def _file(folder: Path, module_name: str) -> Path | None:
    """Return the file of a module in a folder, or None if there is none."""
    path = folder.joinpath(*module_name.split("."))
    files = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _is_part(module_name: str, missing: str | None) -> bool:
    """Return whether the missing module is the module itself or a package that it is in."""
    return missing is not None and f"{module_name}.".startswith(f"{missing}.")


class _BesideFinder:
    """Finds modules in the folders from which users' modules were loaded, the latest first.

    It is the last finder, so it finds only modules that are nowhere else. While a user's module is
    imported, it is the first finder, as the folder of a script is the first on Python's path.

    Modules are imported under their own names. When a folder comes first that has a module of a
    name that was imported from another folder, that import is forgotten. So two jobs in one
    process each get their own modules, even if the names are the same.
    """

    def __init__(self) -> None:
        self.folders: list[Path] = []
        self._imported: dict[str, Path] = {}  # the folder of each module, by its first name

    def find_spec(
        self, name: str, path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        """Return how to load a module, or None if no folder has it."""
        if path is not None:  # a path means that it is part of a package
            return None
        for folder in self.folders:
            spec = PathFinder.find_spec(name, [str(folder)])
            if spec is not None and spec.loader is not None:  # a module has an __init__.py
                self._imported[name] = folder
                return spec
        return None

    @contextmanager
    def first(self, folder: Path) -> Iterator[None]:
        """Search a folder first while the context lasts, and all folders last after it."""
        self.folders = [folder, *(other for other in self.folders if other != folder)]
        others = [name for name, home in self._imported.items() if home != folder]
        stale = {name for name in others if _file(folder, name) is not None}
        for module in [name for name in sys.modules if name.partition(".")[0] in stale]:
            del sys.modules[module]
        importlib.invalidate_caches()
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            sys.meta_path.append(self)


_BESIDE = _BesideFinder()


def user_folders() -> list[Path]:
    """Return the folders from which users' modules were loaded, the latest first.

    Processes on other machines need them on their path to find the same modules.
    """
    return list(_BESIDE.folders)


def module_folder(spec: str | None) -> Path | None:
    """Return the folder from which the module of ``module:name`` was imported.

    It is None if the specification names no module, or the module was not imported from a file.
    """
    name, colon, _ = (spec or "").partition(":")
    file = getattr(sys.modules.get(name), "__file__", None)
    if not colon or file is None:
        return None
    path = Path(file).resolve()
    module = path.parent if path.name == "__init__.py" else path
    return module.parents[name.count(".")]
