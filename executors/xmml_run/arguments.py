"""The options of the commands."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import xmml


class UsageError(Exception):
    """An option that cannot be; the text says which and what to write instead."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the words of a command in one line, and what was probably meant."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Read the words of this command; it knows all that may stand behind its name."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(self._unknown(rest))
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _unknown(self, words: Sequence[str]) -> str:
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
        if option is None:
            return f"nothing is expected here: {' '.join(words)}"
        from xmml.problems import did_you_mean

        help = did_you_mean(option, self._option_string_actions)
        return f"there is no option {option}" + (f"; {help}" if help.startswith("did you mean") else "")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from xmml.problems import did_you_mean

            help = did_you_mean(str(value), map(str, action.choices), "values")
            raise argparse.ArgumentError(action, f'"{value}" is not possible; {help}')


def override(text: str) -> tuple[str, str]:
    """Read `INST.PARAM=VALUE`."""
    target, equals, value = text.partition("=")
    if not equals or "." not in target:
        raise argparse.ArgumentTypeError(
            f'"{text}" is not INSTANCE.PARAMETER=VALUE, for example macro.k=0.5 or c[3].x="2 km"'
        )
    return target.strip(), value


def words(text: str) -> tuple[str, ...]:
    """Read a command, split as a shell does."""
    try:
        found = tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"the command cannot be split into words ({error}): {text}") from None
    if not found:
        raise argparse.ArgumentTypeError("a command is expected, and this is empty")
    return found


def debug(text: str) -> tuple[str, tuple[str, ...]]:
    """Read `INST[=TOOL]`."""
    instance, _, tool = text.partition("=")
    command = words(tool or "gdb")
    return instance, ("gdb", "-q", "--args") if command == ("gdb",) else command


def delivery(text: str) -> tuple[str, str, Path]:
    """Read `INST/PATH=FILE`."""
    source, equals, target = text.partition("=")
    instance, slash, path = source.partition("/")
    if not equals or not slash or not instance or not path or not target:
        raise argparse.ArgumentTypeError(f'"{text}" is not INSTANCE/PATH=FILE, for example picture/levels.png=out.png')
    if path.startswith("/") or ".." in Path(path).parts:
        raise argparse.ArgumentTypeError(f'"{text}": {path} must lie in the working folder of {instance}')
    return instance, path, Path(target)


def address(text: str) -> str:
    """Read `HOST:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f'"{text}" is not HOST:PORT, for example 127.0.0.1:4711')
    return text


def ports(text: str) -> list[str]:
    """Read `INST.PORT,...`."""
    found = [each.strip() for each in text.split(",") if each.strip()]
    if not found:
        raise argparse.ArgumentTypeError('no port is named; write for example "flow.velocity"')
    return found


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add what the commands that read a model have in common."""
    parser.add_argument(
        "-p",
        dest="overrides",
        metavar="INST.PARAM=VALUE",
        type=override,
        action="append",
        default=[],
        help="set a parameter: -p macro.k=0.5, -p 'c[3].x=2 km'",
    )
    parser.add_argument(
        "--param",
        dest="parameter_files",
        metavar="FILE",
        action="append",
        default=[],
        help="an xMML file of parameters",
    )
    parser.add_argument(
        "--allow-outside",
        action="store_true",
        help="trust the model: files that it names may lie anywhere, not only below its folder and the working folder "
        "(docs/reliability.md)",
    )


def number_of_hosts(text: str) -> int:
    """Read a number from 0."""
    if not text.isdecimal() or len(text) > 6:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of processes; 0: each instance has its own')
    return int(text)


def run_folder(text: str) -> Path:
    """Return the folder of a run that is named by its path, or, as runs are listed, by its name below `runs/`."""
    path = Path(text)
    below = Path("runs") / path
    return below if not path.exists() and below.is_dir() else path


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Add the run that a command looks at."""
    parser.add_argument(
        "run", metavar="RUN", type=run_folder, help="folder of the run, such as runs/MODEL-TIME, or its name there"
    )


def add_hosts_option(parser: argparse.ArgumentParser) -> None:
    """Add how many processes instances share."""
    parser.add_argument(
        "--hosts",
        metavar="N",
        type=number_of_hosts,
        help="processes that hosted instances share (default: one per core; 0: every instance has its own)",
    )


def binding(text: str) -> str:
    """Read what instances are bound to."""
    from xmml import run_options

    try:
        return run_options.binding(text)
    except run_options.SettingError as error:
        raise argparse.ArgumentTypeError(f'"{text}": {error}') from None


def place(text: str) -> tuple[str, str]:
    """Read `INST=SITE`."""
    instance, equals, site = text.partition("=")
    if not equals or not instance.strip() or not site.strip():
        raise argparse.ArgumentTypeError(f'"{text}" is not INSTANCE=SITE, for example macro=alpha or c[3]=beta')
    return instance.strip(), site.strip()


def job_setting(text: str) -> tuple[str, str]:
    """Read `[SITE.]KEY=VALUE`."""
    target, equals, value = text.partition("=")
    if not equals or not target.strip() or not value.strip():
        raise argparse.ArgumentTypeError(
            f'"{text}" is not KEY=VALUE or SITE.KEY=VALUE, for example partition=long or alpha.walltime="2 h"'
        )
    return target.strip(), value.strip()


def relay_address(text: str) -> str:
    """Read `HOST:PORT/SITE`."""
    at, _, site = text.partition("/")
    if not re.fullmatch(r"[^/]+:[0-9]{1,5}", at) or not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", site):
        raise argparse.ArgumentTypeError(f'"{text}" is not HOST:PORT/SITE, for example localhost:40001/alpha')
    return text


def run_and_secret(text: str) -> tuple[str, Path]:
    """Read `RUN=FILE`."""
    run, equals, file = text.partition("=")
    if not equals or not run or not file:
        raise argparse.ArgumentTypeError(f'"{text}" is not RUN=FILE, for example canal=canal.secret')
    return run, Path(file)


def amount(text: str) -> float:
    """Read what a run may cost."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f'"{text}" is not an amount, for example 12.5')
    return value


