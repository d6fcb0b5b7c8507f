"""Four ranks without parallel ports: only rank 0 talks to the run."""

import numpy as np
from mpi4py import MPI

import xmml

with xmml.Instance(comm=MPI.COMM_WORLD) as me:
    blocks = me.out("blocks")
    while me.reuse():
        start = me.in_("start").receive().data
        rows, columns = 1 + me.rank // 2, 2 + me.rank % 2
        blocks.send_gathered(np.full((rows, columns), me.rank), "block(0:2,1:2)")
        notes = MPI.COMM_WORLD.bcast({"k": [1.5, "two"]} if me.rank == 0 else None)
        me.send("notes", notes if me.rank == 0 else None)
        # One rank prints for all: mpirun may put what another one says into the middle of a line.
        lines = MPI.COMM_WORLD.gather(f"rank {me.rank} has {start} and {notes}")
        if lines is not None:
            print("\n".join(lines))
