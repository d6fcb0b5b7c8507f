//! How a process has ended, and what it has used.

use crate::memory_group::MemoryGroup;

/// The end of a process.
#[derive(Debug)]
pub struct ProcessEnd {
    /// The status that it has exited with.
    pub status: Option<i32>,
    /// The number of the signal that it was killed by.
    pub signal: Option<i32>,
    /// The time of processors that it has used [s].
    pub cpu_s: f64,
    /// The most memory that it has held [bytes].
    pub memory_bytes: i64,
}

impl ProcessEnd {
    /// Waits, without blocking, for a child that has ended; returns its process id and its end.
    pub fn next() -> Option<(i32, ProcessEnd)> {
        let mut status = 0;
        // SAFETY: a structure of numbers may be zero; both outlive the call.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        (pid > 0).then(|| {
            let end = ProcessEnd {
                status: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
                signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
                cpu_s: ((seconds(usage.ru_utime) + seconds(usage.ru_stime)) * 1e6).round() / 1e6,
                memory_bytes: usage.ru_maxrss * 1024,
            };
            (pid, end)
        })
    }

    /// Returns for want of which memory the process was killed, or another one while it failed.
    pub fn lacking_memory(&self, memory: &mut MemoryGroup) -> Option<String> {
        // A shell whose program was killed ends with 128 and the number of the signal.
        let was_killed = self.signal == Some(libc::SIGKILL) || self.status == Some(128 + libc::SIGKILL);
        if was_killed {
            memory.ran_out()
        } else if self.status == Some(0) {
            None
        } else {
            memory.ran_out_beside()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_was_killed_is_said_to_lack_memory() {
        let folder = std::env::temp_dir().join(format!("xmml-memory-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("listed"), "0::/\n").unwrap();
        let end = |status, signal| ProcessEnd { status, signal, cpu_s: 0.0, memory_bytes: 0 };
        let machine = "this machine had no memory left".to_owned();
        for (killed, is_certain) in [
            (end(None, Some(libc::SIGKILL)), true),
            (end(Some(128 + libc::SIGKILL), None), true),
            (end(Some(3), None), false),
        ] {
            fs::write(folder.join("memory.events"), "oom_kill 0\n").unwrap();
            let mut memory = MemoryGroup::find(&folder, &folder.join("listed"));
            fs::write(folder.join("memory.events"), "oom_kill 1\n").unwrap();
            let beside = end(Some(3), None).lacking_memory(&mut memory).unwrap();
            assert!(beside.starts_with("another process, perhaps a child of it, was killed meanwhile: "), "{beside}");
            assert_eq!(end(Some(0), None).lacking_memory(&mut memory), None);
            assert_eq!(killed.lacking_memory(&mut memory), is_certain.then(|| machine.clone()));
            assert_eq!(end(Some(3), None).lacking_memory(&mut memory), None);
            let last = end(None, Some(libc::SIGKILL)).lacking_memory(&mut memory);
            assert_eq!(last, (!is_certain).then(|| machine.clone()));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
