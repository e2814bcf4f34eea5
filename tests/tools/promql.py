"""As much of PromQL as dashboards and alerts need: whether a text is an expression, and of which series.

promtool judges more, but is no package that tests could install. What it would refuse here is refused:
brackets, operators, unknown functions, a range where none may be and none where one must.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)(?![\w])|(?P<string>"[^"\\]*")|(?P<range>\[\d+[smhd]\])
    |(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<sign>==|!=|>=|<=|=~|!~|[-+*/%<>=(){},]))""",
    re.VERBOSE,
)
AGGREGATIONS = {"sum": 0, "max": 0, "min": 0, "avg": 0, "count": 0, "topk": 1, "bottomk": 1}
"""How many numbers stand before what is aggregated."""
OF_RANGES = {"rate": 1, "increase": 1, "predict_linear": 2, "delta": 1, "max_over_time": 1}
"""How many arguments, of which the first is a range."""
OF_INSTANTS = {"histogram_quantile": 2, "absent": 1, "abs": 1, "time": 0}
LEVELS = (("or", "unless"), ("and",), ("==", "!=", ">", "<", ">=", "<="), ("+", "-"), ("*", "/", "%"))
SET_OPERATORS = ("or", "unless", "and")


class Selector(NamedTuple):
    """A series that is asked for, with the labels that it is chosen by."""

    name: str
    labels: tuple[str, ...]
    is_range: bool


class Expression(NamedTuple):
    """All series, and all labels that it matches and groups by."""

    selectors: list[Selector]
    labels: list[str]


class BadExpression(ValueError):
    """It is none."""


def parse(text: str) -> Expression:
    """Raises BadExpression."""
    parser = _Parser(text)
    if parser.level(0):
        raise BadExpression(f"{text!r}: a range is no result")
    if parser.kind:
        raise BadExpression(f"{text!r}: {parser.token!r} is too much")
    return Expression(parser.selectors, parser.labels)


class _Parser:
    """Each method returns whether what it has read is a range."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.kind = self.token = ""
        self.selectors: list[Selector] = []
        self.labels: list[str] = []
        self.advance()

    def advance(self) -> str:
        """To the next token; returns this one."""
        before = self.token
        found = TOKEN.match(self.text, self.place)
        if found is None:
            if self.text[self.place :].strip():
                raise BadExpression(f"{self.text!r}: cannot read {self.text[self.place :]!r}")
            self.kind = self.token = ""
        else:
            self.place = found.end()
            self.kind, self.token = found.lastgroup or "", found[found.lastgroup or 0]
        return before

    def expect(self, token: str) -> None:
        if self.token != token:
            raise BadExpression(f"{self.text!r}: {token!r} is due, not {self.token!r}")
        self.advance()

    def level(self, height: int) -> bool:
        if height == len(LEVELS):
            return self.unary()
        is_range = self.level(height + 1)
        while self.token in LEVELS[height]:
            operator = self.advance()
            if self.token in ("on", "ignoring"):
                self.advance()
                self.label_list()
                if self.token in ("group_left", "group_right"):
                    if operator in SET_OPERATORS:
                        raise BadExpression(f"{self.text!r}: {self.token} with {operator}")
                    self.advance()
                    self.label_list()
            if self.level(height + 1) or is_range:
                raise BadExpression(f"{self.text!r}: {operator} of a range")
        return is_range

    def unary(self) -> bool:
        while self.token in ("-", "+"):
            self.advance()
        return self.atom()

    def atom(self) -> bool:
        if self.kind in ("number", "string"):
            self.advance()
            return False
        if self.token == "(":
            self.advance()
            is_range = self.level(0)
            self.expect(")")
            return is_range
        if self.kind != "word" or self.token in (*SET_OPERATORS, "by", "on"):
            raise BadExpression(f"{self.text!r}: {self.token!r} in the place of a value")
        word = self.advance()
        if word in AGGREGATIONS:
            return self.aggregation(word)
        if self.token == "(":
            return self.call(word)
        return self.selector(word)

    def aggregation(self, word: str) -> bool:
        grouped = self.grouping()
        self.arguments(word, AGGREGATIONS[word] + 1, -1)
        if not grouped:
            self.grouping()
        return False

    def grouping(self) -> bool:
        if self.token not in ("by", "without"):
            return False
        self.advance()
        self.label_list()
        return True

    def call(self, word: str) -> bool:
        if word in OF_RANGES:
            self.arguments(word, OF_RANGES[word], 0)
        elif word in OF_INSTANTS:
            self.arguments(word, OF_INSTANTS[word], -1)
        else:
            raise BadExpression(f"{self.text!r}: no function {word!r} is known")
        return False

    def arguments(self, word: str, count: int, range_at: int) -> None:
        """In brackets; the one at `range_at` is a range, the others are not."""
        self.expect("(")
        for index in range(count):
            if index:
                self.expect(",")
            if self.level(0) != (index == range_at):
                raise BadExpression(f"{self.text!r}: argument {index + 1} of {word}: range or not?")
        self.expect(")")

    def label_list(self) -> None:
        self.expect("(")
        while self.kind == "word":
            self.labels.append(self.advance())
            if self.token != ",":
                break
            self.advance()
        self.expect(")")

    def selector(self, name: str) -> bool:
        matched = []
        if self.token == "{":
            self.advance()
            while self.kind == "word":
                matched.append(self.advance())
                if self.token not in ("=", "!=", "=~", "!~"):
                    raise BadExpression(f"{self.text!r}: {self.token!r} in a selector")
                self.advance()
                if self.kind != "string":
                    raise BadExpression(f"{self.text!r}: {self.token!r} is no value of a label")
                self.advance()
                if self.token != ",":
                    break
                self.advance()
            self.expect("}")
        is_range = self.kind == "range"
        if is_range:
            self.advance()
        self.selectors.append(Selector(name, tuple(matched), is_range))
        return is_range
