//! What the control group (cgroup) of this process says of memory: its limit, and who was killed for want of it.

use std::path::{Path, PathBuf};

/// Version 1 says "no limit" by a number near this one.
const UNLIMITED: u64 = 1 << 60;
const MIB: f64 = 1024.0 * 1024.0;

/// The control group of memory that this process and what it starts are in, version 1 or 2.
pub struct MemoryGroup {
    name: String,
    /// Its folder, and those of the groups around it.
    folders: Vec<PathBuf>,
    is_version_2: bool,
    seen: u64,
    hinted: u64,
}

impl MemoryGroup {
    /// Reads which group this process is in.
    ///
    /// # Arguments
    /// * `mounted` - where control groups are mounted.
    /// * `listed` - the file that says in which groups this process is.
    pub fn find(mounted: &Path, listed: &Path) -> MemoryGroup {
        let (name, folders, is_version_2) = find(mounted, listed);
        let mut group = MemoryGroup { name, folders, is_version_2, seen: 0, hinted: 0 };
        group.seen = group.kills();
        group.hinted = group.seen;
        group
    }

    /// The group of this process on this machine.
    pub fn own() -> MemoryGroup {
        MemoryGroup::find(Path::new("/sys/fs/cgroup"), Path::new("/proc/self/cgroup"))
    }

    /// Returns why a process of the group was killed, once for each that was; `None` if none was since.
    ///
    /// To be asked for a process that was killed: the group knows how many were, not which.
    pub fn ran_out(&mut self) -> Option<String> {
        if self.kills() <= self.seen {
            return None;
        }
        self.seen += 1;
        Some(self.why())
    }

    /// Returns the same for a process that failed otherwise, once; a child of it may have been killed, or something
    /// else. `ran_out` still tells of the one that was.
    pub fn ran_out_beside(&mut self) -> Option<String> {
        let kills = self.kills();
        if kills <= self.seen.max(self.hinted) {
            return None;
        }
        self.hinted = kills;
        Some(format!("another process, perhaps a child of it, was killed meanwhile: {}", self.why()))
    }

    /// Returns the least limit [bytes] that holds for the group; `None` if there is none.
    pub fn limit(&self) -> Option<u64> {
        let limits: Vec<u64> = if self.is_version_2 {
            self.folders.iter().filter_map(|folder| read(&folder.join("memory.max")).trim().parse().ok()).collect()
        } else {
            let own = self.folders.first();
            own.map(|folder| values(&folder.join("memory.stat"), "hierarchical_memory_limit")).unwrap_or_default()
        };
        limits.into_iter().filter(|limit| *limit < UNLIMITED).min()
    }

    fn why(&self) -> String {
        match self.limit() {
            None => "this machine had no memory left".to_owned(),
            Some(limit) => format!(
                "the processes of its control group, {}, needed more than the {:.0} MiB of memory that they may have \
                 together; raise that limit, or the memory of the job or container",
                self.name,
                limit as f64 / MIB
            ),
        }
    }

    fn kills(&self) -> u64 {
        let file = if self.is_version_2 { "memory.events" } else { "memory.oom_control" };
        self.folders.first().map_or(0, |folder| values(&folder.join(file), "oom_kill").iter().sum())
    }
}

/// Returns the name of the group, its folder and those of the groups around it, and whether they are of version 2.
fn find(mounted: &Path, listed: &Path) -> (String, Vec<PathBuf>, bool) {
    for line in read(listed).lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(name)) = (parts.next(), parts.next()) else { continue };
        let is_version_2 = controllers.is_empty();
        if !is_version_2 && !controllers.split(',').any(|controller| controller == "memory") {
            continue;
        }
        let root = if is_version_2 { mounted.to_owned() } else { mounted.join("memory") };
        let inner = root.join(name.trim_start_matches('/'));
        // In a container the name may be the one that the group has outside, whereas its folder is the root.
        let own = if inner.is_dir() { inner } else { root.clone() };
        if own.join(if is_version_2 { "memory.events" } else { "memory.oom_control" }).exists() {
            let folders = own.ancestors().take_while(|folder| folder.starts_with(&root)).map(Path::to_owned).collect();
            return (name.to_owned(), folders, is_version_2);
        }
    }
    (String::new(), Vec::new(), true)
}

fn values(file: &Path, key: &str) -> Vec<u64> {
    let text = read(file);
    let pairs = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    pairs.filter(|(name, _)| *name == key).filter_map(|(_, value)| value.trim().parse().ok()).collect()
}

fn read(file: &Path) -> String {
    std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
