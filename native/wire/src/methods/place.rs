//! Where a process runs, as far as it matters for reaching it.

use std::fs;

use serde::{Deserialize, Serialize};

/// Facts about where a process runs, compared by the probes of the methods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Host name, for people.
    pub host: String,
    /// Identity of this boot of the machine's kernel: two processes with the same one share a kernel.
    pub boot_id: String,
    /// Identity of the network namespace: abstract sockets and loopback addresses mean the same only within one.
    pub network: String,
    /// Effective user.
    pub user: u32,
}

impl Place {
    /// Where this process runs.
    pub fn here() -> Place {
        let network = fs::read_link("/proc/self/ns/net").map(|link| link.to_string_lossy().into_owned());
        Place {
            host: host_name(),
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned(),
            network: network.unwrap_or_default(),
            // SAFETY: geteuid has no preconditions and cannot fail.
            user: unsafe { libc::geteuid() },
        }
    }

    /// Whether two processes see the same kernel and the same network.
    pub fn shares_network_with(&self, other: &Place) -> bool {
        !self.boot_id.is_empty()
            && self.boot_id == other.boot_id
            && !self.network.is_empty()
            && self.network == other.network
    }
}

fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the pointer and length describe `name`, of which the last byte stays zero.
    let status = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    if status != 0 {
        return "unknown".to_owned();
    }
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}
