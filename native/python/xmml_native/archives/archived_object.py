"""An object of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from xmml_native._native import deserialize
from xmml_native.archives.segments import MappedSegments, segment_name
from xmml_native.errors import ArchiveError


@dataclass(frozen=True)
class Problem:
    """What is wrong with an object of an archive.

    Attributes:
        number: which object it is.
        kind: its payload was `changed` since it was written, or it is `unreadable`: the payload or its row in the
            index cannot be read.
        text: the same for people, with the object and the place.
    """

    number: int
    kind: Literal["changed", "unreadable"]
    text: str


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

    def problem(self) -> Problem | None:
        """Return what is wrong with the payload; `None`: it is what was written."""
        segment, first, _, _ = self._place
        try:
            if self._segments.is_as_written(*self._place):
                return None
        except ArchiveError as error:
            return Problem(self.number, "unreadable", f"object {self.number} cannot be read: {error}")
        where = f"{segment_name(segment)}, byte {first}"
        return Problem(self.number, "changed", f"object {self.number}: its payload was changed ({where})")

    def __repr__(self) -> str:
        shown = " ".join(f"{name}={value}" for name, value in self.attributes.items() if not name.startswith("sys."))
        return f"<object {self.number} {shown}>"
