"""What the commands say when the system gives them no more of something."""

import errno
from collections.abc import Sequence

import pytest
from xmml_executors.outcome import ExitStatus
from xmml_run.main import _guarded


@pytest.mark.parametrize(
    ("reached", "advice"),
    [(OSError(errno.EMFILE, "Too many open files"), "ulimit -n"), (MemoryError(), "ulimit -v")],
)
def test_a_limit_ends_a_command_with_one_line_that_says_what_raises_it(
    reached: Exception, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(arguments: Sequence[str]) -> int:
        raise reached

    assert _guarded("xmml-run", command, []) == ExitStatus.SITE_FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("xmml-run: ")
    assert advice in line


def test_an_error_that_is_no_limit_is_not_hidden() -> None:
    def command(arguments: Sequence[str]) -> int:
        raise OSError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError):
        _guarded("xmml-run", command, [])
