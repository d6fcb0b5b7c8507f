#!/opt/xmml/bin/python
"""Stands in for OpenPBS where it is not installed: qsub, qstat, qdel, qrls, pbsnodes, pbs_tmrsh and Torque's pbsdsh, by
the name it is called by.

Its answers have the form of those that a real OpenPBS gave (tests/data/schedulers/pbs). Jobs really run, on this
machine, as soon as they may: with hold, begin, time limit, output files and the signals of a real one. A job of
several nodes has this machine by several names.

If there is a file `~/.fake-pbs/torque`, it stands in for Torque, which takes and gives what Torque's manual says: other
resources, and other words for the status.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

STATE = Path.home() / ".fake-pbs"
SERVER = os.uname().nodename
USER_COMMANDS = ("qsub", "qstat", "qdel", "qrls", "pbsnodes", "pbs_tmrsh", "pbsdsh")
COMMANDS = (*USER_COMMANDS, "mom")
QUEUES = ("workq",)
NODES = (SERVER, "localhost")
#: A job that is told to end has so long; the default of OpenPBS.
KILL_AFTER_S = 10


def main():
    STATE.mkdir(exist_ok=True)
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    if name == "mom":
        return mom(Path(words[0]))
    return globals()[name](words)


def read(path):
    return json.loads(path.read_text())


def change(path, **facts):
    with (STATE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # qdel and mom may change a job at once
        job = read(path)
        job.update(facts, mtime=time.asctime())
        part = path.with_suffix(".part")
        part.write_text(json.dumps(job))
        part.replace(path)


def jobs():
    return sorted(STATE.glob("*.job"), key=lambda path: int(path.stem))


def find(id):
    path = STATE / f"{id.partition('.')[0]}.job"
    return path if path.exists() else None


def is_torque():
    return (STATE / "torque").exists()


def refuse(text, status):
    print(text, file=sys.stderr)
    return status


def qsub(words):
    script = Path(words[-1])
    text = script.read_text()
    options = [
        option for line in re.findall(r"^#PBS (.*)$", text, re.MULTILINE) for option in re.split(r" (?=-)", line)
    ]
    while len(words) > 2:
        options.append(f"{words.pop(0)} {words.pop(0)}")
    given, resources = {}, {}
    for option in options:
        key, _, value = option.partition(" ")
        if key == "-l":
            resources.update([value.split("=", 1)])
        else:
            given[key] = value.strip('"')
    if is_torque() and "select" in resources:
        return refuse("qsub: illegal -l value", 160)
    if given.get("-q", "workq") not in QUEUES:
        return refuse("qsub: Unknown queue", 170)
    walltime = resources.get("walltime", "1:00:00")
    longest = {**facts_of("server"), **facts_of("queue")}.get("resources_max.walltime")
    if longest and in_seconds(walltime) > in_seconds(longest):
        return refuse("qsub: Job violates queue and/or server resource limits", 188)
    begin = datetime.strptime(given["-a"], "%Y%m%d%H%M.%S").timestamp() if "-a" in given else 0
    state = "H" if "-h" in given else "W" if begin > time.time() else "Q"
    job = {
        "Job_Name": given.get("-N", script.name),
        "job_state": state,
        "Resource_List": resources,
        "ctime": time.asctime(),
        "fake": {
            "begin": begin,
            "walltime": in_seconds(walltime),
            "script": text,
            "out": given["-o"],
            "err": given["-e"],
            "held": "-h" in given,
            "deleted": False,
        },
    }
    with (STATE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two that are submitted at once get two numbers
        number = 1 + max((int(path.stem) for path in jobs()), default=0)
        path = STATE / f"{number}.job"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(job))
        part.replace(path)
    link = Path(sys.argv[0]).with_name("mom")
    subprocess.Popen([link, path], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
    print(f"{number}.{SERVER}")
    return 0


def mom(path):
    """Look after one job from its submission to its end."""
    while True:
        fake = read(path)["fake"]
        if fake["deleted"]:
            return change(path, job_state="F", Exit_status=271, comment=f"Job terminated by {os.environ['USER']}")
        if not fake["held"] and time.time() >= fake["begin"]:
            break
        time.sleep(0.05)
    text = path.with_suffix(".script")
    commands = Path(sys.argv[0]).parent
    text.write_text(f"export PATH={commands}:$PATH\n{fake['script']}")
    with open(fake["out"], "wb") as out, open(fake["err"], "wb") as err:
        nodes = path.with_suffix(".nodes")
        resources = read(path)["Resource_List"]
        has, cores = NODES[: nodes_of(resources)], cores_of(resources)
        nodes.write_text("".join(f"{node}\n" * (cores if is_torque() else 1) for node in has))
        environment = {**os.environ, "PBS_JOBID": f"{path.stem}.{SERVER}", "PBS_NODEFILE": str(nodes)}
        environment |= {"PBS_NUM_PPN": str(cores)} if is_torque() else {"NCPUS": str(cores)}
        process = subprocess.Popen(
            ["/bin/bash", "-l", text], stdin=-3, stdout=out, stderr=err, start_new_session=True, env=environment
        )
    exec_host = "+".join(f"{node}/0*{cores}" for node in has)
    exec_vnode = "+".join(f"({node}:ncpus={cores})" for node in has)
    facts = {"exec_host": exec_host} if is_torque() else {"exec_host": exec_host, "exec_vnode": exec_vnode}
    change(path, job_state="R", stime=time.asctime(), **facts)
    began, told, why = time.time(), None, None
    while process.poll() is None:
        fake = read(path)["fake"]
        if told is None and (fake["deleted"] or time.time() > began + fake["walltime"]):
            why = "terminated" if fake["deleted"] else "exceeded resource walltime"
            told = time.time()
            os.killpg(process.pid, signal.SIGTERM)
            change(path, job_state="E")
        if told is not None and time.time() > told + KILL_AFTER_S:
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    text.unlink()
    nodes.unlink()
    status = {"terminated": 271, "exceeded resource walltime": -29, None: process.returncode}[why]
    word = why or ("failed" if status else "finished")
    by = f" by {os.environ['USER']}@{SERVER}" if word == "terminated" else ""
    return change(path, job_state="F", Exit_status=status, comment=f"Job run on ({SERVER}:ncpus=1) and {word}{by}")


def in_seconds(text):
    hours, minutes, seconds = map(int, text.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def facts_of(name):
    """Return what somebody has said of the queue or the server: lines `resources_max.walltime = 00:10:00` in
    `~/.fake-pbs/queue` or `~/.fake-pbs/server`. The server's limits hold for a queue that has none of its own."""
    file = STATE / name
    return dict(line.split(" = ") for line in file.read_text().splitlines()) if file.exists() else {}


