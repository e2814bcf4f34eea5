"""Every model that histories of other tools are checked against, by name.

A model is an object that must be linearizable (`liftlog_jepsen/objects/`), a kind of transactions
(`liftlog_jepsen/transactions/`), one of Jepsen's tallies (`liftlog_jepsen/tallies/`), or a log (`kafka`,
checked by `liftlog_jepsen/log/`). `set` and `counter` are both objects and tallies; then the functions in the
history decide.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from liftlog.types import LiftlogError
from liftlog_jepsen.events import Operation
from liftlog_jepsen.formats import edn
from liftlog_jepsen.formats.options import Options
from liftlog_jepsen.judgement import Budget, Judgement, merge

AUTO = "auto"
KAFKA = "kafka"

OBJECTS = (
    "register", "cas-register", "multi-register", "mutex", "semaphore", "set", "queue", "stack",
    "priority-queue", "counter", "rmw", "kv", "log",
)  # fmt: skip
TRANSACTIONS = ("list-append", "rw-register")
TALLIES = ("bank", "set", "set-full", "counter", "long-fork", "comments")

ALIASES = {"priorityqueue": "priority-queue", "append": "list-append", "wr": "rw-register"}
BOTH = {"set": frozenset({"add", "read"}), "counter": frozenset({"add", "read", "inc", "dec"})}
"""Names that mean two things: a history with no other functions than these is one of Jepsen's tallies."""

NAMES = (
    *(name for name in OBJECTS if name not in BOTH), *TRANSACTIONS,
    *(name for name in TALLIES if name not in BOTH), "set", "counter",
    "linearizable-set", "linearizable-counter", "jepsen-set", "jepsen-counter", KAFKA,
)  # fmt: skip

_SIGNS = (
    (frozenset({"push", "pop"}), "stack"),
    (frozenset({"enqueue", "dequeue"}), "queue"),
    (frozenset({"enq", "deq"}), "queue"),
    (frozenset({"acquire", "release"}), "mutex"),
    (frozenset({"transfer", "read"}), "bank"),
    (frozenset({"get", "put", "append"}), "kv"),
    (frozenset({"read", "write", "cas"}), "cas-register"),
    (frozenset({"append", "read", "check-tail"}), "log"),
)
"""What functions say for certain: (all that occur, the model)."""


class NamedModel(NamedTuple):
    """A model by its name, as it travels to workers: `source` is the file of a model of the caller's own."""

    name: str
    source: str | None = None


class CheckedPart(NamedTuple):
    """What is checked on its own: the operations of one key, or (key None) of the whole history."""

    key: str | None
    operations: Sequence[Operation]


class Checker(NamedTuple):
    """`split` gives the parts of a history, which `judge` judges one by one.

    `key_of`: the part of one operation, as text, where that needs no look at the others; else None.
    """

    name: str
    split: Callable[[Sequence[Operation], Options], list[CheckedPart]]
    judge: Callable[[Sequence[Operation], Options, Budget], Judgement]
    key_of: Callable[[Operation], str | None] | None = None

    def check(self, operations: Sequence[Operation], options: Options, budget: Budget) -> Judgement:
        """The whole history at once."""
        parts = self.split(operations, options)
        return merge(self.judge(part.operations, options, budget) for part in parts)


