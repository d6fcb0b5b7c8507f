"""Files of sites: one with every key, and the mistakes that newcomers make."""

from __future__ import annotations

#: Every key there is.
FULL = """\
[site.alpha]
ssh = "me@alpha.example.org:2222"
transport = "openssh"
scheduler = "slurm"
partition = "batch"
account = "abc"
qos = "normal"
reservation = "course"
can_reserve = true
walltime = "2 h"
options = ["--constraint=fast"]
modules = ["openmpi"]
setup = ["source /opt/x/env.sh"]
env = { OMP_NUM_THREADS = "1" }
nodes = 2
cores = 4
memory = "16 GiB"
gpus = 1
speed = 1.5
mpi = "aprun -n {ranks}"
container = "apptainer exec --rocm {image}"
work = "/scratch/me"
python = "/opt/xmml/bin/python"
software = ["openfoam"]
queue_wait = "10 min"
cost = 0.02
[site.alpha.relay]
host = "login"
port = 40001
listen = "login.alpha.org:40001"
through_ssh = false
[site.beta]
ssh = "beta"
scheduler = "pbs"
cores = 16
relay = false
[[link]]
between = ["alpha", "beta"]
latency = "10 ms"
bandwidth = "1 Gbit/s"
streams = 8
methods = ["tcp", "relay"]
encrypt = false
"""

SITE = '[site.a]\nssh = "a"\ncores = 4\n'
TWO = SITE + '[site.b]\nssh = "b"\ncores = 4\n'

