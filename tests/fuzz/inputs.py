"""Random inputs, near to what is right or far from it: texts, XML trees near the schema, changed documents, models.

Every generator takes its randomness from one `random.Random`, so a seed gives the same inputs again.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from lxml import etree
from random_networks import random_text
from small_models import document

ROOT = Path(__file__).parents[2]
XMML = "http://www.mapper-project.eu/xmml"
RUN = "urn:xmml:run:1"
XINCLUDE = "http://www.w3.org/2001/XInclude"
HEAD = f'<model id="m" xmml_version="0.4" xmlns="{XMML}" xmlns:run="{RUN}" xmlns:xi="{XINCLUDE}">'
#: Larger documents take part only in the campaign's few slow inputs.
MOST_BYTES = 20_000

NUMBERS = ["0", "1", "2", "3", "10", "0.5", ".5", "5.", "1e3", "1e-3", "1E+2", "007", "-1", "-0", "+1"]
NUMBERS += ["1e300", "1e400"]
NUMBERS += ["9" * 19, "1" * 1100, "0" * 5000 + "1", "1e999999999", "1e-300", "\u0663", "1_0", "0x10", "nan", "inf", ""]
UNITS = ["s", "ms", "min", "hr", "h", "day", "yr", "m", "mm", "\u00b5m", "km", "B", "MB", "bit", "KiB"]
UNITS += ["lightyears", "", "%"]
NAMES = ["a", "b", "c", "macro", "m", "x.y", "x-y", "_", "\u00e9", "a[0]", "c[3]", "", " ", "1", "Oi", "*"]
NAMES += ["a:b", "x" * 300]
WORDS = ["yes", "no", "optional", "dynamic", "finit", "Oi", "S", "B", "Of", "fan-in", "fan-out", "fan-in-out", "source"]
WORDS += ["sink", "interpolation", "reduction", "converter", "state", "normal", "fixed", "variable", "until"]
WORDS += ["free", "0.4"]
WORDS += ["python", "c", "npy", "csv", "text", "drop", "last", "sum", "repeat", "chunk"]
WORDS += ["lineartimeinterpolation", "header"]
WORDS += ["shm,tcp", "bulk", "control", "'", '"', "A=1", "XMML_A=1", "a b 'c", "../x", "/etc/passwd"]
WORDS += ["file:///x", "\\", "%00"]
FORMULA_PARTS = ["1", "2.5", "1e3", ".5", "x", "log", "sqrt", "sizeof", "(", ")", "+", "-", "*", "/", "^", " "]
FORMULA_PARTS += ["double", ","]
FORMULA_PARTS += ["t", "1e999", "0", "log(", "sqrt(", "sizeof(double)", "\u03c0", "**", "--", "((((((", "^-"]
FORMULA_PARTS += ["1/0", "\n"]
YAML_VALUES = [
    "[]",
    "{}",
    "[1, 2.5]",
    "[[1], [2, 3]]",
    "{a: b}",
    "null",
    "~",
    "&a [*a]",
    "*a",
    "!!binary x",
    "!!set {a}",
]
YAML_VALUES += [
    "2001-99-99",
    "2001-01-01",
    "1:60",
    "0o9",
    "0b2",
    ".inf",
    ".nan",
    "!!python/object:os.system x",
    "|",
    ">",
]
YAML_VALUES += [
    "- a",
    "a: b",
    "? a",
    "'",
    '"',
    "%TAG",
    "<<: *a",
    "!!int x",
    "!!float x",
    "!!timestamp x",
    "@",
    "`",
    "\t",
]
LETTERS = "abcxyzOSB019.,:;-_+*/^()[]{}<>&'\"=%#!? \t\n\r\u00e9\u00b5\u03bb\u4e2d\U0001f600\x85\u2028\ufeff\u200b"
#: The elements of a model by parent, and their attributes: what a tree near the schema is made of.
CHILDREN: dict[str, Sequence[str]] = {
    "model": ["description", "definitions", "topology"],
    "definitions": ["datatype", "filter", "terminal", "mapper", "submodel", "submodel", "submodel", "xi:include"],
    "filter": ["description", "param", "implementation", "extra"],
    "terminal": ["description", "param", "ports", "implementation", "extra"],
    "mapper": ["description", "param", "ports", "implementation", "extra"],
    "submodel": ["description", "timescale", "spacescale", "otherscale", "param", "ports", "implementation", "extra"],
    "timescale": ["delta", "total"],
    "spacescale": ["delta", "total"],
    "otherscale": ["delta", "total"],
    "ports": ["in", "in", "out", "out"],
    "topology": ["instance", "instance", "instance", "coupling", "coupling"],
    "instance": ["timescale", "spacescale", "otherscale", "param", "extra"],
    "coupling": ["apply", "apply", "extra"],
    "apply": ["param", "extra"],
    "implementation": ["interpreter", "platform", "library", "code"],
    "extra": ["run:copy", "extra", "param"],
    "param": ["description"],
    "description": ["extra"],
    "code": ["param"],
    "parameters": ["description", "param", "parameterGroup", "parameterGroup", "include", "extra"],
    "parameterGroup": ["param", "param", "parameterGroup", "include", "extra"],
}
ATTRIBUTES: dict[str, Sequence[str]] = {
    "model": ["id", "name", "version", "xmml_version"],
    "datatype": ["id", "class", "version", "size_estimate", "extends"],
    "filter": ["id", "class", "datatype_in", "datatype_out", "type", "dimension", "factor"],
    "terminal": ["id", "class", "type", "init", "interactive"],
    "mapper": ["id", "class", "type", "init"],
    "submodel": ["id", "class", "init", "stateful", "type", "name", "run:steps", "run:order"],
    "timescale": ["id", "delta", "total", "characteristic"],
    "spacescale": ["id", "delta", "total", "characteristic", "dimensions"],
    "otherscale": ["id", "delta", "total", "characteristic", "dimensions", "type"],
    "delta": ["type", "min", "max"],
    "total": ["type", "min", "max"],
    "param": ["id", "value"],
    "in": ["id", "operator", "datatype", "type"],
    "out": ["id", "operator", "datatype", "type"],
    "instance": ["id", "submodel", "mapper", "terminal", "domain", "init", "stateful", "multiplicity", "run:steps"],
    "coupling": [
        "name",
        "from",
        "to",
        "size",
        "interactive",
        "run:capacity",
        "run:methods",
        "run:compress",
        "run:class",
    ],
    "apply": ["filter", "factor"],
    "implementation": ["size", "runtime", "memory", "cores", "language", "path", "run:args", "run:env", "run:mpi"],
    "interpreter": ["name", "path", "version", "flags"],
    "platform": ["arch", "os", "preferred"],
    "library": ["name", "path"],
    "code": ["language", "part", "version"],
    "run:copy": ["index", "param", "value"],
    "xi:include": ["href", "xpointer", "parse"],
    "parameters": ["id", "version", "name", "xmml_version"],
    "parameterGroup": ["id", "submodel", "mapper", "filter", "instance", "domain"],
    "include": ["parameterGroup"],
}
_TOKEN = re.compile(r'<[?][^>]*>|<!?/?[\w:]+|/?>|[\w:-]+=|"[^"]*"|[^<>"\s]+|\s+')
_MARKUP = [b"\0", b"<", b"&", b'"', b"]]>", b"<!--", b"&#0;", b"\xff\xfe", b"<?a?>", b"&b;", b"<![CDATA[", b"\xc3\xa9"]
_MARKUP += [b"\r", b"<!DOCTYPE a [<!ENTITY b 'c'>]>"]
_ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "utf-7", "utf-32", "cp1252"]


@cache
def corpus() -> dict[str, bytes]:
    """Return the documents of the project that are small enough to be changed a thousand times a second."""
    paths = [
        *ROOT.glob("workflows/*/*.xmml"),
        *ROOT.glob("tests/models/*/*.xmml"),
        *ROOT.glob("tests/data/documents/*.xml"),
    ]
    # A run in the folder of a model leaves the folder `.xmml` beside it.
    found = {str(path.relative_to(ROOT)): path.read_bytes() for path in sorted(paths) if path.is_file()}
    return {name: data for name, data in found.items() if len(data) <= MOST_BYTES and "workflows/canal" not in name}


def model_documents() -> dict[str, bytes]:
    """Return the documents of the corpus that are models."""
    return {name: data for name, data in corpus().items() if b"<model" in data}


def noise(choose: random.Random, length: int = 30) -> str:
    """Return characters of all kinds."""
    letters = LETTERS if choose.random() < 0.95 else LETTERS + "\x00\x01\ud800"
    return "".join(choose.choices(letters, k=choose.randint(0, length)))


def quantity(choose: random.Random) -> str:
    """Return a quantity, or nearly one."""
    kind = choose.random()
    if kind < 0.05:
        return noise(choose)
    number = choose.choice(NUMBERS) if kind < 0.5 else f"{choose.uniform(-1, 1e6):.{choose.randint(0, 12)}g}"
    if choose.random() < 0.1:
        number += f"e{choose.randint(-400, 400)}"
    return number + choose.choice(["", " ", "  ", "\t", "\u00a0"]) + choose.choice(UNITS)


def formula(choose: random.Random) -> str:
    """Return a formula, or nearly one."""
    if choose.random() < 0.3:
        return _well_formed(choose, choose.randint(0, 6))
    return "".join(choose.choices(FORMULA_PARTS, k=choose.randint(0, 40)))


def _well_formed(choose: random.Random, depth: int) -> str:
    if depth == 0:
        return choose.choice(["1", "0", "2.5", "1e3", "x", "y", "t", "sizeof(int)", f"{choose.random() * 100:.3g}"])
    inner = _well_formed(choose, depth - 1)
    match choose.randrange(5):
        case 0:
            return f"({inner})"
        case 1:
            return f"-{inner}"
        case 2:
            return f"{choose.choice(['log', 'sqrt'])}({inner})"
        case _:
            return f"{inner} {choose.choice('+-*/^')} {_well_formed(choose, depth - 1)}"


def value(choose: random.Random, attribute: str) -> str:
    """Return a value for an attribute: mostly one that fits."""
    kind = choose.random()
    if kind < 0.02:
        return noise(choose)
    if kind < 0.05:
        return choose.choice([*NAMES, *NUMBERS, *WORDS])
    match attribute:
        case "delta" | "total" | "characteristic" | "min" | "max" | "size" | "runtime" | "memory":
            unit = "s" if attribute in ("runtime", "delta", "total") else "MB"
            return f"{choose.randint(1, 9)} {unit}" if kind < 0.6 else quantity(choose)
        case "size_estimate" | "factor":
            return str(choose.randint(1, 4)) if kind < 0.5 else formula(choose)
        case "from" | "to":
            return f"{_name(choose)}.{_name(choose)}"
        case "multiplicity" | "dimensions" | "cores" | "run:mpi" | "run:capacity" | "index":
            return choose.choice(["1", "2", "3", "dynamic", *NUMBERS])
        case "operator":
            return choose.choice(["finit", "Oi", "S", "B", "Of"])
        case "type":
            return choose.choice(WORDS)
        case "xmml_version":
            return "0.4" if kind < 0.95 else choose.choice(["0.3", "0.1", "1.0"])
        case "init" | "stateful" | "interactive" | "preferred" | "run:compress":
            return choose.choice(["yes", "no", "optional"])
        case "domain":
            return ".".join(_name(choose) for _ in range(choose.randint(1, 4)))
        case "href":
            return choose.choice(
                ["part.xml", "part.xml#xpointer(/a/*)", "model.xml", "none.xml", "/etc/passwd", "http://x/y"]
            )
        case "value":
            return choose.choice([quantity(choose), formula(choose), noise(choose)])
        case _:
            return _name(choose) if kind < 0.8 else choose.choice(WORDS)


def _name(choose: random.Random) -> str:
    return choose.choice("abcd") if choose.random() < 0.97 else choose.choice(NAMES)


def quoted(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").replace("\n", "&#10;")
    return "".join(each for each in escaped if each.isprintable() or each in "\t\u2028\u00a0")


def tree(choose: random.Random, name: str = "model", depth: int = 0) -> str:
    """Return an element with attributes and children that mostly are those of the schema."""
    names = list(dict.fromkeys(choose.choices(ATTRIBUTES.get(name, ["id"]), k=choose.randint(0, 6))))
    if "id" in ATTRIBUTES.get(name, ()) and "id" not in names and choose.random() < 0.95:
        names.insert(0, "id")
    attributes = "".join(f' {each}="{quoted(value(choose, each))}"' for each in names)
    wanted = CHILDREN.get(name, ())
    count = choose.choice([len(wanted), len(wanted), choose.randint(0, 8)]) if depth < 6 and wanted else 0
    order = choose.random() < 0.8
    children = list(wanted[:count]) if order and count <= len(wanted) else choose.choices(wanted or ["extra"], k=count)
    if depth > 1:
        rare = ("extra", "description", "run:copy")
        children = [child for child in children if choose.random() < (0.1 if child in rare else 0.6)]
    if choose.random() < 0.01:
        children.append(choose.choice([*CHILDREN, "unknown", "xi:fallback"]))
    inner = "".join(tree(choose, child, depth + 1) for child in children)
    if name in ("code", "description") or choose.random() < 0.01:
        inner += quoted(noise(choose))
    if depth == 0:
        text = f'<{name} xmlns="{XMML}" xmlns:run="{RUN}" xmlns:xi="{XINCLUDE}"{attributes}>{inner}</{name}>'
        return text.replace(f'="{XMML}"', f'="{XMML}/param"', 1) if name == "parameters" else text
    return f"<{name}{attributes}>{inner}</{name}>\n" if inner else f"<{name}{attributes}/>\n"


def mutated(choose: random.Random, text: str) -> str:
    """Return the text with some of its tokens dropped, doubled, swapped or replaced."""
    tokens = _TOKEN.findall(text)
    for _ in range(choose.choice([1, 1, 1, 2, 3, 6])):
        if len(tokens) < 3:
            break
        at, other = choose.randrange(len(tokens)), choose.randrange(len(tokens))
        match choose.randrange(10):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = tokens[other]
            case 4:
                start = choose.randrange(len(tokens))
                tokens[at:at] = tokens[start : start + choose.randint(1, 30)]
            case _:
                places = [place for place, token in enumerate(tokens) if token.startswith('"')]
                if places:
                    kind = choose.choice(["delta", "factor", "from", "cores", "operator", "type", "value", "id"])
                    tokens[choose.choice(places)] = f'"{quoted(value(choose, kind))}"'
    return "".join(tokens)


def mutated_yaml(choose: random.Random, text: str) -> str:
    """Return a YAML text with lines dropped, doubled, moved, shifted, or other values in them."""
    lines = text.splitlines()
    for _ in range(choose.choice([1, 1, 1, 2, 3, 6])):
        if not lines:
            break
        at, other = choose.randrange(len(lines)), choose.randrange(len(lines))
        match choose.randrange(8):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = choose.choice([lines[at].strip(), "  " + lines[at], lines[at][1:], lines[at] + ":"])
            case _:
                key, colon, _ = lines[at].partition(":")
                lines[at] = key + colon + " " + choose.choice(choose.choice([YAML_VALUES, NUMBERS, NAMES, WORDS]))
    return "\n".join(lines) + "\n"


def restructured(choose: random.Random, data: bytes) -> bytes:
    """Return the document, still well-formed, with elements and attributes dropped, doubled, moved or changed."""
    root = etree.fromstring(data, etree.XMLParser(no_network=True, load_dtd=False))
    for _ in range(choose.randint(1, 4)):
        elements = list(root.iter("*"))
        element, other = choose.choice(elements), choose.choice(elements)
        parent = element.getparent()
        match choose.randrange(7):
            case 0 if parent is not None:
                parent.remove(element)
            case 1 if parent is not None:
                parent.insert(choose.randint(0, len(parent)), copy.deepcopy(element))
            case 2:
                other.append(copy.deepcopy(element))
            case _ if element.attrib:
                name = str(choose.choice(list(element.attrib)))
                plain = name.replace(f"{{{RUN}}}", "run:")
                text = (
                    choose.choice(list(other.attrib.values()) or ["a"])
                    if choose.random() < 0.4
                    else value(choose, plain)
                )
                element.set(name, "".join(each for each in str(text) if each.isprintable()))
            case _:
                name = choose.choice(["id", "operator", "delta", "multiplicity", "factor", "spare", "init", "domain"])
                element.set(name, "".join(each for each in value(choose, name) if each.isprintable()))
    return bytes(etree.tostring(root))


def flipped(choose: random.Random, data: bytes) -> bytes:
    """Return the bytes with some changed, dropped or doubled, cut short, or in another encoding."""
    if choose.random() < 0.1:
        text = data.decode("utf-8", "replace")
        return text.encode(choose.choice(_ENCODINGS), "replace")
    changed = bytearray(data)
    for _ in range(choose.randint(1, 5)):
        at = choose.randrange(len(changed) + 1)
        match choose.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([choose.randrange(256)])
            case 1:
                del changed[at : at + choose.randint(1, 20)]
            case 2:
                changed[at:at] = changed[at : at + choose.randint(1, 50)]
            case 3:
                changed[at:at] = choose.choice(
                    [b"\0", b"<", b"&", b'"', b"]]>", b"<!--", b"&#0;", b"\xff\xfe", b"<?a?>"]
                )
            case 4 if choose.random() < 0.2:
                del changed[at:]
            case _:
                changed[at:at] = choose.choice(
                    [b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"<![CDATA[", b"\xc3\xa9", b"\r"]
                )
    return bytes(changed)


def small_model(choose: random.Random) -> str:
    """Return a document of a model whose couplings often fit together, with numbers that are large now and then."""
    text = document(random_text(choose.randrange(2**32)))
    if choose.random() < 0.3:
        text = mutated(choose, text)
    elif choose.random() < 0.5:
        large = choose.choice(["7 s", "1000 s", "1e6 s", "1e9 s", "1e18 s", "1e300 s", "1e-300 s", "1.5 s"])
        text = re.sub(r'total="[^"]*"', lambda found: f'total="{large}"' if choose.random() < 0.3 else found[0], text)
    return text


def overrides(choose: random.Random, instances: Sequence[str]) -> dict[str, str]:
    """Return overrides as `-p` gives them."""
    found = {}
    for _ in range(choose.randint(0, 4)):
        instance = choose.choice([*instances, *NAMES])
        copied = choose.choice(["", "", "[0]", "[1]", "[99999999999]", "[-1]", "[x]"])
        found[f"{instance}{copied}.{choose.choice([*NAMES, 'D', 'k'])}"] = choose.choice(
            [quantity(choose), noise(choose)]
        )
    return found
