"""Recognising a rule that is a coupled run: one whose shell command is `xmml-run` and nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path

from xmml.late_dataclass import dataclass

#: The command that makes a rule a coupled run.
COMMAND = "xmml-run"
#: What redirects output, with the streams that it takes along.
REDIRECTIONS = {">": ("stdout",), "1>": ("stdout",), "2>": ("stderr",), "&>": ("stdout", "stderr")}


@dataclass(frozen=True)
class CoupledRun:
    """A rule's command, taken apart so that no shell is needed to carry it out.

    Attributes:
        arguments: what stands behind `xmml-run`.
        redirected: where `stdout` and `stderr` go instead of the executor's log.
    """

    arguments: tuple[str, ...]
    redirected: dict[str, Path] = field(default_factory=dict)

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

    def with_options(self, text: str | None) -> CoupledRun:
        """Return the run with more options in front, so that those of the rule count where both give one.

        Raises:
            ValueError: quotation marks in the text do not match.
        """
        return replace(self, arguments=(*shlex.split(text or ""), *self.arguments))


def coupled_run(shell_command: str | None) -> CoupledRun | None:
    """Return the coupled run that a rule's shell command is; `None`: it is another command.

    Redirections of the output to files are understood. A command with pipes, several commands, variables or
    substitutions needs a shell and is an ordinary rule, also if `xmml-run` is part of it.
    """
    if shell_command is None:
        return None
    try:
        words = _words(shell_command.replace("\\\n", " "))
    except ValueError:
        return None
    if not words or words[0] != COMMAND:
        return None
    return _without_redirections(words[1:])


def _words(command: str) -> list[str]:
    """Split as a shell does; raises ValueError for what only a shell can carry out."""
    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = list(lexer)
    if _needs_shell(command):
        raise ValueError("this needs a shell")
    return words


def _needs_shell(command: str) -> bool:
    """Whether something outside of single quotes is expanded by a shell, or outside of all quotes matched with files.

    Brackets do not count: they are the indices of copies, as in `c[3].x=1`.
    """
    quote = ""
    escaped = False
    for character in command:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in "$`":
                return True
        elif character in "'\"":
            quote = character
        elif character in "$`*?{~":
            return True
    return False


def _without_redirections(words: Sequence[str]) -> CoupledRun | None:
    arguments: list[str] = []
    redirected: dict[str, Path] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("1", "2") and rest and rest[0] in (">", ">&"):
            word += rest.pop(0)
        if word == "2>&":
            if not rest or rest.pop(0) != "1" or "stdout" not in redirected:
                return None
            redirected["stderr"] = redirected["stdout"]
        elif word in REDIRECTIONS:
            if not rest:
                return None
            redirected |= dict.fromkeys(REDIRECTIONS[word], Path(rest.pop(0)))
        elif set(word) & set("();<>|&\n") and not word.strip("();<>|&\n"):
            return None
        else:
            arguments.append(word)
    return CoupledRun(tuple(arguments), redirected)
