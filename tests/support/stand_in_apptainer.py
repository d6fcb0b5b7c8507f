"""Stands in for Apptainer where it is not installed: starts a program of an "image" as `apptainer exec` does.

The image is a JSON file that names what it contains: folders of this machine, and its search path of programs. Of all
other files the program sees what `--bind` and `--mount` name, and what Apptainer shows by itself: /proc, /sys, /dev. It
has the namespaces of processes, IPC and network that it is started in, if no option says otherwise, and of the
environment all but PATH and LD_LIBRARY_PATH. Apptainer shows more by default (the home folder, /tmp), so what runs here
runs there, too. That takes root; for others it changes nothing but the environment.
"""

import csv
import json
import os
import sys

#: What Apptainer shows by itself, whatever the image.
SHOWN = ("/proc", "/sys", "/dev")
FLAGS = ("--nv", "--rocm")
#: Options that mean namespaces of its own, and what `unshare` calls these.
NAMESPACES = {
    "--userns": ["--user", "--map-current-user"],
    "--pid": ["--pid", "--fork"],
    "--ipc": ["--ipc"],
    "--contain": [],
}


def main():
    words = sys.argv[1:]
    if words == ["--version"]:
        print("apptainer version 1.3.0")
        return
    if words.pop(0) != "exec":
        sys.exit("the stand-in for apptainer knows only exec")
    binds, work, own = [], os.getcwd(), []
    while words[0].startswith("-"):
        option = words.pop(0)
        if option == "--bind":
            binds += words.pop(0).split(",")
        elif option == "--mount":
            binds.append(dict(field.split("=", 1) for field in next(csv.reader([words.pop(0)])))["source"])
        elif option in NAMESPACES:
            own += NAMESPACES[option]
        elif option == "--pwd":
            work = words.pop(0)
        elif option not in FLAGS:
            sys.exit(f'Error for command "exec": unknown flag: {option}')
    image = words.pop(0)
    if not os.path.exists(image):
        sys.exit(f"FATAL:   could not open image {image}: no such file or directory")
    with open(image) as text:
        described = json.load(text)
    if os.geteuid() == 0 and "XMML_STAND_IN_ROOT" not in os.environ:
        os.environ["XMML_STAND_IN_ROOT"] = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "root")
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", *own, sys.executable, *sys.argv])
    if root := os.environ.pop("XMML_STAND_IN_ROOT", ""):
        mount("-t", "tmpfs", "none", root)
        for folder in (*described["contents"], *SHOWN, *binds):
            inside = root + os.path.abspath(folder)
            os.makedirs(inside, exist_ok=True)
            mount("--rbind", folder, inside)
        os.chroot(root)
    os.chdir(work)
    os.environ["PATH"] = described["path"]
    os.environ["APPTAINER_CONTAINER"] = image
    os.environ.pop("LD_LIBRARY_PATH", None)
    os.execvp(words[0], words)


def mount(*words):
    if os.spawnvp(os.P_WAIT, "mount", ["mount", *words]) != 0:
        sys.exit(f"mount {' '.join(words)} failed")


if __name__ == "__main__":
    main()
