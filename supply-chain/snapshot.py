"""Renew advisories.toml: what RustSec's database says about the crates of Cargo.lock.

usage: snapshot.py FOLDER

FOLDER holds the records of the database in the format of OSV, one JSON file each: the branch `osv` of
https://github.com/rustsec/advisory-db. The day of the snapshot is that of the newest record.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisories import SNAPSHOT
from locks import CARGO_LOCK, crates

HEAD = """\
# What RustSec knew about the crates of Cargo.lock on a day, for machines that do not reach its database (make audit).
# Made by supply-chain/snapshot.py. The second version of a range, if any, is the first that is not affected.
"""


def ranges(events: list[dict[str, str]]) -> Iterator[list[str]]:
    """Yield each range of affected versions; one without an end has one version."""
    first = None
    for event in events:
        if "introduced" in event:
            first = event["introduced"]
        elif first is not None:
            yield [first, event["fixed"]]
            first = None
    if first is not None:
        yield [first]


def about(record: dict[str, Any], names: set[str]) -> Iterator[dict[str, Any]]:
    """Yield what a record says about the crates called so, unless it was withdrawn."""
    for affected in record["affected"] if "withdrawn" not in record else ():
        if affected["package"]["ecosystem"] == "crates.io" and affected["package"]["name"] in names:
            found = [span for each in affected["ranges"] for span in ranges(each["events"])]
            yield {"id": record["id"], "crate": affected["package"]["name"], "affected": found}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    records = [json.loads(path.read_text()) for path in sorted(Path(arguments[0]).rglob("RUSTSEC-*.json"))]
    if not records:
        print(f"there is no RUSTSEC-*.json below {arguments[0]}", file=sys.stderr)
        return 2
    names = {crate.name for crate in crates(CARGO_LOCK.read_text())}
    found = [each for record in records for each in about(record, names)]
    day = max(record["modified"] for record in records)[:10]
    # The strings and lists of JSON are those of TOML.
    listed = "".join(f"    {json.dumps(name)},\n" for name in sorted(names))
    lines = "".join(
        f'    {{ id = "{each["id"]}", crate = "{each["crate"]}", affected = {json.dumps(each["affected"])} }},\n'
        for each in found
    )
    SNAPSHOT.write_text(f"{HEAD}day = {day}\nadvisories = [\n{lines}]\ncrates = [\n{listed}]\n")
    print(f"{SNAPSHOT.name}: {len(found)} advisories of {day} about {len(names)} crates")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
