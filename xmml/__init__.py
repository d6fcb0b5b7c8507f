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
        Group,
        Handle,
        InPort,
        Instance,
        Mapper,
        Message,
        NotInARunError,
        Object,
        OrderError,
        OutPort,
        ParameterError,
        PortError,
        ReceiveTimeoutError,
        RunAborted,
        Submodel,
    )
    from xmml_native.archives.archive import Archive, ArchivedObject, ArchiveError, open_archive

    from xmml.notebook import load
    from xmml.path import Path
    from xmml.problems import ModelError

__all__ = [
    "Archive",
    "ArchiveError",
    "ArchivedObject",
    "DataTypeError",
    "EndedError",
    "Error",
    "Group",
    "Handle",
    "InPort",
    "Instance",
    "Mapper",
    "Message",
    "ModelError",
    "NotInARunError",
    "Object",
    "OrderError",
    "OutPort",
    "ParameterError",
    "Path",
    "PortError",
    "ReceiveTimeoutError",
    "RunAborted",
    "Submodel",
    "__version__",
    "load",
    "open_archive",
]
__version__ = "0.1.0"

#: What models are worked with, and where it is: a submodel needs none of it.
_LANGUAGE = {
    "Archive": "xmml_native.archives.archive",
    "ArchiveError": "xmml_native.archives.archive",
    "ArchivedObject": "xmml_native.archives.archive",
    "ModelError": "xmml.problems",
    "Path": "xmml.path",
    "load": "xmml.notebook",
    "open_archive": "xmml_native.archives.archive",
}
_NATIVE = frozenset(__all__) - {"__version__"} - frozenset(_LANGUAGE)


def __getattr__(name: str) -> Any:
    if name in _NATIVE:
        import xmml_native

        value = getattr(xmml_native, name)
        globals()[name] = value
        return value
    if name in _LANGUAGE:
        import importlib

        value = getattr(importlib.import_module(_LANGUAGE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'xmml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NATIVE, *_LANGUAGE})
