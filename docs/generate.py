"""Write the reference pages from the code: jobs, histories, commands, errors and the Python API."""

import importlib
import inspect
import re
import types
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import click
from typer.main import get_command

import dynamite_fl as fl
from dynamite_fl import errors as error_module
from dynamite_fl import partitions
from dynamite_fl._cli import errors as exits
from dynamite_fl._cli.all_commands import app
from dynamite_fl.control.registry import CONTROLLERS
from dynamite_fl.job import training as training_job
from dynamite_fl.job.settings import Settings
from dynamite_fl.simulation.fleets import FLEETS
from dynamite_fl.task.datasets.load import NAMES as DATASETS
from dynamite_fl.task.registry import MODELS
from dynamite_fl.training.averaging import AVERAGINGS
from dynamite_fl.training.privacy import Privacy
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.server_optimizer import SERVER_OPTIMIZERS

_LISTS = "A number stands for every device, a list has one entry for each."


def write_reference(folder: Path) -> None:
    """Write all reference pages into a folder."""
    folder.mkdir(exist_ok=True)
    pages = {
        "job": job_page(),
        "history": history_page(),
        "commands": commands_page(),
        "errors": errors_page(),
        "api": api_page(),
    }
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text() != text:  # Sphinx reads changed files only
            file.write_text(text)


