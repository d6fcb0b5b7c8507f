"""Skeletons of submodels: programs that run as they are, with a place for the model's own equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xmml_run.templates import Sketch


def _ports(sketch: Sketch, operator: str) -> list[str]:
    return [port for port, its in sketch.ports.items() if its == operator]


def python_skeleton(sketch: Sketch) -> str:
    """Return the submodel in Python."""
    receive = [f'    state = me.receive("{port}").data' for port in _ports(sketch, "finit")]
    exchange = [f'me.send("{port}", state)' for port in _ports(sketch, "Oi")]
    exchange += [f'{port} = me.receive("{port}").data' for port in (*_ports(sketch, "S"), *_ports(sketch, "B"))]
    inputs = [*_ports(sketch, "S"), *_ports(sketch, "B")]
    source = f"(state + {inputs[0]}) / 2" if inputs else "state + me.delta"
    lines = [
        f'"""{sketch.id}: {sketch.about}."""',
        "",
        "import xmml",
        "",
        "with xmml.Instance() as me:",
        '    state = me.param("initial", float)',
        "    while me.reuse():  # once for each pass",
        *(f"    {line}" for line in receive),
        "        for t in me.steps():",
        *(f"            {line}" for line in exchange),
        f"            state = {source}  # your equations",
        '        print(f"t = {me.time:g} s: {state:g}")',
        *(f'        me.send("{port}", state)' for port in _ports(sketch, "Of")),
    ]
    return "\n".join(lines) + "\n"


def c_skeleton(sketch: Sketch) -> str:
    """Return the submodel in C."""
    inputs = [*_ports(sketch, "S"), *_ports(sketch, "B")]
    source = f"(state + {inputs[0]}) / 2" if inputs else "state + xmml_delta(me)"

    def receive(port: str, variable: str, indent: str) -> list[str]:
        return [
            f'{indent}if (xmml_receive(me, "{port}", &message) != XMML_OK) return failed(me);',
            f"{indent}if (xmml_message_double(message, &{variable}) != XMML_OK) return failed(me);",
            f"{indent}xmml_message_free(message);",
        ]

    def send(port: str, indent: str) -> str:
        return f'{indent}if (xmml_send_double(me, "{port}", state) != XMML_OK) return failed(me);'

    receives = [*_ports(sketch, "finit"), *inputs]
    lines = [
        f"/* {sketch.id}: {sketch.about}. */",
        "#include <stdio.h>",
        "#include <xmml.h>",
        "",
        "static int failed(xmml_instance *me)",
        "{",
        '    fprintf(stderr, "%s\\n", xmml_error());',
        "    if (me) xmml_fail(me, xmml_error());",
        "    return 1;",
        "}",
        "",
        "int main(void)",
        "{",
        "    xmml_instance *me = NULL;",
        *(["    xmml_message *message;"] if receives else []),
        "    int again;",
        f"    double {', '.join(['t = 0', 'state', *(f'{port} = 0' for port in inputs)])};",
        "",
        "    if (xmml_join(&me) != XMML_OK) return failed(me);",
        '    if (xmml_param_double(me, "initial", NULL, &state) != XMML_OK) return failed(me);',
        "    while (xmml_reuse(me, &again) == XMML_OK && again) { /* once for each pass */",
        *(line for port in _ports(sketch, "finit") for line in receive(port, "state", " " * 8)),
        "        while (xmml_step(me, &t) == XMML_OK) {",
        *(send(port, " " * 12) for port in _ports(sketch, "Oi")),
        *(line for port in inputs for line in receive(port, port, " " * 12)),
        f"            state = {source}; /* your equations */",
        "        }",
        '        printf("t = %g s: %g\\n", xmml_time(me), state);',
        *(send(port, " " * 8) for port in _ports(sketch, "Of")),
        "    }",
        "    return xmml_leave(&me) == XMML_OK ? 0 : failed(me);",
        "}",
    ]
    return "\n".join(lines) + "\n"


def cpp_skeleton(sketch: Sketch) -> str:
    """Return the submodel in C++."""
    inputs = [*_ports(sketch, "S"), *_ports(sketch, "B")]
    source = f"(state + {inputs[0]}) / 2" if inputs else "state + me.delta()"

    def get(port: str) -> str:
        return f'me.receive("{port}").as<double>()'

    lines = [
        f"// {sketch.id}: {sketch.about}.",
        "// An exception that nobody catches ends the run, and the last line of the run tells its text.",
        "#include <iostream>",
        "#include <xmml.hpp>",
        "",
        "int main()",
        "{",
        "    xmml::Instance me;",
        '    double state = me.param<double>("initial");',
        "    while (me.reuse()) { // once for each pass",
        *(f"        state = {get(port)};" for port in _ports(sketch, "finit")),
        "        for (const double t : me.steps()) {",
        *(f'            me.send("{port}", state);' for port in _ports(sketch, "Oi")),
        *(f"            const double {port} = {get(port)};" for port in inputs),
        f"            state = {source}; // your equations",
        '            std::cout << "t = " << t << " s: " << state << std::endl;',
        "        }",
        *(f'        me.send("{port}", state);' for port in _ports(sketch, "Of")),
        "    }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def fortran_skeleton(sketch: Sketch) -> str:
    """Return the submodel in Fortran."""
    inputs = [*_ports(sketch, "S"), *_ports(sketch, "B")]
    source = f"(state + {inputs[0]}) / 2" if inputs else "state + me%delta()"
    lines = [
        f"! {sketch.id}: {sketch.about}.",
        "! An error ends the program, and the last line of the run tells its text.",
        f"program {sketch.instance}",
        "    use, intrinsic :: iso_fortran_env, only: real64",
        "    use xmml",
        "    implicit none",
        "    type(xmml_instance) :: me",
        f"    real(real64) :: {', '.join(['t', 'state', *inputs])}",
        "",
        "    call me%join()",
        '    call me%param("initial", state)',
        "    do while (me%reuse()) ! once for each pass",
        *(f'        call me%receive("{port}", state)' for port in _ports(sketch, "finit")),
        "        do while (me%step(t))",
        *(f'            call me%send("{port}", state)' for port in _ports(sketch, "Oi")),
        *(f'            call me%receive("{port}", {port})' for port in inputs),
        f"            state = {source} ! your equations",
        "        end do",
        '        print "(a, g0, a, g0)", "t = ", me%time(), " s: ", state',
        *(f'        call me%send("{port}", state)' for port in _ports(sketch, "Of")),
        "    end do",
        "    call me%leave()",
        "end program",
    ]
    return "\n".join(lines) + "\n"


def java_class_name(sketch: Sketch) -> str:
    """Return the name of the class of a submodel in Java; its file has the same."""
    return sketch.instance[:1].upper() + sketch.instance[1:]


def java_skeleton(sketch: Sketch) -> str:
    """Return the submodel in Java."""
    inputs = [*_ports(sketch, "S"), *_ports(sketch, "B")]
    source = f"(state + {inputs[0]}) / 2" if inputs else "state + me.delta()"
    lines = [
        "import org.xmml.Submodel;",
        "",
        f"/** {sketch.id}: {sketch.about}. An exception ends the run, and the last line of the run tells its text. */",
        f"public class {java_class_name(sketch)} extends Submodel {{",
        '    private double state = me.paramDouble("initial");',
        *(f"    private double {port};" for port in inputs),
    ]
    operators = {
        "finit": [f'state = me.receive("{port}").asDouble();' for port in _ports(sketch, "finit")],
        "Oi": [f'me.send("{port}", state);' for port in _ports(sketch, "Oi")],
        "S": [
            *(f'{port} = me.receive("{port}").asDouble();' for port in inputs),
            f"state = {source}; // your equations",
            'System.out.println("t = " + t + " s: " + state);',
        ],
        "Of": [f'me.send("{port}", state);' for port in _ports(sketch, "Of")],
    }
    for operator, statements in operators.items():
        if statements:
            lines += ["", "    @Override", f"    protected void {operator}() {{"]
            lines += [f"        {statement}" for statement in statements]
            lines += ["    }"]
    return "\n".join([*lines, "}"]) + "\n"


def makefile(programs: Sequence[tuple[Sketch, str]]) -> str:
    """Return a Makefile that builds the programs that are compiled; each is given with its language."""
    names = [
        f"{java_class_name(sketch)}.class" if language == "java" else sketch.instance for sketch, language in programs
    ]
    rules = dict.fromkeys((LANGUAGES[language][0], LANGUAGES[language][2]) for _, language in programs)
    return (
        f"# Builds the submodels; xmml-run calls it (run:build in the model).\n"
        f"all: {' '.join(names)}\n\n"
        + "".join(
            "%.class: %.java\n\tjavac -cp $$(xmml-config --jar) -d . $<\n\n"
            if suffix == ".java"
            else f"%: %{suffix}\n\t{compiler} -O2 -g -o $@ $< "
            f"$$(xmml-config {_OPTIONS.get(suffix, '--cflags --libs')})\n\n"
            for suffix, compiler in rules
        )
        + f"clean:\n\trm -f {' '.join(names)}\n"
    )


#: What xmml-config is asked for, where it is not the options for C and C++.
_OPTIONS = {".f90": "--fflags --flibs"}

#: For each language: the suffix of a program, its skeleton, and the compiler (none: it is not compiled).
LANGUAGES: Mapping[str, tuple[str, Callable[[Sketch], str], str | None]] = {
    "python": (".py", python_skeleton, None),
    "c": (".c", c_skeleton, "cc"),
    "cpp": (".cpp", cpp_skeleton, "c++ -std=c++17"),
    "fortran": (".f90", fortran_skeleton, "gfortran"),
    "java": (".java", java_skeleton, "javac"),
}
