"""Two Slurm clusters, a plain ssh site and a laptop on one machine, for tests (tests/testbed/README.md).

with Bed() as bed:
    bed.laptop.run(["ssh", "alpha", "sinfo"])
    bed.site("alpha").slurm.settle()
"""

from testbed.bed import Bed, Cluster, LoginSite
from testbed.missing import why_not

__all__ = ["Bed", "Cluster", "LoginSite", "why_not"]
