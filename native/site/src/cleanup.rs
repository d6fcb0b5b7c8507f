//! Ending what still runs on a host for a run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lines::Tail;
use crate::noted_process::NotedProcess;
use crate::polling::{renew_lease, LEASE_EVERY};
use crate::system::{host_name, strerror};

/// How long everything may take to end when it is told to.
const ENDS_WITHIN: Duration = Duration::from_secs(6);
/// How often it is looked whether processes have ended.
const POLL_EVERY: Duration = Duration::from_millis(30);

/// Ends the lease: the launcher is gone, and in an allocation nobody will take its place.
///
/// The agents then end all that they have started, steps of a batch system included, which outlive whoever only kills
/// their `srun`.
///
/// # Errors
/// The lease cannot be written; the text says where.
pub fn forsake(run: &Path) -> Result<(), String> {
    let cannot = |error: io::Error| format!("cannot end the lease in {}: {}", run.display(), strerror(&error));
    renew_lease(run, "gone 0\n").map_err(cannot)?;
    let until = Instant::now() + LEASE_EVERY + 2 * ENDS_WITHIN;
    let nodes = folders_in(&run.join("jobs")).into_iter().flat_map(|job| folders_in(&job));
    let reports = nodes.map(|node| node.join("reports")).filter(|file| file.exists());
    let mut awaited: Vec<Tail> = reports.map(|file| Tail::new(file, 0)).collect();
    loop {
        awaited.retain_mut(|reports| !has_ended(reports));
        if awaited.is_empty() || Instant::now() >= until {
            return Ok(());
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// Returns whether an agent has reported since the last call that everything has ended, or its reports are gone.
fn has_ended(reports: &mut Tail) -> bool {
    let over = |line: &[u8]| serde_json::from_slice::<Value>(line).is_ok_and(|report| report["is"] == "over");
    loop {
        match reports.lines() {
            Ok(lines) if lines.is_empty() => return !reports.path().exists(),
            Ok(lines) if lines.iter().any(|(_, line)| over(line)) => return true,
            Ok(_) => {}
            Err(_) => return true,
        }
    }
}

/// Ends what still runs on this host for the run; of the run's folder only the secret goes.
pub fn end(run: &Path) {
    end_builds(run);
    let jobs = folders_in(&run.join("jobs"));
    let agents = jobs.iter().flat_map(|job| folders_in(job)).map(|node| node.join("agent"));
    // Its supervisor sees that an agent is gone, and ends everything.
    end_all(noted(agents), false);
    // The relay of a launcher that was killed: its log lies in the folder.
    end_all(noted([run.join("relay")]), false);
    let _ = fs::remove_file(run.join(".secret")); // it may be gone already
}

/// Notes this process in a file, and ends the one of the same program that it names: it serves a connection that has
/// broken without its knowing, and holds what this one needs.
///
/// # Errors
/// The file cannot be written.
pub fn take_place(note: &Path) -> io::Result<()> {
    let own = std::process::id();
    let program = |pid: &dyn std::fmt::Display| fs::read(format!("/proc/{pid}/comm")).ok();
    if let [former] = noted([note.to_owned()])[..] {
        if u32::try_from(former.pid) != Ok(own) && program(&former.pid) == program(&own) {
            // SAFETY: it takes numbers alone.
            unsafe { libc::kill(former.pid, libc::SIGKILL) };
            let until = Instant::now() + ENDS_WITHIN;
            while former.lives() && Instant::now() < until {
                std::thread::sleep(POLL_EVERY); // what it holds is free a moment later
            }
        }
    }
    NotedProcess::note_own(note)
}

/// Ends the builds that still go on on this host, because the launcher that waited for them was killed.
pub fn end_builds(run: &Path) {
    end_all(noted(folders_in(&run.join("builds"))), true);
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Returns the processes of this host that still live of those that files note.
fn noted(notes: impl IntoIterator<Item = PathBuf>) -> Vec<NotedProcess> {
    let host = host_name();
    let read = |note: PathBuf| NotedProcess::read(&note, &host).filter(NotedProcess::lives);
    notes.into_iter().filter_map(read).collect()
}

/// Asks processes, or their groups, to end, and ends those that do not within a time.
fn end_all(mut processes: Vec<NotedProcess>, groups: bool) {
    let signal = |process: &NotedProcess, number| {
        let target = if groups { -process.pid } else { process.pid };
        // SAFETY: it takes numbers alone.
        unsafe { libc::kill(target, number) };
    };
    for process in &processes {
        signal(process, libc::SIGTERM);
    }
    let until = Instant::now() + ENDS_WITHIN;
    loop {
        processes.retain(NotedProcess::lives);
        if processes.is_empty() || Instant::now() >= until {
            break;
        }
        std::thread::sleep(POLL_EVERY);
    }
    for process in &processes {
        signal(process, libc::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::append;

    #[test]
    fn an_agent_has_ended_when_it_says_so_however_much_it_has_said_or_when_its_reports_are_gone() {
        let path = std::env::temp_dir().join(format!("xmml-ended-{}", std::process::id()));
        let mut reports = Tail::new(path.clone(), 0);
        append(&path, &b"{\"is\":\"output\"}\n".repeat(100_000)).unwrap();
        assert!(!has_ended(&mut reports));
        append(&path, b"no report\n{\"is\":\"over\"}\n").unwrap();
        assert!(has_ended(&mut reports));
        fs::remove_file(&path).unwrap();
        assert!(has_ended(&mut reports));
    }
}
