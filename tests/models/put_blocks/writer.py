"""Element (i, j) of the whole array is 10 i + j; each rank has two columns."""

import numpy as np
from mpi4py import MPI

import xmml

with xmml.Instance(comm=MPI.COMM_WORLD) as me:
    block = 10 * np.arange(2)[:, None] + np.arange(2 * me.rank, 2 * me.rank + 2)
    while me.reuse():
        me.put_block("fields", block, (2, 4), step=1)
        me.out("fields").put_block(block, (2, 4), step=2)
        with me.group("fields", step=3) as group:
            group.put_block(block, (2, 4))