def find_model(name: str) -> NamedModel:
    """The model of this name, or `FILE.py:NAME`. Raises LiftlogError if there is none."""
    if name == AUTO:
        return NamedModel(AUTO)
    path, colon, _ = name.rpartition(":")
    if colon and path.endswith(".py"):
        try:
            source = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise LiftlogError(f"--model {name}: cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise LiftlogError(f"--model {name}: {path} is no Python source in UTF-8") from None
        found = NamedModel(name, source)
        checker_of(found)
        return found
    known = ALIASES.get(name, name)
    if known not in NAMES:
        raise LiftlogError(
            f"--model {name}: there is no such model; there are {', '.join(sorted(NAMES))}, "
            f"FILE.py:NAME for one of your own, and {AUTO}"
        )
    return NamedModel(known)


def is_settled(model: NamedModel) -> bool:
    """Whether the name alone says what is checked, whatever functions the history has."""
    return model.name not in BOTH and model.name != AUTO


def settle(model: NamedModel, functions: Iterable[str]) -> NamedModel:
    """What a name that leaves something open means for a history with these functions.

    Raises LiftlogError if `auto` finds nothing that is certain.
    """
    used = frozenset(functions)
    if model.name == AUTO:
        return NamedModel(_recognize(used))
    if model.name in BOTH:
        return NamedModel(f"{'jepsen' if used <= BOTH[model.name] else 'linearizable'}-{model.name}")
    return model


def _recognize(used: frozenset[str]) -> str:
    fitting = [name for functions, name in _SIGNS if used and used <= functions]
    certain = [name for functions, name in _SIGNS if used == functions]
    if len(certain) == 1:
        return certain[0]
    if len(fitting) == 1 and len(used) > 1:
        return fitting[0]
    listed = ", ".join(sorted(used)) or "none"
    raise LiftlogError(f"functions {listed} do not say for certain which model is meant: give --model")


def checker_of(model: NamedModel, settings: Mapping[str, Any] | None = None) -> Checker:
    """The checker of a settled model. `settings` are those of the check itself, by name.

    Raises LiftlogError for a model of the caller's own that does not load, and for unknown settings.
    """
    name = model.name
    chosen = dict(settings or {})
    if model.source is not None:
        _require_none(name, chosen)
        return _object_checker(name, _load(model))
    base = name.removeprefix("linearizable-")
    if base in OBJECTS and name not in BOTH:
        _require_none(name, chosen)
        models: Mapping[str, Any] = importlib.import_module("liftlog_jepsen.objects").MODELS
        return _object_checker(name, models[base])
    if name in TRANSACTIONS:
        return _transactions_checker(name, chosen)
    if name.removeprefix("jepsen-") in TALLIES and name not in BOTH:
        return _tally_checker(name, chosen)
    raise LiftlogError(f"model {name} has no checker of objects, transactions or tallies")


def _object_checker(name: str, model: Any) -> Checker:
    objects = importlib.import_module("liftlog_jepsen.objects")

    def split(operations: Sequence[Operation], options: Options) -> list[CheckedPart]:
        return [CheckedPart(key, some) for key, some in objects.split(model, operations, options)]

    def judge(operations: Sequence[Operation], options: Options, budget: Budget) -> Judgement:
        found: Judgement = objects.check_part(model, operations, options, budget)
        return found

    alone = type(model).split is objects.Model.split
    return Checker(name, split, judge, (lambda one: _text(model.key_of(one))) if alone else None)


def _transactions_checker(name: str, settings: Mapping[str, Any]) -> Checker:
    transactions = importlib.import_module("liftlog_jepsen.transactions")
    consistency = importlib.import_module("liftlog_jepsen.transactions.consistency")
    check = {
        "list-append": transactions.check_list_append,
        "rw-register": transactions.check_rw_register,
    }[name]
    chosen = transactions.Options(**_known_settings(name, settings, transactions.Options._fields))
    consistency.models(chosen.consistency_model)

    def judge(operations: Sequence[Operation], options: Options, budget: Budget) -> Judgement:
        asked = options.consistency_model or chosen.consistency_model
        found: Judgement = check(operations, chosen._replace(consistency_model=asked))
        return found

    return Checker(name, _whole, judge)


def _tally_checker(name: str, settings: Mapping[str, Any]) -> Checker:
    tallies = importlib.import_module("liftlog_jepsen.tallies")
    chosen = tallies.TallyOptions(**_known_settings(name, settings, tallies.TallyOptions._fields))

    def judge(operations: Sequence[Operation], options: Options, budget: Budget) -> Judgement:
        found: Judgement = tallies.check_tally(name, operations, chosen)
        return found

    return Checker(name, _whole, judge)


_COLLECTIONS: Mapping[str, Callable[[Iterable[Any]], Any]] = {
    "accounts": frozenset,
    "anomalies": lambda names: tuple(map(str, names)),
}


def _known_settings(name: str, settings: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    chosen = {}
    for setting, value in settings.items():
        if setting not in known:
            listed = ", ".join(each.replace("_", "-") for each in known)
            raise LiftlogError(f"{name} has no setting {setting.replace('_', '-')}; there are {listed}")
        if setting in _COLLECTIONS and not isinstance(value, list | tuple | frozenset):
            raise LiftlogError(f"setting {setting}: write a vector in EDN, such as [1 2], not {value}")
        chosen[setting] = _COLLECTIONS[setting](value) if setting in _COLLECTIONS else value
    return chosen


def _require_none(name: str, settings: Mapping[str, Any]) -> None:
    if settings:
        raise LiftlogError(f"{name} has no settings, but {', '.join(settings)} was given")


def _text(key: Any) -> str | None:
    return None if key is None else edn.write(key)


def _load(model: NamedModel) -> Any:
    """A model of the caller's own. Its source has travelled, its file may not be here."""
    objects = importlib.import_module("liftlog_jepsen.objects")
    path, _, name = model.name.rpartition(":")
    if Path(path).is_file():
        return objects.load_model(model.name)
    with tempfile.TemporaryDirectory(prefix="liftlog-model-") as folder:
        copy = Path(folder, Path(path).name)
        copy.write_text(model.source or "", encoding="utf-8")
        return objects.load_model(f"{copy}:{name}")


def _whole(operations: Sequence[Operation], options: Options) -> list[CheckedPart]:
    return [CheckedPart(None, operations)]