def attributes(kind: type) -> dict[str, str]:
    """Return what the docstring of a class says of its attributes, or of its arguments, by name."""
    described: dict[str, str] = {}
    for base in reversed(inspect.getmro(kind)):
        text = inspect.cleandoc(base.__doc__ or "")
        section = re.search(r"^(?:Attributes|Args):\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
        entries = re.split(r"^    (?=\w+:)", section[1], flags=re.MULTILINE) if section else []
        found = (entry.partition(":") for entry in entries if entry.strip())
        described |= {name: _one_paragraph(words) for name, _, words in found}
    return described


def settings_table(kind: type, without: tuple[str, ...] = ()) -> str:
    """Return a table of a class's settings: name, type, default, and what it is."""
    documented = attributes(kind)
    rows = []
    for name, parameter in inspect.signature(kind).parameters.items():
        if name in without or parameter.kind is parameter.VAR_KEYWORD:
            continue
        shown = _default(parameter.default, kind, name)
        what = _cell(documented.get(name, ""))
        rows.append(f"| `{name}` | {_type(parameter.annotation)} | {shown} | {what} |")
    return _table("key | type | default | what it is", rows) if rows else "It has no settings.\n"


def job_page() -> str:
    """Return the page on the keys of job files."""
    needed = ", ".join(f"`[{name}]`" for name in training_job.NEEDED_TABLES)
    parts = [
        "# Job files\n",
        "This page lists every key of a job, which is a TOML file. `dynamite run`, `compare`, `serve`, `node` and `cluster` "
        "read a training job. `dynamite plan` reads a training job or a [planning job](../plan.md). In Python, `fl.train` "
        f"takes the same names as arguments. A training job needs the tables {needed}; all others may be left out. `--set TABLE.KEY=VALUE` "
        "replaces a key, and `--set TABLE.KEY=none` removes it.\n",
        "## `[task]`\n",
        'Either a model and a dataset by name, or `use = "module:function"` for a function of yours that returns a '
        "`Task`. Further keys are then the arguments of the function. The module is looked for beside the job file.\n",
        "| key | values |\n|---|---|\n"
        f"| `model` | {_names(MODELS)} |\n| `dataset` | {_names(DATASETS)} |\n"
        '| `use` | a function, as `"module:function"` |\n',
        "## `[limits]`\n",
        settings_table(fl.Limits),
        "## `[training]`\n",
        settings_table(Settings),
        "## `devices`\n",
        f"The name of a fleet ({_names(FLEETS)}), the name of a CSV file with these columns, or a table of them. "
        f"{_LISTS} For real machines, `{{ clients = 5 }}` is enough, because speeds are measured. In a "
        "job, `trace` names CSV files of measured networks.\n",
        settings_table(fl.Devices),
        "## `[partition]`\n",
        "How the samples are spread over the devices. `kind` names one of these:\n",
        _classes(partitions._RECIPES),
        "## `[controller]`\n",
        '`controller = "NAME"`, or a table with `name` and the settings of this controller. A name of the form '
        "`module:Class` is [one of your own](../tutorials/own-controller.md).\n",
        _classes(CONTROLLERS, ("learning_rate", "geometry", "gradient_variance", "objective")),
        "## `[optimizer]`\n",
        "The optimiser of local steps: any class of `torch.optim` by `name`, with its options beside it.\n",
        settings_table(fl.Optimizer),
        "## `[server]`\n",
        "What the server makes of the average of a round. The default is `extrapolation` if `dynamite-feedback` chooses the "
        "learning rate, and `average` otherwise.\n",
        _classes(SERVER_OPTIMIZERS),
        "## `[averaging]`\n",
        "How the local models of a round are averaged. The default is `mean` in simulations and `clipped-mean` on real "
        "machines.\n",
        _classes(AVERAGINGS),
        "## `[privacy]`\n",
        "If this table is there, clients are protected by [differential privacy](../privacy.md).\n",
        settings_table(Privacy),
        "## `[stream]`\n",
        "If this table is there, samples arrive over time. `preset` names one of the paper's streams; all other keys "
        "override it.\n",
        settings_table(fl.Stream),
        "## Planning jobs\n",
        "A job for `dynamite plan` has `[limits]` as above, `[geometry]` and `[fleet]`. The last may also be the name of a "
        "CSV file with these columns.\n",
        "### `[geometry]`\n",
        settings_table(fl.LossGeometry),
        "### `[fleet]`\n",
        settings_table(fl.Fleet),
    ]
    return "\n".join(parts).replace("math.inf", "inf")


def history_page() -> str:
    """Return the page on the fields of a history."""
    documented = attributes(RoundRecord)
    rows = [
        f"| `{entry.name}` | {_type(entry.type)} | {_cell(documented[entry.name])} |"
        for entry in fields(RoundRecord)
    ]
    lines = _table("field | type | what it is", rows)
    return (
        "# Histories\n\nThis page lists the fields of a history. `history.jsonl` in a run folder has a line of JSON for each round. `fl.read_history` reads it, "
        "`Result.history` holds the same records, and `History.to_pandas` makes a table of them, with a column for each "
        "metric. Clients are given by their index in the fleet. A field is null if it was not measured.\n\n"
        f"{lines}\n"
    )


def commands_page() -> str:
    """Return the page on all commands."""
    commands: dict[str, click.Command] = get_command(app).commands  # type: ignore[attr-defined]
    parts = [
        "# Commands\n\nThis page lists every command with its options, as `--help` shows them. Commands with `--json` print JSON for scripts.\n"
    ]
    for name, command in sorted(commands.items()):
        parts.append(_command(f"dynamite {name}", command))
    return "\n".join(parts)


def errors_page() -> str:
    """Return the page on exit codes and errors."""
    codes = {
        0: "Success.",
        exits.FAILED: "A run or a worker failed, or your own code did.",
        exits.CANNOT_USE: "Something that was given cannot be used. The message says what to change.",
        exits.INFEASIBLE: "The limits allow no round. The message says what would.",
        exits.INTERRUPTED: "Interrupted by Ctrl-C. `dynamite resume` continues.",
    }
    rows = "\n".join(f"| {code} | {words} |" for code, words in codes.items())
    parts = [
        "# Exit codes and errors\n",
        "This page says what each exit code and each error means, and what to do.\n",
        f"| exit code | what happened |\n|---|---|\n{rows}\n",
        "Every error that you should expect is a `dynamite_fl.DynamiteError`. A command shows it as one line. Any "
        "other exception is a bug of this package, or of your own code, and keeps its traceback.\n",
    ]
    for kind in _error_classes():
        what, _, to_do = (inspect.getdoc(kind) or "").partition("\n\n")
        to_do = _one_paragraph(to_do.partition("\n\n")[0].removeprefix("What to do: "))
        code = exits._exit_code(kind.__new__(kind))
        parts.append(
            f"## `{kind.__name__}`\n\n{_code_quotes(_one_paragraph(what))} As a command: exit code {code}.\n\n"
            f"**What to do:** {_code_quotes(to_do)}\n"
        )
    return "\n".join(parts)


def api_page() -> str:
    """Return the page on the Python API."""
    groups = {
        "Training": ("train", "resume", "evaluate", "Result", "Task", "Optimizer"),
        "Devices": ("Devices", "embedded_fleet", "Trace", "read_trace"),
        "Data": ("Stream", "make_task", "load_task", "load_dataset"),
        "Planning": ("Fleet", "Limits", "LossGeometry", "Plan", "cooptimize", "tradeoff"),
        "Other plans": ("uniform_plan", "constant_time_plan", "fixed_plan"),
        "Histories": ("History", "read_history"),
    }
    modules = ("partitions", "controllers", "server", "metrics", "testing", "flower")
    listed = {name for names in groups.values() for name in names} | set(modules)
    others = [
        name
        for name in fl.__all__
        if name not in listed and name != "__version__" and not _is_error(getattr(fl, name))
    ]
    if others:
        groups["Warnings and more"] = tuple(others)
    shown: set[int] = set()
    parts = [
        "# Python API\n\nThis page describes everything that `import dynamite_fl as fl` offers. Names are loaded when they are first "
        "used. Errors are on [their own page](errors.md).\n"
    ]
    for title, names in groups.items():
        parts.append(f"## {title}\n")
        parts += [_autodoc(f"dynamite_fl.{name}", getattr(fl, name), shown) for name in names]
    for module in modules:
        parts.append(f"## fl.{module}\n")
        loaded = importlib.import_module(f"dynamite_fl.{module}")
        names = [name for name in loaded.__all__ if not name.startswith("_")]
        parts += [_autodoc(f"dynamite_fl.{module}.{n}", getattr(loaded, n), shown) for n in names]
    return "\n".join(parts)


def _classes(kinds: dict[str, Any], without: tuple[str, ...] = ()) -> str:
    """Return a section for each class that a name stands for."""
    parts = []
    for name, kind in kinds.items():
        summary = _code_quotes(_one_paragraph((inspect.getdoc(kind) or "").partition("\n\n")[0]))
        parts.append(f"### `{name}`\n\n{summary}\n\n{settings_table(kind, without)}")
    return "\n".join(parts)


def _table(columns: str, rows: list[str], classes: str = "settings") -> str:
    """Return a table of the class ``settings``, which the style sheet shows on phones as a list."""
    rule = "|---" * (columns.count("|") + 1) + "|"
    lines = "\n".join([f"| {columns} |", rule, *rows])
    return f"```{{table}}\n:class: {classes}\n\n{lines}\n```\n"


def _command(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    help_text = _plain(inspect.cleandoc(command.help or ""))
    parts = [f"## `{path}`\n\n{help_text}\n"]
    rows = []
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            names, help_words = ", ".join(f"`{name}`" for name in parameter.opts), parameter.help
        else:
            names, help_words = (
                f"`{parameter.make_metavar(context)}`",
                getattr(parameter, "help", ""),
            )
        default = parameter.default
        shown = "" if default in (None, False, ()) or callable(default) else f"`{default}`"
        rows.append(f"| {names} | {shown} | {_cell(_plain(help_words or ''))} |")
    if rows:
        parts.append(_table("option | default | what it does", rows, "settings options"))
    if isinstance(command, click.Group):
        listed = sorted(command.commands.items())
        parts += [f"- `{path} {name}`: {_plain(c.get_short_help_str(200))}" for name, c in listed]
        parts.append("")
    if command.epilog:
        parts.append(_epilog(command.epilog))
    return "\n".join(parts)


def _epilog(text: str) -> str:
    """Return the examples of a command as a block, and the rest of its epilog as text."""
    lines = [_without_markup(line) for line in inspect.cleandoc(text).splitlines() if line.strip()]
    examples = [line for line in lines if re.match(r"(?:\w+=\S+ )?dynamite ", line)]
    others = [line for line in lines if line not in examples and not line.startswith("Example")]
    others = [_plain(line) for line in others]
    block = "```text\n" + "\n".join(examples) + "\n```\n" if examples else ""
    return block + "\n" + "\n\n".join(others) + "\n"


def _error_classes() -> list[type]:
    kinds = [kind for _, kind in inspect.getmembers(error_module, _is_error)]
    return sorted([*kinds, fl.Infeasible], key=lambda kind: kind.__name__)


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, fl.DynamiteError)


def _autodoc(path: str, value: object, shown: set[int]) -> str:
    """Return the directive for a class or a function; nothing if it was shown already."""
    if id(value) in shown or not isinstance(value, type | types.FunctionType):
        return ""
    shown.add(id(value))
    kind = "autoclass" if isinstance(value, type) else "autofunction"
    options = "\n   :members:" if kind == "autoclass" else ""
    return f"```{{eval-rst}}\n.. {kind}:: {path}{options}\n```\n"


def _type(annotation: Any) -> str:
    """Return a type in the words of a job file."""
    if isinstance(annotation, str):
        annotation = annotation.replace("ArrayLike", "number or list")
        return f"{annotation}".replace("|", "or")
    words = {float: "number", int: "whole number", str: "text", bool: "true or false"}
    if annotation in words:
        return words[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (types.UnionType,) or str(origin) == "typing.Union":
        return (
            "number or list"
            if len(arguments) > 4
            else " or ".join(
                dict.fromkeys(_type(each) for each in arguments if each is not type(None))
            )
        )
    if origin is not None and str(origin).endswith("Literal"):
        return ", ".join(f"`{each}`" for each in arguments)
    if origin in (tuple, list) or "Sequence" in str(origin):
        return f"list of {_type(arguments[0])}" if arguments else "list"
    if origin is not None and arguments:
        return "table"
    return getattr(annotation, "__name__", str(annotation))


def _default(value: Any, kind: type, name: str) -> str:
    if value is inspect.Parameter.empty:
        return "**needed**"
    if is_dataclass(kind):
        made = {entry.name: entry.default_factory for entry in fields(kind)}
        if made.get(name, MISSING) is not MISSING:
            return ""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"`{value}`" if not callable(value) else ""


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _one_paragraph(text: str) -> str:
    return " ".join(text.split())


def _code_quotes(text: str) -> str:
    return text.replace("``", "`")


def _cell(text: str) -> str:
    return _code_quotes(_one_paragraph(text)).replace("|", "\\|").replace("<", "&lt;")


def _plain(text: str) -> str:
    """Take out Rich's markup, and show options as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*)(?!`)", r"`\1`", _without_markup(text))


def _without_markup(text: str) -> str:
    return re.sub(r"\[/?(?:bold|dim|italic)\]", "", text)
