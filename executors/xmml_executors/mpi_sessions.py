"""Where the processes of an MPI launcher keep what they share.

By default all launchers that a user starts on a machine have one folder for that, which one of them may remove at its
end while another one begins: that one fails. So each launcher of a run gets a folder of its own.
"""

from __future__ import annotations

#: Names the folder to Open MPI, which makes it.
SESSION_FOLDER_OF_MPI = "OMPI_MCA_orte_tmpdir_base"
