"""`--by-hand`, `--relay`, `--run`: instances that people start themselves, on hosts that relays lead to."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from xmml_executors.by_hand import what_to_type, with_ranks
from xmml_planner import Plan

from xmml.path import LEAST_SECRET
from xmml_run.arguments import UsageError


@dataclass(frozen=True)
class ByHand:
    """What the command line says of them.

    Attributes:
        instances: by name, with their ranks.
        relay: where processes here find their relay, HOST:PORT/SITE.
        run: the name under which relays know the run.
        secret: of the run.
        secret_file: where it stands.
    """

    instances: frozenset[str]
    relay: str
    run: str
    secret: bytes
    secret_file: Path

    def what_to_type(self, plan: Plan) -> list[str]:
        """Return the lines that tell people how they start the instances."""
        return what_to_type(plan, self.instances, self.relay, self.run, str(self.secret_file))


def by_hand_of(options: Namespace, plan: Plan) -> ByHand | None:
    """Return what the options say; `None`: everything is started by this command.

    Raises:
        UsageError: something is missing, or there is no such instance, or the secret cannot be read.
    """
    given = {"--by-hand": options.by_hand, "--relay": options.relay, "--run": options.run}
    if not any(given.values()):
        return None
    if missing := [name for name, value in given.items() if not value]:
        raise UsageError(f"{' and '.join(missing)} must be given too: --by-hand, --relay and --run belong together")
    if plan.sites:
        raise UsageError("--by-hand and --sites exclude each other: the sites of the file start all instances")
    for name in options.by_hand:
        if not with_ranks(plan, [name]):
            from xmml.problems import did_you_mean

            raise UsageError(
                f'--by-hand: there is no instance "{name}"; {did_you_mean(name, plan.by_name, "instances")}'
            )
    run, file = options.run
    return ByHand(with_ranks(plan, options.by_hand), options.relay, run, secret_in(file), file)


def secret_in(file: Path) -> bytes:
    """Return the secret in a file of hexadecimal digits that others cannot read.

    Raises:
        UsageError: there is none, or a short one.
    """
    try:
        if file.stat().st_mode & 0o077:
            raise UsageError(f"--run: others can read the secret in {file}; chmod 600 {file}")
        secret = bytes.fromhex(file.read_text(encoding="ascii"))
    except OSError as error:
        raise UsageError(f"--run: {file}: {error.strerror}; make it: openssl rand -hex 32 > {file}") from None
    except ValueError:
        secret = b""
    make = f"make it: openssl rand -hex 32 > {file}"
    if not secret:
        raise UsageError(f"--run: {file} holds no hexadecimal digits; {make}")
    if len(secret) < LEAST_SECRET:
        short = f"the secret in {file} has {len(secret)} bytes; at least {LEAST_SECRET} are needed"
        raise UsageError(f"--run: {short}; {make}")
    return secret