#: What newcomers write; what the answer says (place and code, and words of message and help).
MISTAKES = [
    (
        '[site.a]\nmpi = "srun \'{ranks}"\n',
        "2:7: error[S03]",
        "cannot be split into words",
        "close what is quoted",
    ),
    ("", "1:1: error[S04]", "no site is described", "[site.NAME]"),
    ("[site]\n", "1:2: error[S04]", "no site is described", "[site.NAME]"),
    ("[[site]]\ncores = 4\n", "1:3: error[S03]", "a site needs a name", "[site.NAME]"),
    ("[sites.a]\n", "1:2: error[S02]", '"sites" is not known', "without s"),
    ("cores = 4\n[site.a]\n", "1:1: error[S02]", '"cores" is not known', "under a line [site.NAME]"),
    ("[site]\ncores = 4\n", "2:1: error[S03]", "outside of a site", "[site.NAME]"),
    ('[site."a b"]\n', "1:7: error[S03]", "cannot name a site", "letter"),
    ("[site.a]\nssh = a\n", "2:7: error[S01]", "this is not TOML: invalid value", 'ssh = "alpha"'),
    ('[site.a]\nssh = "a\n', "2:9: error[S01]", "illegal character", "quote"),
    ("[site.a]\n[site.a]\n", "2:8: error[S01]", "cannot declare", "join the two"),
    (SITE + "cores = 5\n", "4:10: error[S01]", "cannot overwrite a value", "keep one"),
    (SITE + "nodes four\n", "4:7: error[S01]", "expected '=' after a key", "KEY = VALUE"),
    (SITE + 'setup = ["x"\n', "4:13: error[S01]", "unclosed array", "]"),
    (SITE + 'queue = "long"\n', "4:1: error[S02]", 'no key "queue"', 'did you mean "partition"?'),
    (SITE + 'password = "x"\n', "4:1: error[S02]", 'no key "password"', "no password is ever stored"),
    (SITE + 'listen = "a:1"\n', "4:10: error[S03]", '"a:1" is no name of a network device', "[site.NAME.relay]"),
    (SITE + 'nodes = "2"\n', "4:9: error[S03]", "expected a whole number of at least 1", "write 2 without quotes"),
    (SITE + "nodes = 0\n", "4:9: error[S03]", "at least 1, found 0", ""),
    (SITE + "nodes = 1.5\n", "4:9: error[S03]", "found a number", ""),
    (SITE + "memory = 16\n", "4:10: error[S03]", "a quantity with a unit", '"16 GiB"'),
    (SITE + 'memory = "16"\n', "4:10: error[S03]", "has no unit", '"16 GiB"'),
    (SITE + 'memory = "16 G"\n', "4:10: error[S03]", '"G" in "16 G" is not a unit', 'write "16 GB"'),
    (SITE + 'memory = "2 hr"\n', "4:10: error[S03]", "a quantity of time", '"16 GiB"'),
    (SITE + 'memory = "-1 GB"\n', "4:10: error[S03]", "not above zero", ""),
    (SITE + 'walltime = "2:30"\n', "4:12: error[S03]", "two ways", "hours:minutes:seconds"),
    (SITE + "walltime = 02:30:00\n", "4:12: error[S03]", "found a date or time", ""),
    (SITE + 'speed = "fast"\n', "4:9: error[S03]", "expected a number, found a text", "1.0"),
    (SITE + "speed = 0\n", "4:9: error[S03]", "above 0, found 0", ""),
    (SITE + "cost = nan\n", "4:8: error[S03]", "found nan", ""),
    (SITE + 'scheduler = "pbs"\ncan_reserve = "yes"\n', "5:15: error[S03]", "expected true or false", "without quotes"),
    (SITE + 'modules = "openmpi"\n', "4:11: error[S03]", "expected a list", '["openmpi"]'),
    (SITE + 'modules = ["x", 1]\n', "4:17: error[S03]", "expected a text", ""),
    (SITE + 'scheduler = "slrum"\n', "4:13: error[S03]", '"slrum" is none of', 'did you mean "slurm"?'),
    (SITE + "scheduler = true\n", "4:13: error[S03]", "found true", ""),
    (SITE + "env = { A = 1 }\n", "4:13: error[S03]", "expected a text", 'A = "1"'),
    (SITE + 'env = { "A-B" = "1" }\n', "4:17: error[S03]", "not a name of a variable", ""),
    (SITE + 'container = "apptainer exec"\n', "4:13: error[S03]", "where the image goes", "exec --rocm {image}"),
    (SITE + 'container = "apptainer exec --compat {image}"\n', "4:13: error[S03]", "--compat takes the", "--contain"),
    (SITE + 'mpi = "aprun"\n', "4:7: error[S03]", "where the number of ranks goes", '"aprun -n {ranks}"'),
    ('[site.a]\ncores = 1\nssh = "ssh me@a"\n', "3:7: error[S03]", "this is a command", '"me@a"'),
    ('[site.a]\ncores = 1\nssh = "ssh://me@a"\n', "3:7: error[S03]", "this is a URL", '"me@a"'),
    ('[site.a]\ncores = 1\nssh = "-oProxyCommand=x"\n', "3:7: error[S03]", "not an ssh destination", "~/.ssh/config"),
    ('[site.a]\nssh = "a"\n', "1:7: error[S04]", "cores is missing", "nproc"),
    ('[site.a]\nssh = "a"\nscheduler = "slurm"\n', "1:7: error[S04]", "cores is missing", "sinfo"),
    (SITE + 'partition = "x"\n', "4:1: error[S04]", "no", 'scheduler = "slurm"'),
    (SITE + 'scheduler = "local"\npartition = "x"\n', "5:1: error[S06]", "means nothing to", "leave partition out"),
    (SITE + 'scheduler = "slurm"\ndialect = "torque"\n', "5:1: error[S06]", "only pbs has dialects", ""),
    ('[site.a]\ntransport = "openssh"\n', "2:1: error[S06]", "there is no ssh", "leave transport out"),
    (
        '[site.a]\nscheduler = "slurm"\ncores = 1\n[site.b]\nscheduler = "slurm"\ncores = 1\n',
        "4:7: error[S04]",
        "site b: ssh is missing",
        'add ssh = "user@login.example.org"',
    ),
    (SITE + 'relay = "login"\n', "4:9: error[S03]", "expected a table", "[site.a.relay]"),
    (SITE + "[site.a.relay]\nport = 70000\n", "5:8: error[S03]", "70000 is not a port", "65535"),
    (SITE + '[site.a.relay]\nlisten = "login"\n', "5:10: error[S03]", "is not host:port", ":40001"),
    (SITE + "[site.a.relay]\nthrough_ssh = false\n", "5:15: error[S06]", "reached in no way", "listen"),
    (SITE + '[site.b]\nlike = "aa"\n', "5:8: error[S05]", 'no site "aa"', '"a"'),
    (SITE + '[site.b]\nlike = "b"\n', "5:8: error[S06]", "like itself", ""),
    (SITE + '[site.b]\nlike = "a"\nssh = "b"\n', "6:1: error[S06]", "ssh cannot differ from a", "leave like out"),
    (TWO + '[link]\nbetween = ["a", "b"]\n', "7:2: error[S03]", "links are tables", "[[link]]"),
    (TWO + '[[links]]\nbetween = ["a", "b"]\n', "7:3: error[S02]", '"links" is not known', "[[link]]"),
    (TWO + "[[link]]\n", "7:3: error[S04]", "which sites it joins", 'between = ["alpha", "beta"]'),
    (TWO + '[[link]]\nbetween = "a, b"\n', "8:11: error[S03]", "expected a list", ""),
    (TWO + '[[link]]\nbetween = ["a"]\n', "8:11: error[S03]", "here are 1", ""),
    (TWO + '[[link]]\nbetween = ["a", "a"]\n', "8:11: error[S03]", "both ends", "two sites"),
    (TWO + '[[link]]\nbetween = ["a", "c"]\n', "8:17: error[S05]", 'no site "c"', '"a", "b"'),
    (
        TWO + '[[link]]\nbetween = ["a", "b"]\n[[link]]\nbetween = ["b", "a"]\n',
        "10:11: error[S06]",
        "a second link between b and a",
        "line 8",
    ),
    (
        TWO + '[[link]]\nbetween = ["a", "b"]\nbandwidth = "1 Gbps"\n',
        "9:13: error[S03]",
        "not a rate",
        'write "1 Gbit/s"',
    ),
    (TWO + '[[link]]\nbetween = ["a", "b"]\nbandwidth = "1 GB"\n', "9:13: error[S03]", "per second", "1 Gbit/s"),
    (TWO + '[[link]]\nbetween = ["a", "b"]\nrtt = "1 ms"\n', "9:1: error[S02]", 'no key "rtt"', '"latency"'),
    (TWO + '[[link]]\nbetween = ["a", "b"]\nstreams = 200\n', "9:11: error[S03]", "1 to 128", ""),
    (TWO + '[[link]]\nbetween = ["a", "b"]\nmethods = ["shm"]\n', "9:12: error[S03]", "no way between sites", ""),
    (TWO + '[[link]]\nbetween = ["a", "b"]\nmethods = []\n', "9:11: error[S03]", "no method is left", ""),
]
