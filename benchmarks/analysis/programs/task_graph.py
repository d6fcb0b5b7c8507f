"""task_graph.py MODEL RESULT: unrolls a model into its task graph; writes the time that took, and its size, as JSON."""

import json
import sys
import time
from pathlib import Path

from xmml.analysis.network import network
from xmml.analysis.unrolling import unroll
from xmml.check import check

net = network(check(sys.argv[1]).model_or_raise())
begin, processor_begin = time.monotonic(), time.process_time()
unrolling = unroll(net)
seconds, processor_s = time.monotonic() - begin, time.process_time() - processor_begin
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
graph = unrolling.task_graph
with open(sys.argv[2], "w") as file:
    json.dump(
        {
            "seconds": seconds,
            "processor_s": processor_s,
            "peak_kib": int(status["VmHWM"].split()[0]),
            "nodes": len(graph),
            "edges": graph.edge_count,
        },
        file,
    )
sys.exit(unrolling.truncated)
