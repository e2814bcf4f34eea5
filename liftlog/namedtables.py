"""Tables of a TOML file whose names the reader of the file chooses: [clusters.east], [clients.billing]."""

from __future__ import annotations

import re
from collections.abc import Mapping

from liftlog.types import LiftlogError

NAME = re.compile(r"[A-Za-z0-9_\-]{1,64}")
NAME_WORDS = "1 to 64 letters, digits, '_' or '-'"
_WANTED: Mapping[type, str] = {str: "a text in quotes", list: "a list of texts", bool: "true or false"}


def named_tables(tables: object, kind: str, each: str, source: str) -> dict[str, dict[str, object]]:
    """Those below [`kind`], by their names. `each`: what has one. Raises LiftlogError."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise LiftlogError(f"{source}: [{kind}] must hold a table for each {each}: [{kind}.NAME]")
    return tables


def check_table(
    where: str, name: str, table: Mapping[str, object], kinds: Mapping[str, type], named: str = "a name"
) -> None:
    """Whether it has a good name, keys that there are, and values of their kinds. `named`: what its name is
    that of. Raises LiftlogError, which begins with `where`.
    """
    if not NAME.fullmatch(name):
        raise LiftlogError(f"{where}: use {NAME_WORDS} as {named}")
    for key, value in table.items():
        if key not in kinds:
            raise LiftlogError(f"{where}: unknown key '{key}'; there are: {', '.join(kinds)}")
        if type(value) is not kinds[key]:
            raise LiftlogError(f"{where} {key} = {value!r}; it must be {_WANTED[kinds[key]]}")
