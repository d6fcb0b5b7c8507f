"""Formulas: the arithmetic of size estimates and filter factors.

    sum     := product (("+" | "-") product)*
    product := negated (("*" | "/") negated)*
    negated := "-"* power
    power   := operand ("^" "-"* operand)*          left-associative: 2^3^2 = 64
    operand := number | variable | "sizeof(" type ")" | ("log" | "sqrt") "(" sum ")" | "(" sum ")"

White space means nothing. `sizeof` gives bits. Arithmetic is that of IEEE 754: 1/0 is infinite.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from xmml.late_dataclass import dataclass

#: Bits of the types that `sizeof` knows; names are compared without case.
SIZES_BITS: Mapping[str, int] = {"long": 64, "double": 64, "float": 32, "int": 32, "short": 16, "byte": 8, "char": 8}

_LONGEST_TEXT = 10_000
#: Bounds on a formula, so that reading and evaluating it stay within the depth that Python bears.
_MOST_TOKENS = 400
_DEEPEST = 40


class FormulaError(ValueError):
    """A text that is no formula, or a formula that has no value for want of a variable."""


@dataclass(frozen=True)
class Number:
    """A number as written."""

    value: float


@dataclass(frozen=True)
class Variable:
    """A name whose value the caller supplies."""

    name: str


@dataclass(frozen=True)
class SizeOf:
    """The size of a basic type in bits."""

    type: str


@dataclass(frozen=True)
class Call:
    """A function of one argument: `log` (natural) or `sqrt`."""

    function: str
    argument: Node


@dataclass(frozen=True)
class Negated:
    """A unary minus."""

    operand: Node


@dataclass(frozen=True)
class Binary:
    """Two operands and one of + - * / ^ between them."""

    operator: str
    left: Node
    right: Node


Node = Number | Variable | SizeOf | Call | Negated | Binary


@dataclass(frozen=True)
class Formula:
    """A formula that has been read; `str` gives text that reads as the same formula."""

    tree: Node

    def __str__(self) -> str:
        return _text(self.tree, 0)

    def variables(self) -> frozenset[str]:
        """Return the names of all variables."""
        return frozenset(_variables(self.tree))

    def evaluate(self, variables: Mapping[str, float] | None = None) -> float:
        """Return the value.

        Raises:
            FormulaError: a variable is not among `variables`.
        """
        return _value(self.tree, variables or {})


_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/^()])"
)
_END = ("end", "")


def parse(text: str) -> Formula:
    """Read a formula.

    Raises:
        FormulaError: the text is no formula; the message says where it goes wrong.
    """
    if len(text) > _LONGEST_TEXT:
        raise FormulaError(f"the formula is longer than {_LONGEST_TEXT} characters")
    compact = "".join(text.split())
    if not compact:
        raise FormulaError("the formula is empty")
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(compact):
        match = _TOKEN.match(compact, at)
        if match is None:
            raise FormulaError(f'"{compact[at]}" does not belong in a formula')
        kind = match.lastgroup or ""
        if kind == "name" and tokens and tokens[-1][0] == "number":
            raise FormulaError(f'an operator is missing between "{tokens[-1][1]}" and "{match.group()}"')
        tokens.append((kind, match.group()))
        at = match.end()
    if len(tokens) > _MOST_TOKENS:
        raise FormulaError(f"the formula has more than {_MOST_TOKENS} parts")
    reader = _Reader(tokens)
    tree = reader.sum(0)
    kind, found = reader.peek()
    if kind != "end":
        raise FormulaError(
            "a closing parenthesis is too many" if found == ")" else f'an operator is missing before "{found}"'
        )
    return Formula(tree)


class _Reader:
    """Recursive descent over the tokens; `depth` bounds the recursion."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def take(self, *signs: str) -> str | None:
        kind, text = self.peek()
        if kind == "sign" and text in signs:
            self.at += 1
            return text
        return None

    def sum(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise FormulaError("the formula is nested too deep")
        return self.left_associative(("+", "-"), lambda: self.product(depth))

    def product(self, depth: int) -> Node:
        return self.left_associative(("*", "/"), lambda: self.negated(lambda: self.power(depth)))

    def power(self, depth: int) -> Node:
        left = self.operand(depth)
        while self.take("^"):
            left = Binary("^", left, self.negated(lambda: self.operand(depth)))
        return left

    def left_associative(self, signs: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        left = operand()
        while sign := self.take(*signs):
            left = Binary(sign, left, operand())
        return left

    def negated(self, operand: Callable[[], Node]) -> Node:
        count = 0
        while self.take("-"):
            count += 1
        node = operand()
        for _ in range(count):
            node = Negated(node)
        return node

    def operand(self, depth: int) -> Node:
        kind, text = self.peek()
        if kind == "number":
            self.at += 1
            return Number(float(text))
        if kind == "name":
            self.at += 1
            called = self.take("(") is not None
            if text == "sizeof":
                return self.size_of(called)
            if text in ("log", "sqrt") and called:
                return Call(text, self.closed(depth))
            if text in ("log", "sqrt"):
                raise FormulaError(f"{text} needs its argument in parentheses: {text}(...)")
            if called:
                raise FormulaError(f'"{text}" is not a function: there are log, sqrt and sizeof')
            return Variable(text)
        if self.take("("):
            return self.closed(depth)
        if kind == "end":
            raise FormulaError("the formula stops where a number, a variable or a parenthesis should follow")
        raise FormulaError(f'found "{text}" where a number, a variable or a parenthesis should stand')

    def closed(self, depth: int) -> Node:
        inner = self.sum(depth + 1)
        if not self.take(")"):
            raise FormulaError("a closing parenthesis is missing")
        return inner

    def size_of(self, called: bool) -> Node:
        kind, text = self.peek()
        if not called or kind != "name":
            raise FormulaError("sizeof needs a type in parentheses: sizeof(double)")
        if text.lower() not in SIZES_BITS:
            raise FormulaError(f'sizeof does not know the type "{text}"; it knows {", ".join(SIZES_BITS)}')
        self.at += 1
        if not self.take(")"):
            raise FormulaError("a closing parenthesis is missing")
        return SizeOf(text.lower())


def _variables(node: Node) -> set[str]:
    match node:
        case Variable(name):
            return {name}
        case Call(_, inner) | Negated(inner):
            return _variables(inner)
        case Binary(_, left, right):
            return _variables(left) | _variables(right)
        case _:
            return set()


def _value(node: Node, variables: Mapping[str, float]) -> float:
    match node:
        case Number(value):
            return value
        case Variable(name):
            if name not in variables:
                raise FormulaError(f'the variable "{name}" has no value')
            return float(variables[name])
        case SizeOf(type):
            return float(SIZES_BITS[type])
        case Negated(operand):
            return -_value(operand, variables)
        case Call(function, argument):
            return _function(function, _value(argument, variables))
        case Binary(operator, left, right):
            return _binary(operator, _value(left, variables), _value(right, variables))


def _function(name: str, argument: float) -> float:
    if math.isnan(argument) or argument < 0:
        return math.nan
    if name == "sqrt":
        return math.sqrt(argument)
    return math.log(argument) if argument else -math.inf


def _binary(operator: str, left: float, right: float) -> float:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        return _quotient(left, right)
    return _power(left, right)


def _quotient(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent.is_integer() and exponent % 2 == 1
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 4}


def _text(node: Node, binding: int) -> str:
    """Return the node's text, in parentheses if something that binds tighter than the node surrounds it."""
    match node:
        case Number(value):
            return "1e999" if math.isinf(value) else repr(value)
        case Variable(name):
            return name
        case SizeOf(type):
            return f"sizeof({type})"
        case Call(function, argument):
            return f"{function}({_text(argument, 0)})"
        case Negated(operand):
            text, own = "-" + _text(operand, 3), 3
        case Binary(operator, left, right):
            own = _BINDING[operator]
            text = f"{_text(left, own)}{operator}{_text(right, own + 1)}"
    return f"({text})" if own < binding else text
