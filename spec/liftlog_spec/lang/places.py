"""The text of a guard as it stands in the model's source, for whoever has to say which one refused a step."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache

Place = tuple[str, int, int]


@lru_cache(maxsize=64)
def _calls(path: str) -> dict[int, ast.Call]:
    """The calls of `when` and `some` in a file, by line."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return {}
    found: dict[int, ast.Call] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in ("when", "some"):
            found.setdefault(node.lineno, node)
    return found


@lru_cache(maxsize=4096)
def source_of(place: Place) -> tuple[str, str]:
    """(file:line, text) of one argument of `when` or `some`; the text is empty if there is no source."""
    path, line, argument = place
    call = _calls(path).get(line)
    if call is None or argument >= len(call.args):
        return f"{path.rpartition('/')[2]}:{line}", ""
    node = call.args[argument]
    text = ast.get_source_segment("".join(linecache.getlines(path)), node) or ""
    return f"{path.rpartition('/')[2]}:{node.lineno}", " ".join(text.split())
