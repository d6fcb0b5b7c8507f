"""What every test relies on."""

import ctypes
import signal

import pytest
from measured import pytest_terminal_summary as pytest_terminal_summary

PR_SET_CHILD_SUBREAPER = 36

# Started in the background by a shell, we would hand an ignored SIGINT on to every program: Ctrl-C could not be tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def orphans_go_their_way():
    """A test that plays `xmml-run` in this process has orphans given to it. They are not to come here for ever: nobody
    waits for them, and test beds would take what is left of their processes for processes."""
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
