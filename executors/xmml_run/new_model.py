"""`xmml new`: a folder with a model that runs, to begin with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from xml.sax.saxutils import quoteattr

from xmml_run.skeletons import LANGUAGES, java_class_name, makefile
from xmml_run.templates import IN_OPERATORS, TEMPLATES, Sketch, Template

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
#: How the model names each language.
_XMML_LANGUAGE = {"python": "python", "c": "c", "cpp": "c++", "fortran": "fortran", "java": "java"}


class NameTaken(Exception):
    """There is such a folder already."""


def write_model(name: str, template_name: str, *languages: str) -> list[Path]:
    """Write the model into a new folder `name` and return its files, the model document first.

    Several languages are dealt out to the submodels in turn.

    Raises:
        NameTaken: the folder exists and is not empty.
        ValueError: the name cannot be the id of a model, or there is no such language.
        OSError: a file cannot be written.
    """
    folder = Path(name)
    if not _NAME.fullmatch(folder.name):
        raise ValueError(f'"{folder.name}" cannot name a model: a letter, then letters, digits, _ or -')
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NameTaken(f"{folder} exists already; take another name")
    unknown = [language for language in languages if language not in LANGUAGES]
    if unknown or not languages:
        raise ValueError(f'there is no language "{", ".join(unknown)}"; there are {", ".join(LANGUAGES)}')
    template = TEMPLATES[template_name]
    language_of = dict(zip((sketch.id for sketch in template.sketches), cycle(languages), strict=False))
    files = {"model.xmml": document(folder.name, template, language_of)}
    for sketch in template.sketches:
        suffix, skeleton, _ = LANGUAGES[language_of[sketch.id]]
        stem = java_class_name(sketch) if suffix == ".java" else sketch.instance
        files[f"{stem}{suffix}"] = skeleton(sketch)
    compiled = [sketch for sketch in template.sketches if LANGUAGES[language_of[sketch.id]][2] is not None]
    if compiled:
        files["Makefile"] = makefile([(sketch, language_of[sketch.id]) for sketch in compiled])
    files["README.md"] = readme(folder.name, template, list(files))
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in files]


def readme(model: str, template: Template, files: Sequence[str]) -> str:
    """Return what says what the model is, how it is run, and what to do next."""
    build = "`xmml-run` compiles what has to be compiled, with the Makefile.\n\n" if "Makefile" in files else ""
    programs = [file for file in files if file not in ("model.xmml", "Makefile")]
    about = zip(programs, template.sketches, strict=True)
    return (
        f"# {model}\n\n{template.about}\n\n"
        "```\n"
        "xmml check model.xmml      # every mistake, with its place and what to do\n"
        "xmml analyse model.xmml    # what will happen: runs, messages, deadlocks, time\n"
        "xmml graph model.xmml      # a picture of it\n"
        "xmml-run model.xmml        # run it; results and logs are below runs/\n"
        "```\n\n"
        f"{build}" + "".join(f"* `{file}`: {sketch.about}\n" for file, sketch in about) + "\n## Next\n\n"
        "1. Put your equations where a program says `your equations`.\n"
        "2. Give the submodels their own time scales, parameters and ports in `model.xmml`; programs find them there.\n"
        "3. Try another value without changing anything: "
        f"`xmml-run model.xmml -p {template.sketches[0].instance}.initial=2`.\n"
    )


def document(model: str, template: Template, language_of: Mapping[str, str]) -> str:
    """Return the model document; `language_of` is by id of the submodel."""
    lines = [
        f'<model id={quoteattr(model)} xmml_version="0.4"',
        '       xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">',
        f"  <description>{template.about}</description>",
        "  <definitions>",
        *(line for sketch in template.sketches for line in _submodel(sketch, language_of[sketch.id])),
        "  </definitions>",
        "  <topology>",
        *(_instance(sketch) for sketch in template.sketches),
        *(f'    <coupling from="{sender}" to="{receiver}"/>' for sender, receiver in template.couplings),
        "  </topology>",
        "</model>",
    ]
    return "\n".join(lines) + "\n"


def _instance(sketch: Sketch) -> str:
    """Return the instance; one that receives only while it runs is marked as one that begins."""
    operators = set(sketch.ports.values())
    init = ' init="yes"' if operators & {"S", "B"} and "finit" not in operators else ""
    return f'    <instance id="{sketch.instance}" submodel="{sketch.id}"{init}/>'


def _submodel(sketch: Sketch, language: str) -> list[str]:
    suffix, _, compiler = LANGUAGES[language]
    program = sketch.instance if compiler else f"{sketch.instance}{suffix}"
    build = f' run:build="make {sketch.instance}"' if compiler else ""
    ports = [
        f'        <{"in" if operator in IN_OPERATORS else "out"} id="{port}" operator="{operator}"/>'
        for port, operator in sketch.ports.items()
    ]
    is_class = language == "java"
    start = f' class="{java_class_name(sketch)}"' if is_class else ""
    if is_class:
        program, build = ".", f' run:build="make {java_class_name(sketch)}.class"'
    return [
        f'    <submodel id="{sketch.id}"{start}>',
        f"      <description>{sketch.about}</description>",
        f'      <timescale delta="{sketch.delta}" total="{sketch.total}"/>',
        '      <param id="initial" value="1.0"/>',
        "      <ports>",
        *ports,
        "      </ports>",
        f'      <implementation language="{_XMML_LANGUAGE[language]}" path="{program}"{build}/>',
        "    </submodel>",
    ]
