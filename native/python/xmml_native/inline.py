"""Programs written inside the model: ``<code>`` for each operator, with ports as variables."""

from __future__ import annotations

from xmml_native.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType
    from typing import Any

    from xmml_native.instance import Instance

#: The operators in the order of the loop, by how the model spells them.
OPERATORS = ("finit", "Oi", "S", "B", "Of")
_SENDING = ("Oi", "Of")


class InlineProgram:
    """The code of one instance; all parts share one namespace.

    ``me`` is the instance, ``t`` the time of the step in seconds, ``step`` its number and ``run`` the number of the
    pass, both from 0. Before an operator's code runs, its coupled in ports are received into variables of their
    names (``None`` for the state of the previous pass in the first); after ``Oi`` and ``Of`` their coupled out ports
    are sent from variables of their names.
    """

    def __init__(self, me: Instance, codes: Sequence[dict[str, Any]]) -> None:
        self._me = me
        self._codes = {part: [code for code in codes if code["part"] == part] for part in ("header", *OPERATORS)}
        unknown = sorted({code["part"] for code in codes} - set(self._codes))
        if unknown:
            raise Error(f'{me.name}: code has part="{unknown[0]}"; parts are {", ".join(self._codes)}')
        self._compiled = {part: [compile_code(code) for code in found] for part, found in self._codes.items()}
        self._ports: dict[str, list[str]] = {operator: [] for operator in OPERATORS}
        for port in me.spec["ports"]:
            if port["operator"] is None and me.spec["kind"] == "submodel":
                continue  # of a pool: the code puts and takes by itself
            if port["operator"] is None:
                raise Error(
                    f"{me.name}: inline code is for submodels; give this {me.spec['kind']} a class or a program"
                )
            if me.connected(port["name"]):
                self._ports[port["operator"]].append(port["name"])
        self.namespace: dict[str, Any] = {"__name__": me.name, "me": me, "t": 0.0, "step": 0, "run": 0}

    def run(self) -> None:
        """Run the loop until no more runs follow."""
        me, variables = self._me, self.namespace
        self._execute("header")
        run = 0
        while me.reuse():
            variables.update(run=run, step=0, t=me.origin)
            self._operator("finit")
            for step, t in enumerate(me.steps()):
                variables.update(step=step, t=t)
                self._operator("Oi")
                self._operator("S")
                self._operator("B")
            variables.update(t=me.time)
            self._operator("Of")
            run += 1

    def _operator(self, operator: str) -> None:
        if operator in _SENDING:
            self._execute(operator)
            for port in self._ports[operator]:
                self._me.send(port, self._variable(operator, port))
        else:
            for port in self._ports[operator]:
                self.namespace[port] = self._received(port)
            self._execute(operator)

    def _execute(self, part: str) -> None:
        for code in self._compiled[part]:
            exec(code, self.namespace)

    def _received(self, port: str) -> Any:
        if self._me.copies(port):
            return [message.data for message in self._me.receive_all(port)]
        # A default is for the state of the previous pass, which the first has not.
        return self._me.receive(port, default=None).data

    def _variable(self, operator: str, port: str) -> Any:
        try:
            return self.namespace[port]
        except KeyError:
            codes = self._codes[operator] or self._codes["header"]
            place = f"{codes[-1]['file']}:{codes[-1]['line']}: " if codes else ""
            raise Error(
                f'{place}{self._me.name} sends on port "{port}" at {operator}, but no variable "{port}" is set; '
                f'set it in the code of part="{operator}" (or in the header)'
            ) from None


def compile_code(code: dict[str, Any]) -> CodeType:
    """Compile one ``<code>`` element so that errors name the model file and its line."""
    return compile("\n" * (code["line"] - 1) + dedent(code["text"]), code["file"], "exec")


def dedent(text: str) -> str:
    """Take the common margin from the lines of ``text``; the first line, behind the tag, has one of its own."""
    first, newline, rest = text.partition("\n")
    lines = rest.split("\n")
    margins = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    margin = min(margins, key=len, default="")
    for other in margins:
        while not other.startswith(margin):
            margin = margin[:-1]
    return first.lstrip() + newline + "\n".join(line[len(margin) :] if line.strip() else "" for line in lines)
