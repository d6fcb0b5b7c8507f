"""Shows on small trees that each rule of the layers finds an offender, and that clean trees pass."""

from __future__ import annotations

from pathlib import Path

import imports_of_python as python
import imports_of_rust as rust
import rooms
from arrows import Arrow, cycles, forbidden, not_downward


def written(folder: Path, files: dict[str, str]) -> Path:
    """Write `files`, and return the folder that holds them."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def python_arrows(folder: Path, files: dict[str, str]) -> list[Arrow]:
    """Return the imports in a tree of the packages `low` and `high`."""
    root = written(folder, {"low/__init__.py": "", "high/__init__.py": "", **files})
    return list(python.imports(python.modules_of([root / "low", root / "high"]), root))


def rust_problems(folder: Path, files: dict[str, str]) -> list[str]:
    """Return the problems with cycles in a crate `small`."""
    root = written(folder, {f"small/src/{name}": text for name, text in files.items()})
    return cycles("rust cycle", rust.imports("small", root / "small", root), set())


def test_a_python_cycle_through_a_function_is_found(tmp_path: Path) -> None:
    arrows = python_arrows(
        tmp_path, {"low/a.py": "from low import b\n", "low/b.py": "def f():\n    from low.a import g\n"}
    )
    problems = "\n".join(cycles("python cycle", arrows, set()))
    assert "python cycle: low.b -> low.a\n    low/b.py:2 takes g" in problems
    assert "python cycle: low.a -> low.b" in problems


def test_a_python_import_for_types_closes_no_cycle(tmp_path: Path) -> None:
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from low.a import G\n"
    arrows = python_arrows(tmp_path, {"low/a.py": "import low.b\n", "low/b.py": for_types})
    assert cycles("python cycle", arrows, set()) == []


def test_a_listed_arrow_is_excused_while_it_closes_a_cycle(tmp_path: Path) -> None:
    arrows = python_arrows(tmp_path, {"low/a.py": "import low.b\n", "low/b.py": "from low.a import g\n"})
    listed = {"python cycle: low.b -> low.a"}
    assert cycles("python cycle", arrows, listed) == []
    for solved in ([arrow for arrow in arrows if arrow.source == source] for source in ("low.a", "low.b")):
        assert "remove this line" in "".join(cycles("python cycle", solved, listed))


def test_imports_upward_and_sideways_are_found(tmp_path: Path) -> None:
    arrows = python_arrows(tmp_path, {"low/a.py": "from high.b import f\n", "high/b.py": ""})
    for floors, problems in ({"low": 1, "high": 2}, 1), ({"low": 1, "high": 1}, 1), ({"low": 2, "high": 1}, 0):
        found = not_downward("rule", arrows, set(), lambda name, of=floors: of[name[:-2]], lambda name: name[:-2])
        assert len(found) == problems


def test_private_names_of_other_modules_are_found(tmp_path: Path) -> None:
    text = "import low.b\nfrom low.b import _name\nlow.b._other()\nlow.b.__doc__\nself._own\n"
    arrows = python_arrows(tmp_path, {"low/a.py": text, "low/b.py": "", "low/_c.py": "", "low/d.py": "import low._c\n"})
    problems = forbidden("private name", python.private_names(arrows), set())
    assert [problem.splitlines()[0] for problem in problems] == [
        "private name: low.a -> low.b._name",
        "private name: low.a -> low.b._other",
    ]
    outside = python_arrows(tmp_path, {"high/a.py": "from low import _c\n"})
    assert "private name: high.a -> low._c" in "".join(forbidden("private name", python.private_names(outside), set()))


def test_a_rust_cycle_is_found_in_use_trees_and_in_code(tmp_path: Path) -> None:
    problems = rust_problems(
        tmp_path,
        {
            "lib.rs": "mod a;\nmod b;\n",
            "a/mod.rs": "mod c;\n",
            "a/c.rs": "use super::{\n    d,\n    super::b::{self, B},\n};\n",
            "b.rs": "fn f() { crate::a::f::<u8>('\"') }\n",
        },
    )
    assert "rust cycle: small::a -> small::b\n    small/src/a/c.rs:3 takes b::self\n" in "\n".join(problems)
    assert "rust cycle: small::b -> small::a\n    small/src/b.rs:1 takes a::f" in problems


def test_rust_comments_strings_and_tests_close_no_cycle(tmp_path: Path) -> None:
    b = '// crate::a\nconst A: &str = "crate::a";\n#[cfg(test)]\nmod tests {\n    use crate::a::{A};\n}\n'
    files = {"lib.rs": "mod a;\nmod b;\n", "a.rs": "use crate::b::B;\n", "b.rs": b, "b/tests.rs": "use crate::a::A;\n"}
    assert rust_problems(tmp_path, files) == []


def test_floors_are_read_from_the_table() -> None:
    page = "| floor | room | what |\n|---|---|---|\n| 1 | `a/`, `a/b/` | `no/` |\n| 2 | `a/b/c/` | |\n| - | `d/` | |\n"
    floors = rooms.floors(page)
    assert floors == {"a": 1, "a/b": 1, "a/b/c": 2}
    assert (rooms.floor_of("a/b/d.py", floors), rooms.floor_of("a/b/c/d.py", floors)) == (1, 2)


def test_dependencies_of_crates_are_read(tmp_path: Path) -> None:
    member = '[package]\nname = "{}"\n[{}]\n{} = {{ path = "" }}\n'
    root = written(
        tmp_path,
        {
            "Cargo.toml": '[workspace]\nmembers = ["a", "b"]\n',
            "a/Cargo.toml": member.format("crate-a", "dependencies", "crate-b"),
            "b/Cargo.toml": member.format("crate-b", "dev-dependencies", "crate-a"),
        },
    )
    assert [(arrow.source, arrow.target) for arrow in rooms.dependencies(root)] == [("crate-a", "crate-b")]
