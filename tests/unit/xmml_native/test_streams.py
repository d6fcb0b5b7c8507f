"""What instances that share a process write."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from xmml_native.streams import Output, Reports


def test_a_long_line_is_reported_in_pieces(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    folder = os.open(tmp_path, os.O_RDONLY)
    output = Output("a", {kind: kind for kind in ("stdout", "stderr")}, folder, Reports(writing))
    text = "aé" * 500_000

    def write() -> None:
        output.write("stdout", f"{text}\n".encode())
        output.close()
        os.close(folder)
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    with open(reading) as reports:
        told = reports.readlines()
    thread.join()
    assert max(map(len, told)) < 2**20
    assert "".join(json.loads(report)["text"] for report in told) == text
    assert (tmp_path / "stdout").read_text() == f"{text}\n"
