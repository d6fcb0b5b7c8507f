"""Somebody on the way between two hosts who changes what passes: found out and named, never taken for the truth.

Real runs, between two networks. Each receiver is reached through a program in a third one that takes apart what passes
and attacks it.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import attacker
import pytest
import relayed
from attacker import CONTROL, Attacks, Exchange, InTheMiddle
from commands import XMML_RUN
from model_runs import environment
from relayed import RelayAt
from small_models import HEAD
from waiting import wait_until
from wan import PlacedSite, Site, Wan, why_not

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(600),
]

ENDS = Path(__file__).parent / "ends"
VALUES = 24
RIGHT = f"{VALUES} values are right\n"
SITES = ("here", "there", "between")
#: How long ends wait for a sign of life, of which there are six in that time; and where nothing ever gets through, how
#: long they try in vain [s]. Every run ends long before LIMIT_S.
LIMITS = {"XMML_SILENCE_LIMIT_S": "16"}
IN_VAIN = LIMITS | {"XMML_CONNECT_LIMIT_S": "6", "XMML_AWAY_LIMIT_S": "6"}
LIMIT_S = 120.0
NOT_WHAT_WAS_SENT = "what came was changed, left out or put in on its way"
#: What is done to a connection, once; by the name of the receiver to which it leads.
ON_RECORDS = {
    "rewritten": attacker.rewritten,
    "lengthrewritten": attacker.length_rewritten,
    "dropped": attacker.dropped,
    "bytesdropped": attacker.bytes_dropped,
    "replayed": attacker.replayed,
    "replayedlater": attacker.replayed_later,
    "reordered": attacker.reordered,
}
CLOSED = {"truncated": attacker.truncated, "ended": attacker.ended}
#: What is done to the handshake.
ON_HANDSHAKE = {
    "unprotected": Attacks(attacker.unprotected, attacker.unprotected),
    "strippedhello": Attacks(dialler=attacker.unprotected),
    "strippedchallenge": Attacks(listener=attacker.unprotected),
    "otherkeys": Attacks(attacker.other_keys, attacker.other_keys),
}


def exchanged() -> dict[str, Attacks]:
    exchange = Exchange()
    return {f"exchanged{end}": Attacks(exchange.of(end)) for end in (0, 1)}


@pytest.fixture(scope="module")
def wan() -> Iterator[Wan]:
    with Wan([Site(name, open_ports=None) for name in SITES]) as wan:
        yield wan


#: No two listeners have the same port.
PORTS = itertools.count(42001)


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    status: int
    said: str
    folder: Path
    by_hand: Mapping[str, str] = field(default_factory=dict)

    def output(self, instance: str) -> str:
        if instance in self.by_hand:
            return self.by_hand[instance]
        return (self.folder / "instances" / instance / "stdout").read_text()

    def warnings(self, instance: str) -> list[str]:
        """What an instance has warned of."""
        events = map(json.loads, (self.folder / "events.jsonl").read_text().splitlines())
        return [event["text"] for event in events if event["what"] == "warning" and event["instance"] == instance]


class Attacked:
    """A run from `here` to `there`: a sender, and a receiver for each attack on its values."""

    def __init__(
        self,
        wan: Wan,
        folder: Path,
        values: Mapping[str, Attacks] | None = None,
        control: Mapping[str, Attacks] | None = None,
        protect: str = "",
        first_to: Sequence[tuple[str, int]] = (),
        limits: Mapping[str, str] = LIMITS,
    ) -> None:
        """Start it.

        Args:
            wan: the networks.
            folder: for the model and the run.
            values: what is done to the values on their way, by receiver.
            control: what is done to what an instance and the coordinator say to each other, by instance.
            protect: the attribute of each coupling.
            first_to: where the first connections for values are led to, instead of to their receiver.
            limits: times that everybody has in the environment.
        """
        values, control = values or {"receiver": Attacks()}, control or {}
        here, there, between = (wan[name] for name in SITES)
        self.folder = folder / "run"
        self.port = next(PORTS)
        self.receivers = {name: (there.address, next(PORTS)) for name in values}
        self.middles: dict[str, InTheMiddle] = {}
        self._parts = ExitStack()
        for name in ("sender", *values):
            variables = dict(limits)
            if name in values:
                at = self.receivers[name]
                led_to = itertools.chain(first_to, itertools.repeat(at))
                self.middles[name] = middle = InTheMiddle(between.login, partial(next, led_to), values)
                variables["XMML_LISTEN"] = f"{at[0]}:{at[1]}"
                variables["XMML_PUBLISH"] = f"{between.address}:{middle.port}"
            if name in control:
                to_coordinator = partial(next, itertools.repeat((here.address, self.port)))
                middle = InTheMiddle(between.login, to_coordinator, control, role=CONTROL)
                self.middles[f"control of {name}"] = middle
                variables["XMML_COORDINATOR"] = f"tcp:{between.address}:{middle.port}?run=${{XMML_COORDINATOR##*=}}"
            write_program(folder / f"{name}.sh", name, variables, there.login.pid if name in values else None)
        for middle in self.middles.values():
            self._parts.callback(middle.close)
        document = folder / "model.xmml"
        document.write_text(model(list(values), protect))
        with here.login.network():
            self.process = subprocess.Popen(
                [XMML_RUN, document, "--listen", f"{here.address}:{self.port}", "-o", self.folder],
                env={**environment(), **limits},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def attacked(self, name: str) -> int:
        """How many connections have been attacked."""
        return self.middles[name].attacked[name.removeprefix("control of ")]

    def ended(self) -> Ended:
        """Wait for its end."""
        with self._parts:
            said = waited_for(self.process)
        return Ended(self.process.returncode, said, self.folder)


class AttackedOverRelays:
    """The same over a relay at `here`, which lies, and an honest one at `there`.

    What stands between the sender and its relay does what a relay can do that was broken into: it sees every byte of
    the streams that it carries, and passes on what it likes.
    """

    def __init__(
        self,
        wan: Wan,
        folder: Path,
        values: Mapping[str, Attacks],
        link_flips_at: int | None = None,
        limits: Mapping[str, str] = LIMITS,
    ) -> None:
        """Start it; of the bytes that the relay at `here` sends on each TCP stream of its link to the other one, the
        one of this number may have a bit changed."""
        here, there, between = (wan[name] for name in SITES)
        self.folder = folder / "run"
        secret = folder / "run.secret"
        secret.touch(mode=0o600)
        secret.write_text("5e" * 32)
        self._parts = ExitStack()
        relays = {}
        for site in (there, here):
            links = [self._way_to(relays["there"].address, between, link_flips_at)] if site is here else []
            relays[site.name] = relay = RelayAt(site, secret, links, folder)
            self._parts.callback(relay.kill)
        relays["here"].await_sites("there")
        self.middle = InTheMiddle(between.login, lambda: (here.address, relayed.PORT), values)
        self._parts.callback(self.middle.close)
        write_program(folder / "sender.sh", "sender", limits, None)
        document = folder / "model.xmml"
        document.write_text(model(list(values), ""))
        words = [XMML_RUN, document, "--relay", f"{between.address}:{self.middle.port}/here", "-o", self.folder]
        words += ["--run", f"{relayed.RUN}={secret}", *(word for name in values for word in ("--by-hand", name))]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        for name in values:
            variables = {
                **limits,
                "XMML_COORDINATOR": f"relay:/here/coordinator?run={relayed.RUN}",
                "XMML_SECRET_FILE": str(secret),
                "XMML_INSTANCE": name,
                "XMML_RELAY": relays["there"].found_at,
            }
            write_program(folder / f"{name}.sh", name, variables, there.login.pid)
        with here.login.network():
            self.process = subprocess.Popen(words, env={**environment(), **limits}, **output)
        known = partial(relays["here"].status)
        wait_until(lambda: "coordinator" in known()["runs"][relayed.RUN]["names"], "the coordinator is there")
        self.by_hand = {name: subprocess.Popen([folder / f"{name}.sh"], **output) for name in values}

    def _way_to(self, address: str, between: PlacedSite, flips_at: int | None) -> str:
        host, _, port = address.partition(":")
        middle = InTheMiddle(between.login, lambda: (host, int(port)), {}, flips_at=flips_at)
        self._parts.callback(middle.close)
        return f"{between.address}:{middle.port}" if flips_at is not None else address

    def ended(self) -> Ended:
        """Wait for its end."""
        with self._parts:
            printed = {name: waited_for(process) for name, process in self.by_hand.items()}
            said = waited_for(self.process)
        return Ended(self.process.returncode, said, self.folder, printed)


def write_program(path: Path, name: str, variables: Mapping[str, str], network: int | None) -> None:
    """Write what starts an instance, in the network of a process."""
    settings = " ".join(f'{variable}="{value}"' for variable, value in variables.items())
    enter = "" if network is None else f"nsenter --net=/proc/{network}/ns/net"
    program = f"{ENDS}/attacked_{'sender' if name == 'sender' else 'receiver'}.py"
    command = f"{shlex.quote(sys.executable)} {shlex.quote(program)} {VALUES}"
    path.write_text(f"#!/bin/sh\nexec env {settings} {enter} {command}\n")
    path.chmod(0o755)


def waited_for(process: subprocess.Popen[str]) -> str:
    """What a process has said when it is over, which it is in time."""
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return said


def model(receivers: Sequence[str], protect: str) -> str:
    """A document: a sender whose values all the receivers get."""
    submodels = "".join(
        f'<submodel id="{name}_"><timescale delta="1 s" total="{VALUES} s"/>'
        f'<param id="told" value="what the model says"/>'
        f'<ports><in id="in" operator="S"/></ports><implementation path="{name}.sh"/></submodel>'
        for name in receivers
    )
    instances = "".join(f'<instance id="{name}" submodel="{name}_" run:order="free"/>' for name in receivers)
    couplings = "".join(f'<coupling from="sender.out" to="{name}.in"{protect}/>' for name in receivers)
    return f"""{HEAD.replace("small", "attacked")}  <definitions>
    <submodel id="sender_">
      <timescale delta="1 s" total="{VALUES} s"/>
      <ports><out id="out" operator="Oi"/></ports>
      <implementation path="sender.sh"/>
    </submodel>
    {submodels}
  </definitions>
  <topology><instance id="sender" submodel="sender_" init="yes" run:order="free"/>{instances}{couplings}</topology>
