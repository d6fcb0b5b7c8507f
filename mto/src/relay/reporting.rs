//! How the relay is.

use xmml_path::State;

use super::links::{Dial, Link};
use super::{Connection, Relay};
use crate::status::{LinkStatus, NotLinked, RunStatus, Status};

impl Relay {
    /// How it is now.
    pub fn status(&self) -> Status {
        let mut runs = std::collections::BTreeMap::new();
        for (name, run) in &self.runs {
            let mut status = RunStatus {
                names: run.registry.names().map(str::to_owned).collect(),
                sites: run.topology.distances().into_keys().collect(),
                waiting: run.registry.waiting() as u64,
                opened: run.opened,
                bytes: run.passed,
                ..RunStatus::default()
            };
            for pipe in self.pipes.values().filter(|pipe| pipe.run == *name) {
                status.streams += 1;
                status.bytes += pipe.passed();
                status.held_bytes += pipe.held();
            }
            runs.insert(name.clone(), status);
        }
        let figures = self.figures_door.as_ref().and_then(|(_, door)| door.local_addr().ok()).map(|at| at.to_string());
        let arrivals =
            self.connections.values().filter(|connection| matches!(connection, Connection::Pending(_)));
        let mut links: Vec<_> = self.links.iter().collect();
        links.sort_unstable_by_key(|(token, _)| **token);
        Status {
            site: self.site.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            listen: self.listen_at.clone(),
            control: self.control.clone(),
            certificate: self.encryption.tls.fingerprint().to_string(),
            metrics: figures.unwrap_or_default(),
            runs,
            links: links.into_iter().map(|(_, link)| link_status(link)).collect(),
            not_linked: self.dials.iter().filter_map(|dial| self.not_linked(dial)).collect(),
            arrivals: arrivals.count() as u64,
            refused: self.refused,
            log_lines_lost: self.log.lines_lost(),
            stream_memory_bytes: self.window_budget.total(),
            stream_memory_used_bytes: self.window_budget.spent(),
        }
    }

    /// Why there is no link where one is wanted, if that is known: it is dialled again, or the attempt under way has failed so far.
    fn not_linked(&self, dial: &Dial) -> Option<NotLinked> {
        let under_way = dial.link.and_then(|token| self.links.get(&token)?.path.why_not_open());
        let reason = under_way.unwrap_or_else(|| dial.why.clone());
        (!reason.is_empty()).then(|| NotLinked { run: dial.run.clone(), to: dial.target.to.clone(), reason })
    }
}

fn link_status(link: &Link) -> LinkStatus {
    let stats = link.path.stats();
    LinkStatus {
        run: link.run.clone(),
        site: link.site.clone().unwrap_or_default(),
        dialled: link.dialled.clone().unwrap_or_default(),
        encrypted: link.path.is_encrypted(),
        state: match link.path.state() {
            State::Open => "up".to_owned(),
            State::Opening => "not open yet".to_owned(),
            State::Broken(reason) => format!("broken ({reason})"),
            State::Closed => "closed".to_owned(),
            State::Failed(error) => format!("failed ({error})"),
        },
        round_trip_ms: link.measured().map_or(0.0, |time| time.as_secs_f64() * 1000.0),
        streams: stats.streams as u64,
        streams_lost: stats.streams_lost,
        resumed: stats.resumed,
        bytes_in: stats.bytes_in,
        bytes_out: stats.bytes_out,
        kept_bytes: stats.kept.iter().sum(),
    }
}
