//! What processes and threads that run instances need of the operating system.

use std::io;

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
pub fn enter_folder_alone(folder: std::path::PathBuf) -> PyResult<()> {
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
