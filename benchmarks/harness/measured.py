"""measured.py RESULT COMMAND...: runs a command and writes its time and the most memory it had, as JSON."""

import json
import resource
import subprocess
import sys
import time

begin = time.monotonic()
status = subprocess.run(sys.argv[2:], check=False).returncode
seconds = time.monotonic() - begin
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
told = {"seconds": seconds, "processor_s": usage.ru_utime + usage.ru_stime, "peak_kib": usage.ru_maxrss}
with open(sys.argv[1], "w") as file:
    json.dump(told, file)
sys.exit(status)
