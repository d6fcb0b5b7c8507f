"""How to copy."""

from __future__ import annotations

from enum import StrEnum

from xmml.late_dataclass import dataclass


class TransferMethod(StrEnum):
    """How the bytes get from one end to the other; the two ends always start and agree over ssh."""

    DIAL = "dial"
    """Over a path that this end dials: the host has to let connections in."""
    DIALLED = "dialled"
    """Over a path that the host dials: this end has to let connections in."""
    SSH = "ssh"
    """Through the ssh connection itself: always possible, but one stream alone."""

    @property
    def words(self) -> str:
        """The way for people."""
        return {
            TransferMethod.DIAL: "dialling the host",
            TransferMethod.DIALLED: "dialled by the host",
            TransferMethod.SSH: "through ssh",
        }[self]


@dataclass(frozen=True)
class Settings:
    """How to copy.

    `ways` are tried in turn; if SSH is one of them, the copy begins there meanwhile. `streams` None: as many as pay.
    `ports`: whoever listens takes the first free one of them, both ends included; (0, 0): any. `address` is where the
    other end is dialled, if not where ssh sees it. `compare`: files of the same size and time are compared by their
    checksums, too. `listing_memory_b`: so much memory here may take what the host lists, with what fails of it. `ssh`
    begins the command line to the host, `remote` is xmml there.
    """

    ways: tuple[TransferMethod, ...] = (TransferMethod.DIAL, TransferMethod.DIALLED, TransferMethod.SSH)
    streams: int | None = None
    ports: tuple[int, int] = (0, 0)
    address: str | None = None
    compare: bool = False
    listing_memory_b: int = 2 << 30
    ssh: tuple[str, ...] = ("ssh",)
    remote: str = "xmml"
