"""Handles of ports as values: what they say, in parts and as text."""

from __future__ import annotations

from xmml_native._native import read_handle


class Handle(bytes):
    """A handle of an open in port: bytes that travel in messages, and that ``Instance.open`` takes.

    What arrives in a message are plain bytes; ``Handle(data)`` reads them. Whether they are genuine is decided where
    they are opened.
    """

    instance: str
    port: str
    methods: tuple[str, ...]

    def __new__(cls, data: bytes) -> Handle:
        """Read a handle.

        Raises:
            Error: the bytes are no handle.
        """
        handle = super().__new__(cls, data)
        handle._text, handle.instance, handle.port, methods = read_handle(data)
        handle.methods = tuple(methods)
        return handle

    _text: str

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{self._text}>"
