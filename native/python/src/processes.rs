//! What processes and threads that run instances need of the operating system.

use std::io;
use std::path::PathBuf;

use pyo3::prelude::*;

/// Gives the calling thread a working folder of its own. (On Linux that is possible; POSIX knows one per process only.)
fn separate_from_other_threads() -> io::Result<()> {
    // SAFETY: it affects nothing but which working folder, root and file mode mask the calling thread uses from now on.
    match unsafe { libc::unshare(libc::CLONE_FS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Make `folder` the working folder of the calling thread, and of the threads and processes that it starts.
///
/// Other threads keep theirs.
#[pyfunction]
pub fn enter_folder_alone(folder: PathBuf) -> PyResult<()> {
    separate_from_other_threads()?;
    std::env::set_current_dir(&folder)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
    Ok(())
}

/// Return whether threads may have working folders of their own here; some containers forbid it.
#[pyfunction]
pub fn threads_can_have_folders(py: Python<'_>) -> bool {
    py.detach(|| std::thread::spawn(|| separate_from_other_threads().is_ok()).join().unwrap_or(false))
}

/// Have the system kill this process when its parent dies.
///
/// The parent must be the process `parent`; if it is not any more, this process ends at once.
#[pyfunction]
pub fn die_with_parent(parent: i32) -> PyResult<()> {
    // SAFETY: prctl takes numbers only here, getppid nothing.
    let (status, now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
    if status != 0 {
        return Err(io::Error::last_os_error().into());
    }
    if now != parent {
        // SAFETY: ends the process at once; nobody is there any more to hear why.
        unsafe { libc::_exit(127) };
    }
    Ok(())
}

/// Return the processes below one, without those that have ended and that nobody has waited for.
#[pyfunction]
pub fn descendants(py: Python<'_>, root: i32) -> Vec<i32> {
    py.detach(|| xmml_site::processes::descendants(root, false))
}

/// Return when a process started, in the kernel's ticks; empty if there is none, or it is only waited for.
///
/// Together with its number this names a process for good: numbers are used again.
#[pyfunction]
pub fn start_of(pid: i32) -> String {
    xmml_site::processes::start_of(pid).map_or_else(String::new, |started| started.to_string())
}

/// The control group of memory that this process and what it starts are in, version 1 or 2.
///
/// Args:
///     mounted: where control groups are mounted.
///     listed: the file that says in which groups this process is.
#[pyclass(module = "xmml_native._native")]
pub struct MemoryGroup(xmml_site::memory_group::MemoryGroup);

#[pymethods]
impl MemoryGroup {
    #[new]
    #[pyo3(signature = (mounted = PathBuf::from("/sys/fs/cgroup"), listed = PathBuf::from("/proc/self/cgroup")))]
    fn new(mounted: PathBuf, listed: PathBuf) -> MemoryGroup {
        MemoryGroup(xmml_site::memory_group::MemoryGroup::find(&mounted, &listed))
    }

    /// Return why a process of the group was killed, once for each that was; empty if none was since.
    ///
    /// To be asked for a process that was killed: the group knows how many were, not which.
    fn ran_out(&mut self) -> String {
        self.0.ran_out().unwrap_or_default()
    }

    /// Return the same for a process that failed otherwise, once.
    ///
    /// A child of it may have been killed, or something else. `ran_out` still tells of the one that was.
    fn ran_out_beside(&mut self) -> String {
        self.0.ran_out_beside().unwrap_or_default()
    }

    /// Return the least limit [bytes] that holds for the group; `None` if there is none.
    fn limit(&self) -> Option<u64> {
        self.0.limit()
    }
}
