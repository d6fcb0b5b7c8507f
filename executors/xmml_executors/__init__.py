"""Carrying a plan out on this machine: processes, coordination, what the run leaves.

`execution.execute` is the event loop; `coordination` decides and `deadlock` and `failure` explain, all three without a
process, a socket or a clock; `supervisor` and `local` start and end processes; `run_folder`, `report`, `profile` and
`provenance` are what stays.
"""
