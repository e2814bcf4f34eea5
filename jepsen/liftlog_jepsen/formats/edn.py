"""EDN, the notation of Jepsen's histories: a complete reader and a writer that loses nothing.

What EDN tells apart stays apart: keywords, symbols and characters are texts of their own types, `12N` is a
`BigInt`, `1.5M` a Decimal, `1/3` a Fraction, a vector a list, a list a tuple, a set a frozenset, `#tag x` a
`Tagged`. Inside of sets and keys of maps, where Python wants hashes, a vector is a `Vector` and a map a
`FrozenMap`; they compare equal to tuples and dicts.

Only meaning is kept: not spaces, comments, `#_` discards, the order of sets, or how a number was spelled.

Reading is not recursive. Tokens are cut by one regular expression without their positions, which are found
again when there is an error to report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

from liftlog_jepsen.events import BadHistory

DEPTH_MAX = 200
"""Brackets and tags within each other. Far more than any history has, few enough for a recursive writer."""
NUMBER_BITS_MAX = 13_000
"""Of a number, or of each half of a fraction: 3,900 digits. Python reads and writes at most 4,300."""
_DIGITS_MAX = 3_900
SHOWN_MAX = 40


class Keyword(str):
    """`:name`; equal to the text without its colon."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f":{self}"


class Symbol(str):
    """`name`; equal to its text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Char(str):
    r"""`\c`; equal to the text of one character."""

    __slots__ = ()


class BigInt(int):
    """`12N`; equal to the number."""

    __slots__ = ()


class Vector(tuple[Any, ...]):
    """A vector within a set or a key."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"


