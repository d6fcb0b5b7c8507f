"""The terminal of class `archive`: a sink that keeps objects, or a source that puts what was kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from xmml_native.archives.archive import Archive
from xmml_native.archives.writer import ArchiveWriter
from xmml_native.errors import Error, ReceiveTimeoutError

if TYPE_CHECKING:
    from xmml_native.instance import Instance


def run(me: Instance, port: str, direction: str) -> None:
    """Put the objects of an archive on an out port, or keep those that come to an in port."""
    if direction == "out":
        put_all(me, port)
        return
    with ArchiveWriter(me.param("file", default=f"{me.name}.archive")) as archive:
        keep_all(me, port, archive)


def keep_all(me: Instance, port: str, archive: ArchiveWriter) -> int:
    """Write every object that is chosen for ``port`` into an archive, until all its writers have left; return how many
    that were."""
    count = 0
    for conduit in me.spec["conduits"]:
        archive.declare(conduit["pool"]["attributes"])
    while True:
        try:
            found = me.take(port, timeout=archive.due_in())
        except ReceiveTimeoutError:
            archive.commit()
            continue
        if found is None:
            return count
        count += 1
        attributes = found.attributes
        archive.append(
            found.data,
            {name: value for name, value in attributes.items() if not name.startswith("sys.")},
            {name: value for name, value in attributes.items() if name.startswith("sys.")},
        )
        if not attributes.get("sys.follow") and archive.due_in() == 0:
            archive.commit()


def put_all(me: Instance, port: str) -> None:
    """Put the objects of an archive, with the attributes that were declared for them."""
    path = me.param("file", default="")
    with Archive(os.path.join(os.environ.get("XMML_MODEL_DIR", ""), path)) as archive:
        try:
            chosen = archive.select(me.param("select", default=""))
        except ValueError as error:
            raise Error(f'{me.name}: the parameter "select" is no selector of {path}: {error.args[0]}') from None
        for found in chosen:
            own = {name: value for name, value in found.attributes.items() if not name.startswith("sys.")}
            me.put(port, found.data, **own)