def add_site_options(parser: argparse.ArgumentParser) -> None:
    """Add what the commands that plan over several sites have in common."""
    parser.add_argument(
        "--sites",
        metavar="FILE",
        help="run over the sites that this file describes (docs/sites.md), usually sites.toml",
    )
    parser.add_argument(
        "--place",
        metavar="INST=SITE",
        type=place,
        action="append",
        default=[],
        help="with --sites: where an instance (all its copies, or one) has to run",
    )
    parser.add_argument(
        "--max-cost",
        metavar="AMOUNT",
        type=amount,
        help="with --sites: what the jobs may cost together, in the currency of cost in the sites",
    )
    parser.add_argument(
        "--job",
        dest="jobs",
        metavar="[SITE.]KEY=VALUE",
        type=job_setting,
        action="append",
        default=[],
        help="with --sites: what jobs ask for (partition, account, qos, reservation, options, walltime, memory), at "
        "every site with a queue or at one: --job partition=long, --job 'alpha.walltime=2 h'",
    )


def add_allocation_option(parser: argparse.ArgumentParser) -> None:
    """Add what turns off that the nodes of a job are used."""
    parser.add_argument(
        "--no-allocation",
        action="store_true",
        help="in a job of Slurm or PBS: do not use its nodes. Without --sites everything runs on this machine, with "
        "--sites jobs are submitted (docs/allocations.md)",
    )


def run_parser() -> argparse.ArgumentParser:
    """The options of `xmml-run`."""
    parser = Parser(
        prog="xmml-run",
        description="Check a model, start its programs, couple them, and see the run to its end.",
        epilog="exit status: 0 done; 1 the model has errors; 2 wrong usage; 3 no plan satisfies the sites; "
        "4 an instance failed; 5 a site, daemon or network failed; 6 deadlock; 130 interrupted",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("model", metavar="MODEL", nargs="?", help="the model document, or a plan.json")
    what.add_argument(
        "--resume",
        metavar="RUN",
        type=run_folder,
        help="go on with a run over sites whose xmml-run was killed, in its folder RUN: jobs that still wait keep "
        "their places in the queues; a run that had begun begins anew. xmml status RUN says which of the two. The run "
        "keeps its plan; --listen, --co-allocation, --result and --detach have to be given again",
    )
    add_model_options(parser)
    parser.add_argument(
        "-o", dest="folder", metavar="DIR", type=Path, help="folder of the run (default: runs/MODEL-TIME)"
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="let the group of the run's folder read it (default: nobody but its owner can)",
    )
    parser.add_argument(
        "--result",
        dest="results",
        metavar="INST/PATH=FILE",
        type=delivery,
        action="append",
        default=[],
        help="when the run is done, copy this file or folder of an instance's working folder to FILE",
    )
    parser.add_argument(
        "--record",
        metavar="INST.PORT",
        type=ports,
        action="append",
        default=[],
        help="keep everything that is sent by an out port, as if the model had an archive there: --record 'flow.*' "
        "writes instances/record/work/record.archive (docs/taps.md)",
    )
    parser.add_argument(
        "--co-allocation",
        dest="strategy",
        choices=("hetjob", "reservation", "rendezvous"),
        help="how jobs at several sites are got together (default: the best that the sites allow)",
    )
    parser.add_argument("--detach", action="store_true", help="go on in the background, without this terminal")
    parser.add_argument("--dry-run", action="store_true", help="check and plan, say what would be started, and stop")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object at the end, everything else to standard error"
    )
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="say nothing unless the run fails")
    volume.add_argument("-v", "--verbose", action="store_true", help="also say what the run does")
    parser.add_argument(
        "--debug",
        metavar="INST[=TOOL]",
        type=debug,
        action="append",
        default=[],
        help="start an instance under gdb, valgrind or another tool",
    )
    add_hosts_option(parser)
    parser.add_argument(
        "--bind",
        metavar="none|core|numa|CPUS",
        type=binding,
        help="bind instances on this machine, whatever the model says: to nothing, each to cores of its own, those "
        "that are coupled to a NUMA node, or to CPUs that they divide, 0-3,8 (default: to cores of their own, as long "
        "as other programs do not use them; docs/binding.md)",
    )
    add_site_options(parser)
    add_allocation_option(parser)
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=address,
        help="also reach the coordinator over TCP: a name of this machine that all sites can dial",
    )
    by_hand = parser.add_argument_group("instances that you start yourself, on other hosts (docs/relay.md)")
    by_hand.add_argument(
        "--by-hand", metavar="INST", action="append", default=[], help="wait for this instance (all its copies, or one)"
    )
    by_hand.add_argument(
        "--relay", metavar="HOST:PORT/SITE", type=relay_address, help="the relay through which they reach this run"
    )
    by_hand.add_argument(
        "--run", metavar="RUN=FILE", type=run_and_secret, help="the name of the run and the file with its secret"
    )
    parser.add_argument("--no-progress", action="store_true", help="plain lines also on a terminal")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="with plain lines, show everything as it was written, also what commands the terminal",
    )
    parser.add_argument("--version", action="version", version=f"xmml {xmml.__version__}")
    return parser


def overrides_of(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the overrides by target; the last of several counts."""
    return dict(pairs)
