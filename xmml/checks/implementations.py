"""Implementations: E02 for settings that contradict each other, and for code that belongs nowhere; E26 for code that is
no Python; W15 for unknown languages."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace

from xmml.checks.index import Index
from xmml.definitions import content, content_position, positive_integer
from xmml.model import OPERATORS
from xmml.positions import Mark, Position
from xmml.problems import Problem, did_you_mean
from xmml.run_options import run_options
from xmml.tree import Element

#: Languages that programs are written in, as `language` names them.
LANGUAGES = (
    *("python", "c", "c++", "cpp", "fortran", "java", "bash", "sh", "shell", "perl", "ruby", "julia", "r", "matlab"),
    *("octave", "rust", "go", "javascript", "lua", "cuda", "kotlin", "scala", "c#", "haskell", "ada", "d", "tcl"),
)
#: So much work goes into compiling the code of a document: that of one piece may grow with the square of its length,
#: which is 100,000 characters at most. What exceeds that is not compiled when it is checked.
_MOST_WORK = 100_000**2

_PARTS = ("header", *OPERATORS)


def cores_agree(index: Index) -> Iterator[Problem]:
    """Ranks times threads, if given, are the cores."""
    for element in _implementations(index):
        options = run_options(element)
        cores = positive_integer(element.get("cores"))
        needed = (options.mpi or 1) * (options.threads or 1)
        if cores is None or (options.mpi is None and options.threads is None) or cores == needed:
            continue
        message = f"cores says {cores}, but run:mpi and run:threads make {needed}"
        yield element.problem("E02", message, "remove cores: ranks times threads count", "cores")


def parts_of_code(index: Index) -> Iterator[Problem]:
    """Inline Python belongs to the header or to an operator; elsewhere it would never run."""
    for element in _implementations(index):
        for code in element.named("code"):
            part = code.get("part")
            if (code.get("language") or "").lower().startswith("python") and part not in _PARTS:
                if part is None:
                    help = f'add part="...", one of {", ".join(_PARTS)}'
                    yield code.problem("E02", "this code does not say where it belongs", help)
                else:
                    help = did_you_mean(part, _PARTS, "parts")
                    yield code.problem("E02", f'code cannot belong to "{part}"', help, "part")


def code_compiles(index: Index) -> Iterator[Problem]:
    """Inline Python is Python."""
    left = _MOST_WORK
    for element in _implementations(index):
        for code in element.named("code"):
            if (code.get("language") or "").lower().startswith("python"):
                text = content(code)
                if (work := len(text) ** 2) <= left:
                    left -= work
                    yield from _syntax(code, text)


def _syntax(code: Element, text: str) -> Iterator[Problem]:
    from xmml_native.inline import dedent

    start = content_position(code)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile("\n" * (start.line - 1) + dedent(text), start.file, "exec", dont_inherit=True)
    except SyntaxError as error:
        help = "all lines of a <code> have the same margin; < and & are written &lt; and &amp;, or within <![CDATA[ ]]>"
        yield _at_error(code, error, code.problem("E26", f"this code is not Python: {error.msg}", help))
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        yield code.problem("E26", f"this code cannot be read: {str(error) or type(error).__name__}")


def _at_error(code: Element, error: SyntaxError, problem: Problem) -> Problem:
    """Return the problem of inline code, placed where Python stumbled."""
    file, line = code.source.file, error.lineno or 0
    quote, first = code.source.quote(Mark(Position(file, line, 1)))
    text = (error.text or "").rstrip("\n")
    margin = quote.find(text.strip())
    if not text.strip() or margin < 0:
        return problem  # written with entities, or cut: not the text that stands there
    indent = len(text) - len(text.lstrip())
    place = Position(file, line, first + margin + max(0, (error.offset or 1) - 1 - indent))
    return replace(problem, position=place, mark=Mark(place), quote=quote, quote_column=first)


def known_languages(index: Index) -> Iterator[Problem]:
    """The language of an implementation or of code is one that somebody knows; other programs are simply started."""
    for element in _implementations(index):
        language = element.get("language")
        if language is not None and not is_known_language(language) and element.first("interpreter") is None:
            suggestion = did_you_mean(language.lower(), LANGUAGES)
            help = (
                suggestion
                if suggestion.startswith("did you mean")
                else "name what starts it with <interpreter>, or leave language out for a program that starts by itself"
            )
            yield element.problem("W15", f'the language "{language}" is not known', help, "language")
        for code in element.named("code"):
            written = code.get("language") or ""
            if not written.lower().startswith("python"):
                suggestion = did_you_mean(written.lower(), ("python",))
                help = (
                    suggestion
                    if suggestion.startswith("did you mean")
                    else "put the code into a file of its own, and name it with path"
                )
                yield code.problem("W15", f'code in "{written}" is not run: inline code is Python', help, "language")


def is_known_language(language: str) -> bool:
    """Say whether a text is a known language, with a version or standard behind it or not: c++, C++17, python3.11."""
    match = re.fullmatch(r"([a-z#+]+?)[\s-]?v?[0-9][0-9.]*|([a-z#+-]+)", language.strip().lower())
    word = (match.group(1) or match.group(2)) if match else ""
    return word in LANGUAGES


def _implementations(index: Index) -> Iterator[Element]:
    for definition in [*index.definition_elements, *index.filter_elements]:
        yield from definition.named("implementation")
