//! Leases on the CPUs of a machine: while one run has bound processes to a CPU, no other run binds any there.
//!
//! A lease is the kernel's lock (`flock`) on the folder that describes the CPU. `xmml-run` takes the same ones for the
//! processes that it starts itself (`xmml_executors/binding/leases.py`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Where Linux describes CPUs, and the variable that names another folder like it.
const SYSTEM_DEVICES: &str = "/sys/devices/system";
const FOLDER_VARIABLE: &str = "XMML_CPU_FOLDER";
/// How long to wait for another run that chooses its cores, which holds all that are free for a millisecond.
const CHOOSING_LIMIT: Duration = Duration::from_millis(200);
const CHOOSING_RETRY: Duration = Duration::from_millis(2);

/// The leases of this process. They end with it.
pub struct CpuLeases {
    folder: PathBuf,
    held: BTreeMap<usize, File>,
}

impl CpuLeases {
    /// No leases yet, on the CPUs of this machine.
    pub fn of_this_machine() -> CpuLeases {
        let devices = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
        CpuLeases::below(&devices.map_or_else(|| PathBuf::from(SYSTEM_DEVICES), PathBuf::from))
    }

    /// No leases yet, on the CPUs that a folder describes as `/sys/devices/system` does.
    pub(crate) fn below(devices: &Path) -> CpuLeases {
        CpuLeases { folder: devices.join("cpu"), held: BTreeMap::new() }
    }

    /// Leases these CPUs, or none of them if another process has one of them. A CPU that cannot be locked here, as in a
    /// container without `/sys`, counts as leased.
    ///
    /// # Errors
    /// The CPU that another process has.
    pub fn lease(&mut self, cpus: &[usize]) -> Result<(), usize> {
        let _turn = self.turn();
        let mut fresh = BTreeMap::new();
        for cpu in cpus.iter().filter(|cpu| !self.held.contains_key(cpu)) {
            match locked(&self.folder.join(format!("cpu{cpu}"))) {
                Ok(folder) => drop(fresh.insert(*cpu, folder)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(*cpu),
                Err(_) => {}
            }
        }
        self.held.extend(fresh);
        Ok(())
    }

    /// Waits until no other process chooses CPUs, or long enough; none does until what this returns is dropped.
    fn turn(&self) -> Option<File> {
        let end = Instant::now() + CHOOSING_LIMIT;
        loop {
            match locked(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < end => {
                    thread::sleep(CHOOSING_RETRY);
                }
                turn => return turn.ok(),
            }
        }
    }
}

/// Locks a folder until what this returns is dropped.
fn locked(folder: &Path) -> io::Result<File> {
    let opened = File::open(folder)?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::flock(opened.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(opened),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder that describes four CPUs.
    fn devices(name: &str) -> PathBuf {
        let devices = std::env::temp_dir().join(format!("xmml-cpus-{}-{name}", std::process::id()));
        (0..4).for_each(|cpu| fs::create_dir_all(devices.join(format!("cpu/cpu{cpu}"))).unwrap());
        devices
    }

    #[test]
    fn cpus_are_leased_together_or_not_at_all() {
        let devices = devices("together");
        let [mut one, mut other, mut third] = [(); 3].map(|()| CpuLeases::below(&devices));
        assert_eq!(one.lease(&[1]), Ok(()));
        assert_eq!(other.lease(&[0, 1]), Err(1));
        assert_eq!(third.lease(&[0]), Ok(()));
        fs::remove_dir_all(devices).unwrap();
    }

    #[test]
    fn a_process_leases_a_cpu_for_all_that_it_starts_until_it_ends() {
        let devices = devices("own");
        let (mut one, mut other) = (CpuLeases::below(&devices), CpuLeases::below(&devices));
        assert_eq!((one.lease(&[2]), one.lease(&[2, 3])), (Ok(()), Ok(())));
        assert_eq!(other.lease(&[3]), Err(3));
        drop(one);
        assert_eq!(other.lease(&[3]), Ok(()));
        fs::remove_dir_all(devices).unwrap();
    }

    #[test]
    fn where_no_cpu_can_be_locked_all_count_as_leased() {
        assert_eq!(CpuLeases::below(Path::new("/nowhere")).lease(&[0]), Ok(()));
    }
}