class FrozenMap(dict[Any, Any]):
    """A map within a set or a key. Never change one."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


class Tagged(NamedTuple):
    """`#tag value`, such as `#inst "2024-01-01"`."""

    tag: str
    value: Any


class _Marker(NamedTuple):
    """`#_`, `#tag` or `#:namespace`, until its value has been read."""

    token: str
    place: int


_TOKEN = re.compile(
    r"""(?:[\s,]|;[^\n]*)*+          # spaces and comments
    ( "(?:[^"\\]|\\.)*+"             # a string
    | \\(?:\w[^\s,"();\[\]{}\\]*|.)  # a character
    | \#\{ | \#_ | [()\[\]{}]
    | [^\s,"();\[\]{}]+              # numbers, keywords, symbols, tags
    | . | \Z )""",
    re.DOTALL | re.VERBOSE,
)
_INT = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(
    r"(?P<int>[+-]?(?:0|[1-9][0-9]*))(?P<big>N)?"
    r"|(?P<float>[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(?P<exact>M)?"
    r"|(?P<ratio>[+-]?[0-9]+/[0-9]+)"
    r"|(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<radix>[0-9]+)[rR](?P<digits>[0-9a-zA-Z]+))(?P<bigger>N)?"
)
_OCTAL = re.compile(r"[+-]?0[0-7]+N?")
_SYMBOL = re.compile(r"(?:[^\d:@`~^'\\#+.-]|[+.-](?!\d))[^:@`~^\\]*(?::[^:@`~^\\]+)*")
_KEYWORD = re.compile(r":[^:@`~^\\]+(?::[^:@`~^\\]+)*")
_TAG = re.compile(r"#[^\W\d_][^@`~^\\#]*")
_NAMESPACE = re.compile(r"#:[^\W\d_][^:@`~^\\#/]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-3]?[0-7]{1,2}|.)", re.DOTALL)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")

_CONSTANTS: dict[str, Any] = {
    "nil": None,
    "true": True,
    "false": False,
    "##Inf": math.inf,
    "##-Inf": -math.inf,
    "##NaN": math.nan,
}
_CLOSES = {")": ("(",), "]": ("[",), "}": ("{", "#{")}
_CLOSED_BY = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CHARS = {
    "newline": "\n",
    "return": "\r",
    "space": " ",
    "tab": "\t",
    "backspace": "\b",
    "formfeed": "\f",
}
_CHAR_NAMES = {char: name for name, char in _CHARS.items()}
_UNKNOWN = object()
_CACHED_LENGTH = 6


def read_all(text: str, source: str = "EDN") -> list[Any]:
    """Every value of `text`. Raises BadHistory with the line and the column of what is wrong."""
    return _Reader(text, source).read()


def read(text: str, source: str = "EDN") -> Any:
    """The one value of `text`."""
    values = read_all(text, source)
    if len(values) != 1:
        raise BadHistory(f"{source}: expected one value, found {len(values)}")
    return values[0]


def line_of(text: str, number: int, depth: int) -> int:
    """The line, from 1, of element `number`, from 0, at `depth` brackets: for error messages."""
    inside = seen = discarded = 0
    for match in _TOKEN.finditer(text):
        token = match[1]
        if token in _CLOSES:
            inside -= 1
            continue
        here = inside == depth
        inside += token in _CLOSED_BY
        if not here or (token.startswith("#") and token not in _CLOSED_BY and token not in _CONSTANTS):
            discarded += here and token == "#_"
        elif discarded:
            discarded -= 1
        elif seen == number:
            return text.count("\n", 0, match.start(1)) + 1
        else:
            seen += 1
    return text.count("\n") + 1


class _Problem(Exception):
    """What is wrong with a token: what was expected there, and what is there if not the token itself."""

    def __init__(self, expected: str, found: str | None = None) -> None:
        super().__init__(expected)
        self.expected, self.found = expected, found


def _deeper(depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise _Problem(f"at most {DEPTH_MAX} brackets within each other")
    return depth + 1


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source

    def read(self) -> list[Any]:
        tokens: list[str] = _TOKEN.findall(self.text)
        while tokens and not tokens[-1]:
            tokens.pop()
        atoms = dict(_CONSTANTS)
        outer: list[tuple[list[Any], str, int, bool, int]] = []
        items: list[Any] = []
        opener, start, marked, index = "", 0, False, 0
        depth, tags = 0, 0  # Of this place; of which these stand before the value that comes next.
        try:
            for index, token in enumerate(tokens):
                value = atoms.get(token, _UNKNOWN)
                if value is _UNKNOWN:
                    if token in _CLOSED_BY:
                        outer.append((items, opener, start, marked, tags))
                        items, opener, start, marked, tags = [], token, index, False, 0
                        depth = _deeper(depth)
                        continue
                    if token in _CLOSES:
                        if opener not in _CLOSES[token]:
                            raise _Problem(self._closing(tokens, opener, start))
                        if marked:
                            items = self._resolve(tokens, items)
                        value = _collect(opener, items)
                        items, opener, start, marked, tags = outer.pop()
                        depth -= 1
                    elif token[0] == "#":
                        items.append(_marker(token, index))
                        marked = True
                        tags += 1
                        depth = _deeper(depth)
                        continue
                    else:
                        value = _atom(token)
                        if token[0] == ":" or len(token) <= _CACHED_LENGTH:
                            atoms[token] = value
                items.append(value)
                if tags:
                    depth, tags = depth - tags, 0
            if outer:
                index = len(tokens)
                raise _Problem(self._closing(tokens, opener, start), "the end")
            return self._resolve(tokens, items) if marked else items
        except _Problem as problem:
            self._fail(tokens, index, problem)

    def _resolve(self, tokens: list[str], items: list[Any]) -> list[Any]:
        """`items` with every marker applied to the value behind it; from the right, so that they nest."""
        done: list[Any] = []
        for item in reversed(items):
            if type(item) is not _Marker:
                done.append(item)
                continue
            if not done:
                self._fail(tokens, item.place, _Problem("a value behind it"))
            value = done.pop()
            try:
                if item.token.startswith("#:"):
                    done.append(_in_namespace(item.token[2:], value))
                elif item.token != "#_":
                    done.append(Tagged(item.token[1:], value))
            except _Problem as problem:
                self._fail(tokens, item.place, problem)
        return done[::-1]

    def _closing(self, tokens: list[str], opener: str, start: int) -> str:
        if not opener:
            return "a value"
        line, _ = self._place(start)
        return f"{_CLOSED_BY[opener]} for the {opener} of line {line}"

    def _place(self, index: int) -> tuple[int, int]:
        """Line and column, from 1, of token `index`."""
        position = len(self.text.rstrip())
        for number, match in enumerate(_TOKEN.finditer(self.text)):
            if number == index:
                position = match.start(1) if match[1] else position
                break
        return self.text.count("\n", 0, position) + 1, position - self.text.rfind("\n", 0, position)

    def _fail(self, tokens: list[str], index: int, problem: _Problem) -> NoReturn:
        line, column = self._place(index)
        found = problem.found or cut(tokens[index])
        where = f"{self.source} line {line}, column {column}"
        raise BadHistory(f"{where}: expected {problem.expected}, found {found}")


def cut(text: str) -> str:
    """`text` for a message: in one line, and not too long."""
    plain = " ".join(text.split())
    plain = plain if plain.isprintable() else ascii(plain)
    return plain if len(plain) <= SHOWN_MAX else plain[: SHOWN_MAX - 1] + "…"


def _marker(token: str, index: int) -> _Marker:
    if token == "#_" or _TAG.fullmatch(token) or _NAMESPACE.fullmatch(token):
        return _Marker(token, index)
    raise _Problem("#{, #_, #tag, #:namespace, ##Inf, ##-Inf or ##NaN")


def _collect(opener: str, items: list[Any]) -> Any:
    if opener == "[":
        return items
    if opener == "(":
        return tuple(items)
    if opener == "{":
        if len(items) % 2:
            raise _Problem(f"a value for each key of the map, which has {len(items)} elements")
        try:
            found = dict(zip(items[::2], items[1::2], strict=True))
        except TypeError:
            keys = [_frozen(key) for key in items[::2]]
            found = dict(zip(keys, items[1::2], strict=True))
        if 2 * len(found) != len(items):
            raise _Problem(_repeated("key", items[::2]))
        return found
    try:
        elements = frozenset(items)
    except TypeError:
        elements = frozenset(map(_frozen, items))
    if len(elements) != len(items):
        raise _Problem(_repeated("element", items))
    return elements


def _repeated(what: str, items: list[Any]) -> str:
    seen: dict[Any, Any] = {}
    for item in items:
        frozen = _frozen(item)
        if frozen in seen:
            first, second = write(seen[frozen]), write(item)
            same = "" if first == second else f" ({first} and {second} count as the same here)"
            return f"each {what} once, but {cut(second)} comes twice{same}"
        seen[frozen] = item
    return f"each {what} once"


def _frozen(value: Any) -> Any:
    """`value` with a hash."""
    if isinstance(value, Tagged):
        return Tagged(value.tag, _frozen(value.value))
    if isinstance(value, list | Vector):
        return Vector(map(_frozen, value))
    if isinstance(value, tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return FrozenMap({key: _frozen(each) for key, each in value.items()})
    return value


def _in_namespace(name: str, value: Any) -> dict[Any, Any]:
    """A map whose keys without namespace get this one; `:_/key` keeps none."""
    if not isinstance(value, dict):
        raise _Problem("a map behind it")
    named: dict[Any, Any] = {}
    for key, each in value.items():
        if isinstance(key, Keyword | Symbol):
            if key.startswith("_/"):
                key = type(key)(key[2:])
            elif "/" not in key:
                key = type(key)(f"{name}/{key}")
        named[key] = each
    if len(named) != len(value):
        raise _Problem("each key once")
    return named


def _atom(token: str) -> Any:
    first = token[0]
    if first == ":":
        if not _KEYWORD.fullmatch(token):
            raise _Problem("a keyword such as :name")
        return Keyword(token[1:])
    if first == '"':
        return _string(token)
    if first == "\\":
        return _char(token[1:])
    if first in "0123456789" or (first in "+-" and token[1:2].isdecimal()):
        return _number(token)
    if not _SYMBOL.fullmatch(token):
        raise _Problem("a value")
    return Symbol(token)


def _string(token: str) -> str:
    if len(token) == 1:
        raise _Problem('a string with a closing "', "none")
    if "\\" not in token:
        return token[1:-1]
    # A character beyond 16 bits may be written as a pair of \u escapes.
    return _PAIR.sub(_join, _ESCAPE.sub(_unescape, token[1:-1]))


def _join(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code[0] == "u" and len(code) == 5:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    raise _Problem(r"one of the escapes \t \r \n \b \f \\ \" \uXXXX", f"\\{code}")


def _char(name: str) -> Char:
    if len(name) == 1:
        return Char(name)
    if name in _CHARS:
        return Char(_CHARS[name])
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        return Char(chr(int(name[1:], 16)))
    if re.fullmatch(r"o[0-3]?[0-7]{1,2}", name):
        return Char(chr(int(name[1:], 8)))
    raise _Problem(r"a character such as \a, \newline or \u0041")


def _number(token: str) -> Any:
    try:
        value = _plain_number(token)
    except (ValueError, ArithmeticError):
        raise _Problem("a number that can be read") from None
    if _is_too_long(value):
        raise _Problem(f"a number of at most {_DIGITS_MAX} digits")
    return value


def _plain_number(token: str) -> Any:
    if _INT.fullmatch(token):
        return int(token)
    if _OCTAL.fullmatch(token):
        value = int(token.rstrip("N"), 8)
        return BigInt(value) if token.endswith("N") else value
    match = _NUMBER.fullmatch(token)
    if match is None:
        raise _Problem("a number")
    if match["int"]:
        return BigInt(match["int"])
    if match["float"]:
        return Decimal(match["float"]) if match["exact"] else float(match["float"])
    if match["ratio"]:
        ratio = Fraction(match["ratio"])
        return ratio.numerator if ratio.denominator == 1 else ratio
    digits, base = (match["hex"], 16) if match["hex"] else (match["digits"], int(match["radix"]))
    value = int(match["sign"] + digits, base)
    return BigInt(value) if match["bigger"] else value


def _is_too_long(value: Any) -> bool:
    """Whether a number is one that not everybody could read or write again."""
    if isinstance(value, int):
        return value.bit_length() > NUMBER_BITS_MAX
    if isinstance(value, Fraction):
        return _is_too_long(value.numerator) or _is_too_long(value.denominator)
    return isinstance(value, Decimal) and len(value.as_tuple().digits) > _DIGITS_MAX


def write(value: Any) -> str:
    """`value` as EDN in one line: what `read` gives back unchanged. Sets come in the order of their texts.

    Raises BadHistory for a value that EDN does not have, or that `read` would refuse: nested deeper than
    DEPTH_MAX, or with a number of more than NUMBER_BITS_MAX bits.
    """
    return _write(value, 0)


def _write(value: Any, depth: int) -> str:
    """`depth`: of the containers and tags around the value."""
    container = _CONTAINERS.get(type(value))
    writer = _WRITERS.get(type(value))
    if container is None and writer is None:
        kinds = [kind for kind in (*_WRITERS, *_CONTAINERS) if isinstance(value, kind)]
        if not kinds:
            name = type(value).__name__
            raise BadHistory(f"EDN: a value of the type {name} cannot be written: {cut(repr(value))}")
        container, writer = _CONTAINERS.get(kinds[0]), _WRITERS.get(kinds[0])
    if container is None:
        assert writer is not None
        return writer(value)
    if depth >= DEPTH_MAX:
        raise BadHistory(f"EDN: at most {DEPTH_MAX} brackets and tags within each other can be written")
    return container(value, depth + 1)


def _write_name(prefix: str) -> Callable[[str], str]:
    pattern = _KEYWORD if prefix else _SYMBOL

    def write_name(value: str) -> str:
        text = f"{prefix}{value}"
        plain = pattern.fullmatch(text) and text not in _CONSTANTS
        if not plain or _TOKEN.findall(text)[0] != text:
            raise BadHistory(f"EDN: {cut(repr(str(value)))} cannot be the name of a keyword or a symbol")
        return text

    return write_name


def _write_float(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "##NaN" if math.isnan(value) else ("##Inf" if value > 0 else "##-Inf")


def _write_string(value: str) -> str:
    return '"' + re.sub(r'["\\\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]', _escape, value) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    for letter, meaning in _ESCAPES.items():
        if meaning == char:
            return f"\\{letter}"
    return f"\\u{ord(char):04x}"


def _write_char(value: str) -> str:
    if value in _CHAR_NAMES:
        return f"\\{_CHAR_NAMES[value]}"
    return f"\\{value}" if value.isprintable() else f"\\u{ord(value):04x}"


def _write_list(value: Iterable[Any], depth: int) -> str:
    return f"({' '.join(_write(each, depth) for each in value)})"


def _write_vector(value: Iterable[Any], depth: int) -> str:
    return f"[{' '.join(_write(each, depth) for each in value)}]"


def _write_set(value: Iterable[Any], depth: int) -> str:
    return f"#{{{' '.join(sorted(_write(each, depth) for each in value))}}}"


def _write_map(value: dict[Any, Any], depth: int) -> str:
    return f"{{{', '.join(f'{_write(key, depth)} {_write(each, depth)}' for key, each in value.items())}}}"


def _write_tagged(value: Tagged, depth: int) -> str:
    if not _TAG.fullmatch(f"#{value.tag}") or _TOKEN.findall(f"#{value.tag}")[0] != f"#{value.tag}":
        raise BadHistory(f"EDN: {cut(repr(value.tag))} cannot be the name of a tag")
    return f"#{value.tag} {_write(value.value, depth)}"


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise BadHistory(f"EDN: {value} cannot be written as an exact number")
    return f"{_checked(value)}M"


def _checked(value: Any) -> Any:
    """A number that can be read again. Raises BadHistory."""
    if _is_too_long(value):
        raise BadHistory(f"EDN: a number of more than {_DIGITS_MAX} digits cannot be written")
    return value


_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "nil",
    bool: lambda value: "true" if value else "false",
    Keyword: _write_name(":"),
    Symbol: _write_name(""),
    Char: _write_char,
    BigInt: lambda value: f"{int(_checked(value))}N",
    int: lambda value: str(int(_checked(value))),
    str: _write_string,
    float: _write_float,
    Decimal: _write_decimal,
    Fraction: lambda value: f"{_checked(value).numerator}/{value.denominator}",
}
"""How to write each type; those that are also another type come before that one."""
_CONTAINERS: dict[type, Callable[[Any, int], str]] = {
    Tagged: _write_tagged,
    Vector: _write_vector,
    list: _write_vector,
    dict: _write_map,
    frozenset: _write_set,
    set: _write_set,
    tuple: _write_list,
}
"""The same for what holds others."""
