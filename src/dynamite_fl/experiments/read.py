"""From an experiment's file to an ``Experiment``, checked key by key."""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from typing import Any

from dynamite_fl.config import table_record
from dynamite_fl.experiments import NAMES
from dynamite_fl.experiments.claims import claim_of
from dynamite_fl.experiments.experiment import (
    SCALES,
    Contender,
    Experiment,
    Panel,
    Picture,
    Theorem,
)
from dynamite_fl.experiments.measures import COLUMNS, MEASURES
from dynamite_fl.run_config import OPTIONAL, TABLES
from dynamite_fl.tables import JobError, check_keys, suggestion

_KEYS = ["title", "shows", "like", "select", "job", "at", "seeds", "panels", "contenders"]
_KEYS += ["notes", "pictures", "claims", "theorem"]
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DRAWN: dict[str, Collection[str]] = {
    "lines": COLUMNS,
    "bars": MEASURES,
    "theorem": ("local_steps", "batch_mean"),
}
_JOB_TABLES = [*TABLES, *OPTIONAL]


def load_experiment(name: str) -> Experiment:
    """An experiment of the package.

    Raises:
        JobError: There is none of this name, or its file cannot be used.

    Example:
        >>> load_experiment("optimal-tau").shows
        'fig:case1'
    """
    if name not in NAMES:
        raise JobError(f"there is no experiment {name}; {suggestion(name, NAMES)}")
    file = resources.files(__package__) / "jobs" / f"{name}.toml"
    return read_experiment(name, file.read_text(encoding="utf-8"))


def read_experiment(name: str, text: str) -> Experiment:
    """An experiment from its file's text.

    Raises:
        JobError: It cannot be used; the message names the key and says what to change.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{name}.toml is not valid TOML: {error}") from None
    try:
        return _checked(name, tables)
    except JobError as error:
        raise JobError(f"{name}.toml: {error}") from None


def _checked(name: str, tables: dict[str, Any]) -> Experiment:
    check_keys("the file", tables, _KEYS, ["title", "shows"])
    base = load_experiment(tables["like"]) if "like" in tables else None
    panels = {**(base.panels if base else {}), **_named(Panel, "panels", tables)}
    contenders = {**(base.contenders if base else {}), **_named(Contender, "contenders", tables)}
    select = tables.get("select", {})
    check_keys("select", select, ["panels", "contenders"])
    panels = _selected("select.panels", panels, select.get("panels"))
    contenders = _selected("select.contenders", contenders, select.get("contenders"))
    if not panels or not contenders:
        raise JobError(f"there are no {'contenders' if panels else 'panels'}: name at least one")
    experiment = Experiment(
        name=name,
        pool=base.pool if base else name,
        title=tables["title"],
        shows=tables["shows"],
        job=_job("job", {**(base.job if base else {}), **tables.get("job", {})}),
        at={**(base.at if base else {}), **_by_scale("at", tables.get("at", {}), _job)},
        seeds=tables.get("seeds") or (base.seeds if base else {}),
        notes={**(base.notes if base else {}), **tables.get("notes", {})},
        panels=panels,
        contenders=contenders,
        pictures=[
            table_record(Picture, f"pictures[{i}]", each)
            for i, each in enumerate(tables.get("pictures", []))
        ],
        claims=[claim_of(f"claims[{i}]", each) for i, each in enumerate(tables.get("claims", []))],
        theorem=_by_scale(
            "theorem", tables.get("theorem", {}), lambda key, each: table_record(Theorem, key, each)
        ),
    )
    _check_seeds(experiment)
    _check_pictures(experiment)
    _check_claims(experiment)
    return experiment


def _named(record: type[Any], key: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Records by their names, and the tables of a job in them."""
    found = {}
    if not isinstance(tables.get(key, {}), dict):
        raise JobError(f"{key} must be tables: write [{key}.a-name]")
    for name, table in tables.get(key, {}).items():
        where = f"{key}.{name}"
        if not _NAME.fullmatch(name):
            raise JobError(f"{where}: names are of small letters, digits and single hyphens")
        if isinstance(table, dict):
            table = {"title": name, **table}
        each = table_record(record, where, table)
        _job(f"{where}.job", each.job)
        _by_scale(f"{where}.at", each.at, _job)
        for scale in getattr(each, "scales", ()):
            _known(f"{where}.scales", scale, SCALES)
        found[name] = each
    return found


def _selected(key: str, all_of: dict[str, Any], wanted: Sequence[str] | None) -> dict[str, Any]:
    for name in wanted or ():
        _known(key, name, all_of)
    return all_of if wanted is None else {name: all_of[name] for name in wanted}


def _job(key: str, table: Any) -> Any:
    if not isinstance(table, dict):
        raise JobError(f"{key} must be a table")
    check_keys(key, table, _JOB_TABLES)
    return table


def _by_scale(key: str, table: Any, read: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise JobError(f"{key} must be a table")
    check_keys(key, table, SCALES)
    return {scale: read(f"{key}.{scale}", each) for scale, each in table.items()}


def _known(key: str, word: object, known: Collection[str]) -> None:
    if word not in known:
        raise JobError(f"{key} has {word!r}: {suggestion(str(word), known)}")


def _check_seeds(experiment: Experiment) -> None:
    check_keys("seeds", experiment.seeds, SCALES, SCALES)
    for scale, count in experiment.seeds.items():
        if not isinstance(count, int) or count < 1:
            raise JobError(f"seeds.{scale} is {count!r}: it must be a whole number, 1 or more")


def _check_pictures(experiment: Experiment) -> None:
    for i, picture in enumerate(experiment.pictures):
        key = f"pictures[{i}]"
        _known(f"{key}.kind", picture.kind, _DRAWN)
        _known(f"{key}.y", picture.y, _DRAWN[picture.kind])
        _known(f"{key}.x", picture.x, ["round", "seconds", "cost"])
        for name in picture.contenders:
            _known(f"{key}.contenders", name, experiment.contenders)
        for name in picture.panels:
            _known(f"{key}.panels", name, experiment.panels)
    if not experiment.pictures:
        raise JobError("there are no [[pictures]]: a figure shows at least one")


def _check_claims(experiment: Experiment) -> None:
    for i, claim in enumerate(experiment.claims):
        for key, word in claim.named_contenders():
            _known(f"claims[{i}].{key}", word, experiment.contenders)
        for key, word in claim.named_panels():
            _known(f"claims[{i}].{key}", word, experiment.panels)
        for scale in claim.scales:
            _known(f"claims[{i}].scales", scale, SCALES)
        for scale in claim.because:
            _known(f"claims[{i}].because", scale, SCALES)
        if claim.measure and claim.measure not in MEASURES:
            raise JobError(
                f"claims[{i}].measure has {claim.measure!r}: {suggestion(claim.measure, MEASURES)}"
            )
    if not experiment.claims:
        raise JobError("there are no [[claims]]: say what the paper does")
