"""xMML, the language of coupled multiscale models: reading, checking and describing them.

Importing this package loads nothing heavy: a submodel does it, and a thousand of them at a time. What a submodel needs
(`Instance`, `Message`, `Submodel`, `Mapper`) comes from the native binding the first time it is asked for.
"""

from __future__ import annotations

# Type checkers know the name; importing it from typing would take half of a small program's start-up time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from xmml_native import (
        DataTypeError,
        EndedError,
        Error,
        Instance,
        Mapper,
        Message,
        NotInARunError,
        OrderError,
        ParameterError,
        PortError,
        ReceiveTimeoutError,
        RunAborted,
        Submodel,
    )

__all__ = [
    "DataTypeError",
    "EndedError",
    "Error",
    "Instance",
    "Mapper",
    "Message",
    "NotInARunError",
    "OrderError",
    "ParameterError",
    "PortError",
    "ReceiveTimeoutError",
    "RunAborted",
    "Submodel",
    "__version__",
]
__version__ = "0.1.0"

_NATIVE = frozenset(__all__) - {"__version__"}


def __getattr__(name: str) -> Any:
    if name in _NATIVE:
        import xmml_native

        value = getattr(xmml_native, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'xmml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NATIVE})