def in_lines(facts):
    return [f"    {key} = {value}" for key, value in facts.items()]


def nodes_of(resources):
    """Return how many nodes a job asks for, in either dialect."""
    return int(re.match(r"\d+", resources.get("select", resources.get("nodes", "1")))[0])


def cores_of(resources):
    """Return how many cores a job asks for on each node, in either dialect."""
    found = re.search(r"(?:ncpus|ppn)=(\d+)", resources.get("select", resources.get("nodes", "")))
    return int(found[1]) if found else 1


def pbs_tmrsh(words):
    """Run a command on a node of the job: as PBS does it, with hardly any environment."""
    assert words[0] in NODES
    return subprocess.call(words[1:], env={"HOME": os.environ["HOME"], "PATH": os.defpath})


def pbsdsh(words):
    assert words[:2] == ["-o", "-h"]
    return pbs_tmrsh(words[2:])


def qstat(words):
    if words == ["--version"]:
        return print("Version: 6.1.3" if is_torque() else "pbs_version = 23.06.06") or 0
    if "-B" in words:
        facts = {"server_state": "Active", "default_queue": QUEUES[0], **facts_of("server")}
        return print(f"Server: {SERVER}", *in_lines(facts), "", sep="\n") or 0
    if "-Q" in words:
        facts = {"queue_type": "Execution", **facts_of("queue")}
        return print(f"Queue: {QUEUES[0]}", *in_lines(facts), "", sep="\n") or 0
    if is_torque() and "-x" in words:
        return refuse("its -x asks for XML", 2)
    asked = [word for word in words if word[0].isdigit()]
    found = {id: find(id) for id in asked} if asked else {path.stem: path for path in jobs()}
    shown = {f"{path.stem}.{SERVER}": read(path) for path in found.values() if path}
    for job in shown.values():
        del job["fake"]
    unknown = [id for id, path in found.items() if path is None]
    for id, job in shown.items():
        print(f"Job Id: {id}", *lines_of(job), "", sep="\n")
    for id in unknown:
        print(f"qstat: Unknown Job Id {id}", file=sys.stderr)
    return 153 if unknown else 0


def lines_of(job):
    """Return the attributes of a job; for Torque one that is over is complete, and says so by a status."""
    facts = {key: value for key, value in job.items() if key != "Resource_List"}
    facts |= {f"Resource_List.{key}": value for key, value in job["Resource_List"].items()}
    if is_torque():
        facts.pop("comment", None)
        if job["job_state"] == "F":
            status = facts.pop("Exit_status")
            facts |= {"job_state": "C", "exit_status": -11 if status == -29 else status}
    return in_lines(facts)


def qdel(words):
    path = find(words[0])
    if path is None:
        return refuse(f"qdel: Unknown Job Id {words[0]}", 153)
    change(path, fake={**read(path)["fake"], "deleted": True})
    return 0


def qrls(words):
    for id in words:
        change(find(id), fake={**read(find(id))["fake"], "held": False}, job_state="Q")
    return 0


def pbsnodes(words):
    node = {"state": "free", "resources_available": {"ncpus": 4}, "resources_assigned": {}}
    print(json.dumps({"nodes": {SERVER: node}}))
    return 0


if __name__ == "__main__":
    sys.exit(main() or 0)
