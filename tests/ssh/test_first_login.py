"""The first login to a machine asks the person at the terminal, and keeps nothing but a confirmed host key."""

import asyncio
import tempfile
import threading
from pathlib import Path

import asyncssh
import pytest
from sshd import running_sshd
from waiting import LIMIT_S
from xmml_sites.ssh import AuthenticationFailed, HostKeyChanged, HostKeyUnknown, SiteUnreachable
from xmml_sites.ssh.destination import Destination
from xmml_sites.ssh.first_login import first_contact


class Person:
    """Somebody at the terminal; remembers what was asked."""

    def __init__(self, agrees=False, answers=()):
        self.agrees = agrees
        self.answers = list(answers)
        self.confirmed = []
        self.questions = []

    def confirm(self, question):
        self.confirmed.append(question)
        return self.agrees

    def answer(self, question, is_shown):
        self.questions.append((question, is_shown))
        return self.answers.pop(0)

    def meets(self, name, config):
        return first_contact("alpha", Destination(name), self.confirm, self.answer, [config])


@pytest.fixture
def server(tmp_path):
    with running_sshd(tmp_path / "sshd") as server:
        yield server


def test_an_unknown_key_is_shown_with_its_fingerprint_and_written_down_when_confirmed(server):
    server.forget_host_key()
    person = Person(agrees=True)
    contact = person.meets(server.name, server.config)
    assert contact.is_new
    assert not contact.asked
    assert contact.fingerprint.startswith("ssh-ed25519 SHA256:")
    assert contact.fingerprint in person.confirmed[0]
    assert not Person().meets(server.name, server.config).is_new


def test_a_key_that_is_not_confirmed_is_not_written_down(server):
    server.forget_host_key()
    with pytest.raises(HostKeyUnknown):
        Person(agrees=False).meets(server.name, server.config)
    assert server.known_hosts.read_text() == ""


def test_a_changed_key_cannot_be_confirmed(server):
    server.change_host_key()
    before = server.known_hosts.read_text()
    person = Person(agrees=True)
    with pytest.raises(HostKeyChanged):
        person.meets(server.name, server.config)
    assert person.confirmed == []
    assert server.known_hosts.read_text() == before


def test_the_keys_that_are_known_to_everybody_on_this_machine_count(server):
    everybody = server.folder / "everybody"
    everybody.write_text(server.known_hosts.read_text())
    server.config.write_text(server.config.read_text().replace("File /dev/null", f"File {everybody}"))
    server.forget_host_key()
    person = Person(agrees=True)
    assert not person.meets(server.name, server.config).is_new
    server.change_host_key()
    with pytest.raises(HostKeyChanged):
        person.meets(server.name, server.config)
    assert person.confirmed == []
    assert server.known_hosts.read_text() == ""


def test_a_server_that_lets_nobody_in_and_one_that_is_down_are_told_apart(server):
    server.refuse_key()
    with pytest.raises(AuthenticationFailed):
        Person().meets(server.name, server.config)
    server.stop_listening()
    with pytest.raises(SiteUnreachable):
        Person().meets(server.name, server.config)


def test_the_configuration_leads_through_another_host(server):
    text = server.config.read_text()
    jump = text.replace(f"Host {server.name}\n", "Host gate\n")
    server.config.write_text(text + "  ProxyJump gate\n" + jump)
    assert not Person().meets(server.name, server.config).asked
    assert server.opened() == 2


def test_the_way_leads_through_several_hosts_with_a_user_and_a_port_of_their_own(server):
    text = server.config.read_text()
    user, port = (line.split()[1] for key in ("User ", "Port ") for line in text.splitlines() if key in line)
    gates = text.replace(f"Host {server.name}\n", "Host first second\n")
    second = "\n".join(line for line in gates.splitlines() if "User " not in line and "Port " not in line)
    first = "Host first\n" + f"  User {user}\n  Port {port}\n"
    server.config.write_text(f"{text}  ProxyJump first,ssh://{user}@second:{port}\n{first}{second}\n")
    assert not Person().meets(server.name, server.config).asked
    assert server.opened() == 3


def test_a_way_that_cannot_be_read_is_told(server):
    server.config.write_text(server.config.read_text() + "  ProxyJump gate:port\n")
    with pytest.raises(SiteUnreachable, match=r"ProxyJump.*'gate:port' is not a host"):
        Person().meets(server.name, server.config)


class _AsksForACode(asyncssh.SSHServer):
    def begin_auth(self, username):
        return True

    def kbdint_auth_supported(self):
        return True

    def get_kbdint_challenge(self, username, lang, submethods):
        return "Two factors", "", "", [("Code: ", False)]

    def validate_kbdint_response(self, username, responses):
        return responses == ["123456"]


@pytest.fixture
def asking_server():
    """A server that asks for a code; gives a client configuration."""
    with tempfile.TemporaryDirectory(prefix="xmml-test-", dir="/tmp") as folder:
        yield from ask_for_a_code(Path(folder))


def ask_for_a_code(folder):
    key = asyncssh.generate_private_key("ssh-ed25519")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start():
        return await asyncssh.create_server(_AsksForACode, "127.0.0.1", 0, server_host_keys=[key])

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(LIMIT_S)
    port = server.sockets[0].getsockname()[1]
    known = folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {key.export_public_key().decode()}")
    config = folder / "config"
    config.write_text(
        f"Host site\n  HostName 127.0.0.1\n  Port {port}\n  UserKnownHostsFile {known}\n"
        f"  IdentitiesOnly yes\n  IdentityFile {folder}/none\n"
    )
    yield config

    async def stop():
        server.close()
        await server.wait_closed()

    asyncio.run_coroutine_threadsafe(stop(), loop).result(LIMIT_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT_S)
    loop.close()


def test_questions_of_the_server_are_put_to_the_person_and_hidden_answers_stay_hidden(asking_server):
    person = Person(answers=["123456"])
    assert person.meets("site", asking_server).asked
    assert person.questions == [("Two factors\nCode: ", False)]


def test_a_wrong_answer_does_not_let_in(asking_server):
    with pytest.raises(AuthenticationFailed):
        Person(answers=["0"] * 5).meets("site", asking_server)
