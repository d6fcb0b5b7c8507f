//! A process that is noted in a file, so that what cleans up finds it.

use std::fs;
use std::io;
use std::path::Path;

use crate::processes::start_of;
use crate::system::{host_name, write_file};

/// A process of this host. Its start names it for good: process ids are used again.
#[derive(Clone, Copy)]
pub struct NotedProcess {
    /// Its process id.
    pub pid: i32,
    started: u64,
}

impl NotedProcess {
    /// Notes this process in a file: its process id, its start and its host.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note_own(note: &Path) -> io::Result<()> {
        let pid = std::process::id();
        let started = i32::try_from(pid).ok().and_then(start_of).unwrap_or_default();
        write_file(note, format!("{pid} {started} {}\n", host_name()).as_bytes())
    }

    /// Returns the process that a file notes, if that is one of `host`.
    pub fn read(note: &Path, host: &str) -> Option<NotedProcess> {
        let text = fs::read_to_string(note).ok()?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [pid, started, noted_host] = words[..] else { return None };
        let noted = NotedProcess { pid: pid.parse().ok()?, started: started.parse().ok()? };
        (noted_host == host).then_some(noted)
    }

    /// Returns whether the process has not ended.
    pub fn lives(&self) -> bool {
        start_of(self.pid) == Some(self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_note_on_its_host_and_not_by_its_number_alone() {
        let note = std::env::temp_dir().join(format!("xmml-noted-{}", std::process::id()));
        NotedProcess::note_own(&note).unwrap();
        let noted = NotedProcess::read(&note, &host_name()).unwrap();
        assert!(noted.lives());
        assert!(!NotedProcess { started: noted.started + 1, ..noted }.lives());
        assert!(NotedProcess::read(&note, "another host").is_none());
        fs::write(&note, "1 2\n").unwrap();
        assert!(NotedProcess::read(&note, "2").is_none());
        fs::remove_file(&note).unwrap();
    }
}