</model>
"""


ONCE = {
    **{name: Attacks(attack) for name, attack in {**ON_RECORDS, **CLOSED}.items()},
    **ON_HANDSHAKE,
}


@pytest.fixture(scope="module", params=["tcp", "relay"])
def attacked_once(request: pytest.FixtureRequest, wan: Wan, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run in which everything is done once, to one conduit each."""
    values = ONCE | {f"exchanged{end}": Attacks(attack) for end, attack in enumerate(Exchange().attacks)}
    folder = tmp_path_factory.mktemp("once")
    if request.param == "relay":
        return AttackedOverRelays(wan, folder, values).ended()
    run = Attacked(wan, folder, values)
    ended = run.ended()
    assert all(run.attacked(name) == 1 for name in values)
    return ended


@pytest.mark.parametrize("name", [*ON_RECORDS, "exchanged0", "exchanged1"])
def test_values_that_are_tampered_with_are_sent_again_and_people_are_told(attacked_once: Ended, name: str) -> None:
    assert attacked_once.status == 0, attacked_once.said
    assert attacked_once.output(name) == RIGHT
    (warning,) = attacked_once.warnings(name)
    assert NOT_WHAT_WAS_SENT in warning


@pytest.mark.parametrize("name", sorted({*ONCE} - {*ON_RECORDS}))
def test_values_whose_connection_is_cut_or_has_its_handshake_changed_go_by_the_next_one(
    attacked_once: Ended, name: str
) -> None:
    assert attacked_once.status == 0, attacked_once.said
    assert attacked_once.output(name) == RIGHT
    assert attacked_once.warnings(name) == []


