//! Taking over a configuration: at the beginning, and again while the relay is at work.

use std::collections::BTreeSet;

use xmml_wire::handshake::relay_key;

use super::links::LinkTarget;
use super::Relay;
use crate::config::{Config, LinkConfig};
use crate::log::{Level, Log};

/// Reads a configuration again, with all that was said on top of its file; what is wrong with it, else.
pub type ReadAgain = Box<dyn Fn() -> Result<Config, String> + Send>;

/// What a relay cannot change while it is at work, as its configuration says it.
#[derive(Default)]
pub(super) struct Lasting {
    listen: Vec<String>,
    metrics: Option<String>,
    control: String,
}

impl Lasting {
    fn of(config: &Config) -> Lasting {
        Lasting { listen: config.listen.clone(), metrics: config.metrics.clone(), control: config.control() }
    }

    /// The first difference, by its key.
    fn changed_by(&self, config: &Config) -> Option<&'static str> {
        let new = Lasting::of(config);
        if self.listen != new.listen {
            Some("listen")
        } else if self.metrics != new.metrics {
            Some("metrics")
        } else if self.control != new.control {
            Some("control")
        } else {
            None
        }
    }
}

impl Relay {
    /// Does what a configuration says; `again` reads it again later, from wherever it came.
    ///
    /// # Errors
    /// What cannot be done, and why.
    pub fn set_up(&mut self, config: &Config, again: Option<ReadAgain>) -> Result<(), String> {
        self.read_again = again;
        self.lasting = Lasting::of(config);
        self.ends = config.ends;
        self.limit_memory_of_streams(config.stream_memory_b);
        for address in &config.listen {
            self.listen(address).map_err(|error| format!("cannot listen at {address}: {error}"))?;
        }
        if let Some(address) = &config.metrics {
            self.tell_figures_at(address).map_err(|error| format!("cannot tell figures at {address}: {error}"))?;
        }
        let control = config.control();
        self.listen_for_owner(&control).map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!(
                    "a relay of {} is running already (its socket {control} is taken); end it with mto stop --site {}",
                    config.site, config.site
                )
            }
            _ => format!("cannot listen on {control}: {error}"),
        })?;
        self.encrypt(config.encryption(None).map_err(|problem| problem.to_string())?);
        self.take_over_links(config);
        self.take_over_runs(config)
    }

    fn take_over_links(&mut self, config: &Config) {
        let target = |link: &LinkConfig| LinkTarget {
            to: link.to.clone(),
            streams: link.streams,
            encrypt: link.encrypt,
            figures: link.figures(),
        };
        self.link_to_all(config.links.iter().map(target).collect());
    }

    /// Opens the file of the log again, then reads the configuration again. Runs and links come and go, and the log changes; for the
    /// rest the relay must be started again.
    pub(super) fn reload(&mut self) -> Result<(), String> {
        self.log.reopen();
        let Some(again) = &self.read_again else {
            let why = "it was started by options only: there is no configuration to read again";
            self.log.event(Level::Info, "the file of the log was opened again, nothing else", &[("reason", why)]);
            return Ok(());
        };
        let config = again()?;
        if config.site != self.site {
            return Err(format!("it is the relay of {}, and cannot become that of {}", self.site, config.site));
        }
        if let Some(key) = self.lasting.changed_by(&config) {
            return Err(format!("{key} cannot change while the relay is at work: stop it and start it again"));
        }
        let log = Log::configured(&config.log)?;
        let encryption = config.encryption(Some(&self.encryption)).map_err(|problem| problem.to_string())?;
        self.take_over_runs(&config)?;
        self.ends = config.ends;
        self.limit_memory_of_streams(config.stream_memory_b);
        if !self.log.is_in_memory() {
            self.log.go_on_as(log);
        }
        self.encrypt(encryption);
        self.take_over_links(&config);
        self.log.event(Level::Info, "configuration taken over", &[]);
        Ok(())
    }

    fn take_over_runs(&mut self, config: &Config) -> Result<(), String> {
        // All is checked before the first change: a configuration is taken over as a whole, or not at all.
        let mut secrets = Vec::new();
        for run in &config.runs {
            let secret = run.secret().map_err(|problem| problem.to_string())?;
            self.check_run(&run.name, &relay_key(&secret))?;
            secrets.push((run, secret));
        }
        let wanted: BTreeSet<&str> = config.runs.iter().map(|run| run.name.as_str()).collect();
        let is_gone = |name: &str, is_configured: bool| is_configured && !wanted.contains(name);
        let gone: Vec<String> = self
            .runs
            .iter()
            .filter(|(name, run)| is_gone(name, run.is_configured))
            .map(|(name, _)| name.clone())
            .collect();
        // There may be no descriptor for one that comes: none has gone then, what came goes again, and those that stay, whose lease
        // may be another one, have not had their turn.
        secrets.sort_by_key(|(run, _)| self.runs.contains_key(&run.name));
        let mut come = Vec::new();
        for (run, secret) in &secrets {
            match self.add_run(&run.name, secret, run.lease()) {
                Ok(true) => come.push(run.name.clone()),
                Ok(false) => {}
                Err(problem) => {
                    for run in &come {
                        self.remove_run(run);
                    }
                    return Err(problem);
                }
            }
        }
        for (run, _) in &secrets {
            if let Some(known) = self.runs.get_mut(&run.name) {
                known.is_configured = true;
            }
        }
        for run in gone {
            self.remove_run(&run);
        }
        Ok(())
    }
}
