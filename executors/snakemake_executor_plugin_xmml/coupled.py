"""Recognising a rule that is a coupled run: one whose shell command is `xmml-run` and nothing else."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path

from snakemake_executor_plugin_xmml.local_process import OutputFile
from xmml.late_dataclass import dataclass

#: The command that makes a rule a coupled run.
COMMAND = "xmml-run"
#: What redirects output, with the streams that it takes along.
REDIRECTIONS = {
    ">": ("stdout",),
    "1>": ("stdout",),
    "2>": ("stderr",),
    "&>": ("stdout", "stderr"),
}
#: What ends a command.
SEPARATORS = ("\n", ";", "&&")

#: A word of the command's name, also with a path and in quotation marks.
_NAMED = re.compile(rf"(?<![^\s;&|(){{}}!`\"'/]){COMMAND}(?=$|[\s;&|()<>`\"'])")
#: Commands that only speak of the programs that they name.
_SPEAKS = re.compile(r"[\s({!]*(?:echo|printf|which|type|man|grep|command\s+-v)\s")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_PART = r"""[^\s;&|()<>'"\\$`*?{~]|\\.|'[^']*'|"(?:[^"\\$`]|\\.)*\""""
_TOKEN = re.compile(
    r"(?P<space>[^\S\n]+|#[^\n]*)"
    r"|(?P<operator>2>&1(?!\w)|(?:[0-9]+|&)?>>?(?![&|>])|\|&|&&|\|\||[0-9]*[<>][<>&|]*|[;&|()\n])"
    rf"|(?P<word>(?:{_PART})(?:{_PART}|~)*)",
    re.DOTALL | re.ASCII,
)
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
#: Options of the shell that change nothing about a single command.
_SHELL_OPTION = re.compile(r"[-+][a-z]+|pipefail|errexit|nounset|xtrace")


class NeedsShell(Exception):
    """A command that runs `xmml-run` and something else; the text says what, and what to write instead."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the command runs {COMMAND}, but cannot be a coupled run because of: {what}\n"
            f"Write {COMMAND} alone; its output may go to files (> FILE, >> FILE, 2>&1, | tee FILE). Other commands "
            "belong in rules of their own, and values in {params.NAME}. To run the command on this machine as it "
            "stands, list the rule under localrules."
        )


@dataclass(frozen=True)
class CoupledRun:
    """A rule's command, taken apart so that no shell is needed to carry it out.

    Attributes:
        arguments: what stands behind `xmml-run`.
        redirected: where `stdout` and `stderr` go instead of the executor's log.
    """

    arguments: tuple[str, ...]
    redirected: dict[str, OutputFile] = field(default_factory=dict)

    def has(self, option: str) -> bool:
        """Whether the rule gives this option itself."""
        return any(each == option or each.startswith(f"{option}=") for each in self.arguments)

    def value_of(self, option: str) -> str | None:
        """Return the last value that the rule gives to an option."""
        found = None
        for number, each in enumerate(self.arguments):
            if each == option and number + 1 < len(self.arguments):
                found = self.arguments[number + 1]
            elif each.startswith(f"{option}="):
                found = each.partition("=")[2]
        return found

    def with_default(self, option: str, value: str | None) -> CoupledRun:
        """Return the run with an option added, unless there is no value or the rule gives one."""
        if value is None or self.has(option):
            return self
        return replace(self, arguments=(*self.arguments, option, value))

    def with_options(self, options: Sequence[str]) -> CoupledRun:
        """Return the run with more options in front, so that those of the rule count where both give one."""
        return replace(self, arguments=(*options, *self.arguments))


def coupled_run(shell_command: str | None) -> CoupledRun | None:
    """Return the coupled run that a rule's shell command is; `None`: it does not run `xmml-run`.

    Options of the shell (`set -e`) before it are dropped. Output may be redirected to files, and piped to `tee`, which
    is a redirection, since what a job writes appears on no terminal.

    Raises:
        NeedsShell: it runs `xmml-run`, but not alone. It must not become an ordinary rule, whose run would be on this
            machine.
    """
    if shell_command is None or not _runs_it(shell_command):
        return None
    tokens = _tokens(shell_command.replace("\\\n", " "))
    _drop_separators(tokens)
    while tokens and tokens[0] == (False, "set"):
        tokens.popleft()
        while tokens and not tokens[0][0] and _SHELL_OPTION.fullmatch(tokens[0][1]):
            tokens.popleft()
        if not tokens or tokens[0] not in [(True, each) for each in SEPARATORS]:
            raise NeedsShell("set")
        _drop_separators(tokens)
    name = tokens.popleft()[1] if tokens else ""
    if name != COMMAND:
        raise NeedsShell(name)
    return _command(tokens)


def _runs_it(command: str) -> bool:
    """Whether the name of the command stands somewhere in the text, and not as what another command speaks of."""
    text = _COMMENT.sub("", command)
    return any(not _SPEAKS.match(re.split(r"[;&|(\n`]", text[: found.start()])[-1]) for found in _NAMED.finditer(text))


def _tokens(command: str) -> deque[tuple[bool, str]]:
    """Split as a shell does, into operators (True) and words without their quotation marks.

    Brackets do not make a pattern of a word: they are the indices of copies, as in `c[3].x=1`.
    """
    tokens: deque[tuple[bool, str]] = deque()
    position = 0
    while position < len(command):
        found = _TOKEN.match(command, position)
        if found is None:  # a variable, a substitution, a pattern, or a quotation mark without its partner
            raise NeedsShell(_word_at(command, position))
        position = found.end()
        if found["operator"]:
            tokens.append((True, found["operator"]))
        elif found["word"]:
            tokens.append((False, _QUOTED.sub(_unquoted, found["word"])))
    return tokens


def _word_at(command: str, position: int) -> str:
    begin = max(command.rfind(each, 0, position) for each in " \t\n") + 1
    return command[begin:].split(maxsplit=1)[0]


def _unquoted(found: re.Match[str]) -> str:
    if found[2] is not None:
        return re.sub(r'\\([$`"\\])', r"\1", found[2])
    return found[1] if found[1] is not None else found[3]


def _drop_separators(tokens: deque[tuple[bool, str]]) -> None:
    while tokens and tokens[0] in [(True, each) for each in SEPARATORS]:
        tokens.popleft()


def _command(tokens: deque[tuple[bool, str]]) -> CoupledRun:
    """Return the run whose arguments and redirections these are, up to the end of the rule's command."""
    arguments: list[str] = []
    redirected: dict[str, OutputFile] = {}
    piped: set[str] = {"stdout"}  # what a pipe behind the command takes
    while tokens:
        is_operator, text = tokens.popleft()
        if not is_operator:
            arguments.append(text)
        elif text == "2>&1":
            redirected.pop("stderr", None)
            redirected |= {"stderr": redirected["stdout"]} if "stdout" in redirected else {}
            piped = piped | {"stderr"} if "stdout" in piped else piped - {"stderr"}
        elif (streams := REDIRECTIONS.get(text.replace(">>", ">"))) is not None and tokens and not tokens[0][0]:
            redirected |= dict.fromkeys(streams, OutputFile(Path(tokens.popleft()[1]), appends=">>" in text))
            piped -= set(streams)
        elif text in ("|", "|&") and "stdout" in piped and (file := _tee(tokens)) is not None:
            redirected |= dict.fromkeys(piped | ({"stderr"} if text == "|&" else set()), file)
        elif text in (";", "\n"):
            _drop_separators(tokens)
            if tokens:
                raise NeedsShell(" ".join(word for _, word in tokens))
        else:
            raise NeedsShell(" ".join([text, *(word for _, word in tokens)]))
    return CoupledRun(tuple(arguments), redirected)


def _tee(tokens: deque[tuple[bool, str]]) -> OutputFile | None:
    """Take `tee FILE` from the front, if it is all that follows."""
    words = [text for is_operator, text in tokens if not is_operator]
    separators = {text for is_operator, text in tokens if is_operator}
    appends = words[1:2] in (["-a"], ["--append"])
    files = words[2:] if appends else words[1:]
    if words[:1] != ["tee"] or len(files) != 1 or files[0].startswith("-") or separators - {";", "\n"}:
        return None
    tokens.clear()
    return OutputFile(Path(files[0]), appends=appends)