def test_nothing_is_said_where_everything_passes_as_it_is(wan: Wan, tmp_path: Path) -> None:
    run = Attacked(wan, tmp_path).ended()
    assert run.status == 0, run.said
    assert run.output("receiver") == RIGHT
    assert run.warnings("receiver") == []


def test_without_protection_a_value_that_is_rewritten_is_taken_for_the_truth(wan: Wan, tmp_path: Path) -> None:
    """So the attacks of this file are real ones."""
    run = Attacked(wan, tmp_path, {"receiver": Attacks(attacker.rewritten)}, protect=' run:protect="no"').ended()
    assert run.status == 4
    assert re.search(r"value \d+ is wrong", (run.folder / "instances" / "receiver" / "stderr").read_text())


#: What is done to every connection, and what is said in the end.
NO_PROOF = "its proof is wrong"
IN_CLEAR = "it wants to speak in clear over a network"
NOTHING_PASSED = "every connection broke before a message had arrived"
ALWAYS = {
    "rewritten": (Attacks(partial(attacker.rewritten, struck=1), always=True), NOT_WHAT_WAS_SENT),
    "dropped": (Attacks(partial(attacker.dropped, struck=1), always=True), NOT_WHAT_WAS_SENT),
    "replayed": (Attacks(partial(attacker.replayed, struck=0), always=True), NOT_WHAT_WAS_SENT),
    "ended": (Attacks(partial(attacker.ended, struck=1), always=True), NOTHING_PASSED),
    "unprotected": (Attacks(attacker.unprotected, attacker.unprotected, always=True), NO_PROOF),
    "otherkeys": (Attacks(attacker.other_keys, attacker.other_keys, always=True), NO_PROOF),
}


