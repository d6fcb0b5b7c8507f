"""Which cores of this machine each process of a run has: the machine, the leases, the choice."""
