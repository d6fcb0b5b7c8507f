"""A site as it is seen from here: the way to it, its batch system, and files to and from it.

`ssh` runs commands and moves files, over asyncssh, OpenSSH, or locally; `batch` speaks with Slurm, PBS, or starts jobs
where there is no batch system; `transfer` copies files for people (`xmml cp`); `check` finds out whether a site can be
used. Nothing here knows what a run is.
"""
