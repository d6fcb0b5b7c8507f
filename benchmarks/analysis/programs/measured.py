"""measured.py RESULT COMMAND...: runs a command and writes its time and the most memory it had, as JSON."""

import json
import resource
import subprocess
import sys
import time

begin = time.monotonic()
status = subprocess.run(sys.argv[2:], check=False).returncode
seconds = time.monotonic() - begin
peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
with open(sys.argv[1], "w") as file:
    json.dump({"seconds": seconds, "peak_kib": peak_kib}, file)
sys.exit(status)
