"""Messages as JSON objects with names, for people and for any NATS client.

Between nodes a message is a bare array, which is small and fast. On the API the same message is an object
with its field names. The two functions here are each other's inverse, driven by the type annotations.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec.structs import FieldInfo

T = TypeVar("T")

Without = Mapping[type, Collection[str]]
"""Fields of structs that are left out."""
NOTHING: Without = MappingProxyType({})
AS_IT_IS = (str, int, bool)
"""Types without conditions, of which JSON's values are."""


def to_plain(value: object, without: Without = NOTHING) -> Any:
    """Structs become dicts, without what is unset; tuples become lists; everything else stays."""
    if isinstance(value, msgspec.Struct):
        hidden = without.get(type(value), ())
        fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in hidden}
        return {name: to_plain(one, without) for name, one in fields.items() if one is not msgspec.UNSET}
    if isinstance(value, (list, tuple)):
        return [to_plain(one, without) for one in value]
    if isinstance(value, dict):
        return {key: to_plain(one, without) for key, one in value.items()}
    return value


def from_plain(kind: type[T], value: object) -> T:
    """Build a `kind` from JSON. Raises msgspec.ValidationError that names the field at fault."""
    return typing.cast(T, _build(kind, value, "$"))


def _build(kind: Any, value: Any, path: str) -> Any:
    if kind is type(value) and kind in AS_IT_IS:
        return value
    origin = typing.get_origin(kind)
    if origin is list:
        (item,) = typing.get_args(kind)
        if not isinstance(value, list):
            raise msgspec.ValidationError(f"expected a list - at `{path}`")
        return [_build(item, one, f"{path}[{position}]") for position, one in enumerate(value)]
    if (
        isinstance(kind, type)
        and not isinstance(kind, types.GenericAlias)
        and issubclass(kind, msgspec.Struct)
    ):
        return _build_struct(kind, value, path)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `{path}`") from None


@cache
def _fields_of(kind: type[msgspec.Struct]) -> Mapping[str, FieldInfo]:
    """By name. To make sense of a struct's annotations takes a hundred times as long as to build it."""
    return {field.name: field for field in msgspec.structs.fields(kind)}


def _build_struct(kind: type[msgspec.Struct], value: Any, path: str) -> msgspec.Struct:
    if not isinstance(value, dict):
        raise msgspec.ValidationError(f"expected an object - at `{path}`")
    fields = _fields_of(kind)
    for name in value:
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise msgspec.ValidationError(f"unknown field `{name}` - at `{path}` (known: {known})")
    for name, field in fields.items():
        if field.required and name not in value:
            raise msgspec.ValidationError(f"missing field `{name}` - at `{path}`")
    return kind(**{name: _build(fields[name].type, one, f"{path}.{name}") for name, one in value.items()})
