//! Which CPUs and GPUs of this process another one is started with.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use serde::Deserialize;

use crate::cpu_leases::CpuLeases;
use crate::protocol::{Start, Text};
use crate::system::own_cpus;

/// What Slurm says of the CPUs and memory of this step. Steps that are started from here would take it for what they are
/// to do, and fail.
const ABOUT_OWN_STEP: [&str; 3] = ["SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_TRES_PER_TASK"];
/// What tells threads to stay on the cores of their process.
const BOUND: [(&str, &str); 2] = [("OMP_PLACES", "cores"), ("OMP_PROC_BIND", "close")];
/// What tells programs which GPUs they may use.
const GPU_VARIABLES: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"];

/// Indices into this process's CPU list and GPU list. `cores` holds only if the CPU list has `of_cores` entries.
#[derive(Default, Deserialize)]
pub struct Devices {
    cores: Option<Vec<usize>>,
    of_cores: Option<usize>,
    gpus: Option<Vec<usize>>,
}

/// What another process is bound to: its CPUs, or why it has none of its own.
pub type Binding = Result<Vec<usize>, String>;

/// The CPUs and GPUs of this process.
pub struct OwnDevices {
    cpus: Vec<usize>,
    /// The variables of the environment that say what processes are bound to, as far as they are set.
    variables: BTreeMap<&'static str, String>,
}

impl OwnDevices {
    /// Returns those that the system and the environment name.
    pub fn of_this_process() -> OwnDevices {
        let names = BOUND.iter().map(|(name, _)| *name).chain(GPU_VARIABLES);
        OwnDevices {
            cpus: own_cpus(),
            variables: names.filter_map(|name| Some((name, std::env::var(name).ok()?))).collect(),
        }
    }

    /// Binds a process that is to be started to its CPUs, and gives it its GPUs. Returns what it is bound to; `None`: it
    /// shall be bound to nothing.
    pub fn bind(&self, order: &mut Start, devices: &Devices, leases: &mut CpuLeases) -> Option<Binding> {
        self.give_gpus(order, devices);
        let places = devices.cores.as_ref().filter(|places| !places.is_empty())?;
        let binding = self.leased(places, devices.of_cores.unwrap_or_default(), leases);
        if let Ok(cpus) = &binding {
            order.cpus = Some(cpus.clone());
            for (name, value) in BOUND.iter().filter(|(name, _)| !self.variables.contains_key(name)) {
                order.env.entry(Text(name.into())).or_insert_with(|| Text(value.into()));
            }
        }
        Some(binding)
    }

    /// Leases the CPUs at these places of the list.
    fn leased(&self, places: &[usize], of_cores: usize, leases: &mut CpuLeases) -> Binding {
        let cpus: Option<Vec<usize>> = places.iter().map(|place| self.cpus.get(*place).copied()).collect();
        let cpus = cpus.filter(|_| of_cores == self.cpus.len()).ok_or_else(|| {
            let own = self.cpus.len();
            format!("the job has {of_cores} CPUs of this node, and programs may use {own}: the batch system does not say which")
        })?;
        leases.lease(&cpus).map_err(|taken| format!("another run has leased CPU {taken}"))?;
        Ok(cpus)
    }

    fn give_gpus(&self, order: &mut Start, devices: &Devices) {
        let text = |word: &str| Text(word.into());
        let Some(gpus) = &devices.gpus else { return };
        let named: Vec<&str> = GPU_VARIABLES.into_iter().filter(|name| self.variables.contains_key(name)).collect();
        for name in if named.is_empty() { GPU_VARIABLES.to_vec() } else { named } {
            let value = self.variables.get(name).map_or("", String::as_str);
            let own: Vec<&str> = value.split(',').filter(|device| !device.is_empty()).collect();
            let chosen =
                gpus.iter().map(|place| own.get(*place).map_or_else(|| place.to_string(), |gpu| (*gpu).to_owned()));
            let chosen = chosen.collect::<Vec<_>>().join(",");
            order.env.entry(text(name)).or_insert_with(|| text(&chosen));
        }
    }
}

/// Removes from the environment what Slurm says of the step of this process alone. To be called before there are threads.
pub fn forget_own_step() {
    let about_step = |name: &OsStr| {
        let name = name.to_string_lossy();
        ABOUT_OWN_STEP.iter().any(|beginning| name.starts_with(beginning))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| about_step(name)) {
        std::env::remove_var(name);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn own(cpus: &[usize], variables: &[(&'static str, &str)]) -> OwnDevices {
        let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        OwnDevices { cpus: cpus.to_vec(), variables }
    }

    /// No CPU is leased by anybody.
    fn leases() -> CpuLeases {
        CpuLeases::below(Path::new("/nowhere"))
    }

    fn order() -> Start {
        let line = r#"{"name": "a", "command": ["a"], "env": {}, "folder": "/", "terminal": null, "hosted": [],
            "fork": false}"#;
        serde_json::from_str(line).unwrap()
    }

    fn env(order: &Start) -> Vec<(String, String)> {
        order.env.iter().map(|(name, value)| (name.shown().into_owned(), value.shown().into_owned())).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn threads_are_bound_as_the_site_says_if_it_does() {
        let mut started = order();
        let devices = Devices { cores: Some(vec![1]), of_cores: Some(2), gpus: None };
        let bound = own(&[4, 6], &[("OMP_PROC_BIND", "spread")]).bind(&mut started, &devices, &mut leases());
        assert_eq!(env(&started), [pair("OMP_PLACES", "cores")]);
        assert_eq!((started.cpus, bound), (Some(vec![6]), Some(Ok(vec![6]))));
    }

    #[test]
    fn the_kernel_chooses_where_the_cpus_are_not_those_of_the_job() {
        let mut started = order();
        let devices = Devices { cores: Some(vec![1]), of_cores: Some(8), gpus: None };
        let bound = own(&[4, 6], &[]).bind(&mut started, &devices, &mut leases());
        assert_eq!((env(&started), started.cpus), (vec![], None));
        assert!(bound.unwrap().unwrap_err().contains("has 8 CPUs of this node, and programs may use 2"));
    }

    #[test]
    fn gpus_are_named_as_the_batch_system_names_them() {
        let mut started = order();
        let devices = Devices { gpus: Some(vec![1, 2]), ..Devices::default() };
        own(&[0], &[("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")]).bind(&mut started, &devices, &mut leases());
        assert_eq!(env(&started), [pair("CUDA_VISIBLE_DEVICES", "GPU-b,2")]);
        let mut started = order();
        own(&[0], &[]).bind(&mut started, &devices, &mut leases());
        assert_eq!(env(&started), [pair("CUDA_VISIBLE_DEVICES", "1,2"), pair("ROCR_VISIBLE_DEVICES", "1,2")]);
    }
}