@pytest.mark.parametrize("name", ALWAYS)
def test_a_run_whose_values_are_never_let_through_fails_and_says_why(wan: Wan, tmp_path: Path, name: str) -> None:
    attacks, why = ALWAYS[name]
    run = Attacked(wan, tmp_path, {"receiver": attacks}, limits=IN_VAIN).ended()
    assert run.status == 4, run.said
    assert why in run.said


@pytest.mark.parametrize("name", ["rewritten", "ended", "unprotected"])
def test_a_run_through_a_relay_that_always_lies_fails_and_says_why(wan: Wan, tmp_path: Path, name: str) -> None:
    attacks, why = ALWAYS[name]
    run = AttackedOverRelays(wan, tmp_path, {"receiver": attacks}, limits=IN_VAIN).ended()
    assert run.status == 4, run.said
    assert why in run.said


def test_values_that_are_changed_on_a_link_of_relays_where_they_pass_beside_tls_are_sent_again(
    wan: Wan, tmp_path: Path
) -> None:
    run = AttackedOverRelays(wan, tmp_path, {"receiver": Attacks()}, link_flips_at=200_000).ended()
    assert run.status == 0, run.said
    assert run.output("receiver") == RIGHT
    assert any(NOT_WHAT_WAS_SENT in warning for warning in run.warnings("receiver"))


def test_values_of_two_runs_that_are_put_in_the_place_of_each_other_are_sent_again(wan: Wan, tmp_path: Path) -> None:
    runs = []
    for number, attack in enumerate(Exchange().attacks):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        runs.append(Attacked(wan, folder, {"receiver": Attacks(attack)}))
    for run in [run.ended() for run in runs]:
        assert run.status == 0, run.said
        assert run.output("receiver") == RIGHT
        (warning,) = run.warnings("receiver")
        assert NOT_WHAT_WAS_SENT in warning


