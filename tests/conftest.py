"""What every test relies on."""

import ctypes
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from measured import pytest_terminal_summary as pytest_terminal_summary

PR_SET_CHILD_SUBREAPER = 36
#: Tests in all other folders start and compile programs, which beside load takes many times what it takes alone.
QUICK = ("unit", "structure", "testbed")
LONG_LIMIT_S = 900

# Started in the background by a shell, we would hand an ignored SIGINT on to every program: Ctrl-C could not be tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that start programs more time than the default of pyproject.toml."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder not in QUICK and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_LIMIT_S))


@pytest.fixture(autouse=True, scope="session")
def keys_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs of tests are sealed by a key that nobody else has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def orphans_go_their_way():
    """A test that plays `xmml-run` in this process has orphans given to it. They are not to come here for ever: nobody
    waits for them, and test beds would take what is left of their processes for processes."""
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
