//! What the system says of processes.

use std::collections::HashMap;
use std::fs;

/// Returns the processes below `root`, without zombies if they are not asked for.
pub fn descendants(root: i32, zombies: bool) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Some(status) = Status::of(pid) else { continue };
        if zombies || !status.is_zombie {
            children.entry(status.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut queue = vec![root];
    while let Some(parent) = queue.pop() {
        let below = children.get(&parent).map(Vec::as_slice).unwrap_or_default();
        found.extend(below);
        queue.extend(below);
    }
    found
}

/// Returns when a process started, in the kernel's ticks; `None` if there is none, or it is only waited for.
///
/// Together with its number this names a process for good: numbers are used again.
pub fn start_of(pid: i32) -> Option<u64> {
    Status::of(pid).filter(|status| !status.is_zombie).map(|status| status.started)
}

struct Status {
    is_zombie: bool,
    parent: i32,
    started: u64,
}

impl Status {
    fn of(pid: i32) -> Option<Status> {
        let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name before the bracket is the program's own choice.
        let after = bytes.iter().rposition(|byte| *byte == b')')? + 1;
        let fields: Vec<&str> = std::str::from_utf8(&bytes[after..]).ok()?.split_ascii_whitespace().collect();
        Some(Status {
            // The first thread may have ended before others, which still hold files and sockets.
            is_zombie: *fields.first()? == "Z" && *fields.get(17)? == "1",
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_which_only_the_first_thread_has_ended_still_runs() {
        let without_first_thread = "import ctypes, threading, time\n\
            threading.Thread(target=time.sleep, args=(1000,)).start()\n\
            ctypes.CDLL(None).pthread_exit(0)";
        let mut child = std::process::Command::new("python3").args(["-c", without_first_thread]).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while !fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(start_of(pid).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_is_below_its_parent_and_one_that_nobody_has_waited_for_has_no_start() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(descendants(own, false).contains(&pid));
        assert!(start_of(pid).is_some());
        drop(child.stdin.take());
        while start_of(pid).is_some() {
            std::thread::yield_now();
        }
        assert!(!descendants(own, false).contains(&pid));
        assert!(descendants(own, true).contains(&pid));
        child.wait().unwrap();
        assert!(!descendants(own, true).contains(&pid));
    }
}
