//! The processes that a supervisor has started, and the instances that they host.

use std::collections::HashMap;

use crate::process_pipes::ErrorPipe;
use crate::protocol::Start;

/// A process that was started.
pub struct SupervisedProcess {
    /// The name that its order has given it.
    pub name: String,
    /// The instances in it that have not ended.
    pub hosted: Vec<String>,
    /// The pipe that says why its program did not start, of a process that was forked.
    pub exec_error: Option<ErrorPipe>,
    /// The tokens of its captured streams.
    pub streams: Vec<u64>,
}

/// The processes of a supervisor that have not ended.
#[derive(Default)]
pub struct SupervisedProcesses {
    by_pid: HashMap<i32, SupervisedProcess>,
    /// The process of each instance, and of each process by its own name.
    by_name: HashMap<String, i32>,
}

impl SupervisedProcesses {
    /// Adds the process of an order.
    pub fn add(&mut self, order: &Start, pid: i32, exec_error: Option<ErrorPipe>, streams: Vec<u64>) {
        let (name, hosted) = (order.name.clone(), order.hosted.clone());
        self.by_name.insert(name.clone(), pid);
        self.by_name.extend(hosted.iter().map(|instance| (instance.clone(), pid)));
        self.by_pid.insert(pid, SupervisedProcess { name, hosted, exec_error, streams });
    }

    /// Returns whether there is no process.
    pub fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }

    /// Returns whether a process is one of these.
    pub fn contains(&self, pid: i32) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// Returns the process ids.
    pub fn pids(&self) -> impl Iterator<Item = i32> + '_ {
        self.by_pid.keys().copied()
    }

    /// Returns the process of an instance, or the one of this name.
    pub fn pid_of(&self, name: &str) -> Option<i32> {
        self.by_name.get(name).copied()
    }

    /// Returns the name of a process, if that hosts an instance.
    pub fn host_of(&self, instance: &str, pid: i32) -> Option<&str> {
        let process = self.by_pid.get(&pid)?;
        (instance != process.name && self.pid_of(instance) == Some(pid)).then_some(&process.name)
    }

    /// Takes note that an instance in a process has ended.
    pub fn end_hosted(&mut self, instance: &str, pid: i32) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.hosted.retain(|each| each != instance);
        }
        self.by_name.remove(instance);
    }

    /// Returns the captured streams of a process.
    pub fn streams_of(&self, pid: i32) -> Vec<u64> {
        self.by_pid.get(&pid).map(|process| process.streams.clone()).unwrap_or_default()
    }

    /// Takes note that a captured stream of a process has ended.
    pub fn end_stream(&mut self, token: u64, pid: i32) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.streams.retain(|each| *each != token);
        }
    }

    /// Removes a process that has ended, and the instances that are still in it.
    pub fn remove(&mut self, pid: i32) -> Option<SupervisedProcess> {
        let process = self.by_pid.remove(&pid)?;
        for name in process.hosted.iter().chain([&process.name]) {
            self.by_name.remove(name);
        }
        Some(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_that_ends_in_its_process_is_no_longer_hosted() {
        let line = r#"{"name": "host", "command": ["a"], "env": {}, "folder": "/", "terminal": null,
            "hosted": ["a", "b"], "fork": false}"#;
        let order: Start = serde_json::from_str(line).unwrap();
        let mut processes = SupervisedProcesses::default();
        processes.add(&order, 7, None, vec![3, 4]);
        assert_eq!(["a", "host", "c"].map(|name| processes.pid_of(name)), [Some(7), Some(7), None]);
        assert_eq!(["a", "host", "c"].map(|name| processes.host_of(name, 7)), [Some("host"), None, None]);
        assert_eq!(processes.host_of("a", 8), None);
        processes.end_hosted("a", 7);
        processes.end_stream(3, 7);
        assert_eq!((processes.host_of("a", 7), processes.streams_of(7)), (None, vec![4]));
        assert_eq!(processes.remove(7).unwrap().hosted, ["b"]);
        assert!(processes.is_empty() && processes.pid_of("b").is_none() && processes.pid_of("host").is_none());
    }
}
