"""An object of an archive."""

from __future__ import annotations

from typing import Any

from xmml_native._native import deserialize
from xmml_native.archive_segments import MappedSegments, segment_name
from xmml_native.errors import ArchiveError


class ArchivedObject:
    """An object of an archive: `object["step"]` is an attribute, `object.data` the payload.

    Attributes:
        number: which object of the archive it is, from 1.
        attributes: those that it has, by name; `sys.t` and the others last.
    """

    def __init__(
        self, segments: MappedSegments, number: int, place: tuple[int, int, int, int], attributes: dict[str, Any]
    ) -> None:
        self.number = number
        self.attributes = attributes
        self._segments, self._place = segments, place

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or `default` if the object does not have it."""
        return self.attributes.get(name, default)

    @property
    def data(self) -> Any:
        """The payload; arrays are shown where they lie in the file, for reading.

        Raises:
            ArchiveError: it is not there, or no payload.
        """
        segment, first, length, _ = self._place
        try:
            return deserialize(self._segments.payload(segment, first, length))
        except ValueError as error:
            raise ArchiveError(f"{self._segments.folder}: object {self.number} cannot be read: {error}") from None

    def problem(self) -> str | None:
        """Return what is wrong with the payload; `None`: it is what was written."""
        segment, first, _, _ = self._place
        try:
            is_whole = self._segments.is_as_written(*self._place)
        except ArchiveError as error:
            return f"object {self.number}: {error}"
        return (
            None
            if is_whole
            else f"object {self.number}: its payload was changed ({segment_name(segment)}, byte {first})"
        )

    def __repr__(self) -> str:
        shown = " ".join(f"{name}={value}" for name, value in self.attributes.items() if not name.startswith("sys."))
        return f"<object {self.number} {shown}>"