def test_a_sender_that_is_led_to_the_receiver_of_another_run_does_not_send_to_it(wan: Wan, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one = Attacked(wan, tmp_path / "one")
    other = Attacked(wan, tmp_path / "other", first_to=[one.receivers["receiver"]] * 3)
    for run in (one.ended(), other.ended()):
        assert run.status == 0, run.said
        assert run.output("receiver") == RIGHT


def on_control(attack: Callable[..., Iterator[bytes]], always: bool = False) -> dict[str, Attacks]:
    """The same for what an instance says behind the word that joins it, and for the coordinator's answer to that."""
    return {
        "said": Attacks(dialler=partial(attack, struck=1), always=always),
        "heard": Attacks(listener=partial(attack, struck=0), always=always),
    }


#: By receiver, what is done to what it and the coordinator say to each other; and to what the sender is told behind its
#: welcome: where the receivers are.
CONTROL_ONCE = {
    f"{name}{side}": attacks
    for name, attack in {**ON_RECORDS, **CLOSED}.items()
    for side, attacks in on_control(attack).items()
}
CONTROL_ONCE |= ON_HANDSHAKE | {"sender": Attacks(listener=partial(attacker.rewritten, struck=1))}


@pytest.fixture(scope="module")
def control_attacked_once(wan: Wan, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A run in which everything is done once to control connections, to one of each instance."""
    receivers = {name: Attacks() for name in CONTROL_ONCE if name != "sender"}
    run = Attacked(wan, tmp_path_factory.mktemp("control"), receivers, CONTROL_ONCE)
    ended = run.ended()
    assert all(run.attacked(f"control of {name}") == 1 for name in CONTROL_ONCE)
    return ended


@pytest.mark.parametrize("name", [name for name in CONTROL_ONCE if name != "sender"])
def test_what_instance_and_coordinator_say_is_said_again_if_it_is_tampered_with(
    control_attacked_once: Ended, name: str
) -> None:
    assert control_attacked_once.status == 0, control_attacked_once.said
    assert control_attacked_once.output(name) == RIGHT


@pytest.mark.parametrize("name", [*(f"{name}said" for name in ON_RECORDS), "rewrittenheard"])
def test_people_are_told_where_that_is_done(control_attacked_once: Ended, name: str) -> None:
    assert any(NOT_WHAT_WAS_SENT in warning for warning in control_attacked_once.warnings(name))


@pytest.mark.parametrize("name", ON_HANDSHAKE)
def test_people_are_told_of_an_instance_that_joins_though_its_handshake_was_changed(
    control_attacked_once: Ended, name: str
) -> None:
    (warning,) = control_attacked_once.warnings(name)
    assert NO_PROOF in warning or IN_CLEAR in warning
    assert warning.endswith("; joined over a new connection")


NEVER_LET_THROUGH = {
    "rewritten": (on_control(attacker.rewritten, always=True)["said"], NOT_WHAT_WAS_SENT),
    "ended": (on_control(attacker.ended, always=True)["said"], "broke before anything had passed"),
    "unprotected": (Attacks(attacker.unprotected, attacker.unprotected, always=True), IN_CLEAR),
    "otherkeys": (Attacks(attacker.other_keys, attacker.other_keys, always=True), NO_PROOF),
}


@pytest.mark.parametrize("name", NEVER_LET_THROUGH)
def test_a_run_of_which_an_instance_and_the_coordinator_never_get_through_fails_and_says_why(
    wan: Wan, tmp_path: Path, name: str
) -> None:
    attacks, why = NEVER_LET_THROUGH[name]
    run = Attacked(wan, tmp_path, control={"receiver": attacks}, limits=IN_VAIN).ended()
    assert run.status == 4, run.said
    assert why in run.said
