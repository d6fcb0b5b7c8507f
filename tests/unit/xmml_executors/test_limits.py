"""What people are told when the system gives no more of something."""

import errno

import pytest
from xmml_executors.limits import explained, is_reached


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.EMFILE, "ulimit -n"), (errno.ENOMEM, "ulimit -v"), (errno.EAGAIN, "ulimit -u"), (errno.ENOSPC, "-o")],
)
def test_a_limit_is_named_with_what_raises_it(number: int, advice: str) -> None:
    error = OSError(number, "the system's words")
    assert is_reached(error)
    assert explained(error).startswith("the system's words; ")
    assert advice in explained(error)


def test_other_errors_keep_the_words_of_the_system() -> None:
    error = OSError(errno.EACCES, "Permission denied")
    assert not is_reached(error)
    assert explained(error) == "Permission denied"


def test_memory_that_python_could_not_get_is_a_limit_too() -> None:
    assert "ulimit -v" in explained(MemoryError())
