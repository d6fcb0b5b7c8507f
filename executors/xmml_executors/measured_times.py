"""What an earlier run measured: how long the programs computed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_outputs import read_events


class NotMeasured(Exception):
    """A folder without the run times of a run; the text says what is missing."""


def runtimes_of_run(folder: Path) -> dict[str, float]:
    """Return by instance how long one of its runs computed [s]: from joining to leaving, without what it waited.

    Of a multiplied instance the mean of its copies. What an instance prepares before its first run counts as well.

    Raises:
        NotMeasured: the folder holds no finished run.
    """
    joined: dict[str, float] = {}
    measured: dict[str, list[float]] = defaultdict(list)
    try:
        for event in read_events(OpenFolder(folder)):
            if event["what"] == "joined":
                joined[event["instance"]] = event["time"]
            elif event["what"] == "left" and event["instance"] in joined and event["runs"]:
                name = event["instance"]
                if "waited_s" not in event:
                    raise NotMeasured(f"{folder} is the run of an older version, which did not measure")
                busy_s = max(0.0, event["time"] - joined[name] - event["waited_s"])
                measured[name.partition("[")[0]].append(busy_s / event["runs"])
    except (FileNotFoundError, NotADirectoryError):
        raise NotMeasured(f"{folder} is not the folder of a run; runs are in runs/<model>-<time>") from None
    if not measured:
        raise NotMeasured(f"no instance of {folder} came to its end")
    return {name: sum(times) / len(times) for name, times in measured.items()}
