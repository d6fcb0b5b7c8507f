"""The commands of `xmml`, a module each with `DESCRIPTION`, `add_options(parser)` and `run(options)`.

Only the module of the command that was typed is imported: `xmml check` shall not wait for what draws pictures.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The commands in the order of `xmml --help`, each with a line of help.
COMMANDS: Mapping[str, str] = {
    "check": "find every error in model documents",
    "graph": "draw a model, or write it as a graph",
    "analyse": "what a model will do, before it runs",
    "convert": "write a model in another format: yMMSL, CxA, xMML",
    "plan": "say what a run would start",
    "new": "write a model that runs, to begin with",
    "schema": "where the schemas for XML editors are",
    "status": "how a run is going",
    "methods": "how conduits travel, and have them travel otherwise",
    "logs": "what an instance has written",
    "attach": "follow a detached run",
    "cancel": "stop a run, and remove every trace of it",
    "report": "the report of a run",
    "tap": "show what passes out ports of a run that goes on, to you or to a program of yours",
    "record": "keep what passes out ports of a run that goes on in an archive",
    "pool": "look into archives of objects, take objects out of them, and compact them",
    "sites": "log in to the sites and say whether a run could use them",
    "cp": "copy files and folders to and from another machine, in parallel and resumable",
}
