//! How a relay is: one value, printed as JSON, for people, or as figures for Prometheus.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its site.
    pub site: String,
    /// The release of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has been running [s].
    pub uptime_s: f64,
    /// Where processes of its site find it.
    pub listen: Vec<String>,
    /// The socket of its owner.
    pub control: String,
    /// The SHA-256 of the certificate that it shows to other relays.
    #[serde(default)]
    pub certificate: String,
    /// Where Prometheus finds figures; empty: nowhere.
    #[serde(default)]
    pub metrics: String,
    /// Its runs, by name.
    pub runs: BTreeMap<String, RunStatus>,
    /// Its links to other relays.
    pub links: Vec<LinkStatus>,
    /// Other relays that are dialled for a run without success so far, or any more.
    #[serde(default)]
    pub not_linked: Vec<NotLinked>,
    /// Connections that have not proved anything yet.
    pub arrivals: u64,
    /// Connections that were turned away.
    pub refused: u64,
    /// Lines that the log has lost.
    pub log_lines_lost: u64,
    /// What streams and links may hold beyond what each has in any case, in bytes.
    #[serde(default)]
    pub stream_memory_bytes: u64,
    /// What of that is given to them.
    #[serde(default)]
    pub stream_memory_used_bytes: u64,
}

/// How a run is doing at a relay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Names that can be reached here.
    pub names: Vec<String>,
    /// Sites that can be reached from here, this one included.
    pub sites: Vec<String>,
    /// Streams that wait to be taken.
    pub waiting: u64,
    /// Streams that are open.
    pub streams: u64,
    /// Streams opened so far.
    pub opened: u64,
    /// Bytes that have passed, both ways together.
    pub bytes: u64,
    /// Bytes that wait here for a receiver.
    pub held_bytes: u64,
}

/// How a link is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Of which run it is.
    pub run: String,
    /// The site of the other relay; empty until it has said so.
    pub site: String,
    /// Where it was dialled; empty: it dialled this one.
    pub dialled: String,
    /// Whether what passes it is encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// `up`, or why not.
    pub state: String,
    /// The time there and back [ms]; 0 before it was measured.
    pub round_trip_ms: f64,
    /// TCP streams that carry.
    pub streams: u64,
    /// TCP streams that were lost.
    pub streams_lost: u64,
    /// How often it went on after all TCP streams had been lost.
    pub resumed: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Bytes that went.
    pub bytes_out: u64,
    /// Bytes that are kept until the other relay has them.
    pub kept_bytes: u64,
}

/// Why there is no link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NotLinked {
    /// Of which run it would be.
    pub run: String,
    /// Where the other relay is dialled.
    pub to: String,
    /// What went wrong the last time.
    pub reason: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "relay of {} (process {}, mto {}), up for {}",
            self.site,
            self.pid,
            self.version,
            span(self.uptime_s)
        )?;
        let listen = if self.listen.is_empty() { "nowhere".to_owned() } else { self.listen.join(", ") };
        writeln!(f, "  listens at {listen}")?;
        if self.runs.is_empty() {
            writeln!(f, "  no run")?;
        }
        for (name, run) in &self.runs {
            writeln!(
                f,
                "  run {name}: {} registered, {} open, {} opened so far, {} passed, {} held",
                counted(run.names.len() as u64, "name"),
                counted(run.streams, "stream"),
                run.opened,
                bytes(run.bytes),
                bytes(run.held_bytes),
            )?;
            if run.sites.len() > 1 {
                writeln!(f, "    sites in reach: {}", run.sites.join(" "))?;
            }
            if !run.names.is_empty() {
                writeln!(f, "    {}", run.names.join(" "))?;
            }
        }
        for link in &self.links {
            let to = if link.site.is_empty() { &link.dialled } else { &link.site };
            writeln!(
                f,
                "  link of run {} to {to}: {}, {:.3} ms, {}, {} in, {} out, {} kept",
                link.run,
                link.state,
                link.round_trip_ms,
                counted(link.streams, "stream"),
                bytes(link.bytes_in),
                bytes(link.bytes_out),
                bytes(link.kept_bytes),
            )?;
        }
        for NotLinked { run, to, reason } in &self.not_linked {
            writeln!(f, "  no link of run {run} to {to}: {reason}")?;
        }
        writeln!(f, "  {} turned away", counted(self.refused, "connection"))?;
        if self.log_lines_lost > 0 {
            writeln!(f, "  {} of the log could not be written", counted(self.log_lines_lost, "line"))?;
        }
        Ok(())
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn span(seconds: f64) -> String {
    match seconds as u64 {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min", s / 60),
        s if s < 172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}

fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_it_in_sentences() {
        let run = RunStatus { names: vec!["a".into(), "b".into()], streams: 1, bytes: 3 << 20, ..RunStatus::default() };
        let status = Status {
            site: "alpha".into(),
            version: "0.1.0".into(),
            pid: 7,
            uptime_s: 7300.0,
            listen: vec!["127.0.0.1:40001".into()],
            runs: BTreeMap::from([("canal".to_owned(), run)]),
            links: vec![
                LinkStatus {
                    run: "canal".into(),
                    site: "beta".into(),
                    state: "up".into(),
                    round_trip_ms: 12.5,
                    streams: 8,
                    bytes_in: 2048,
                    ..LinkStatus::default()
                },
                LinkStatus { run: "canal".into(), dialled: "gamma:1".into(), ..LinkStatus::default() },
            ],
            not_linked: vec![NotLinked { run: "canal".into(), to: "delta:1".into(), reason: "no such host".into() }],
            ..Status::default()
        };
        let text = status.to_string();
        assert!(text.starts_with("relay of alpha (process 7, mto 0.1.0), up for 2 h\n"), "{text}");
        assert!(
            text.contains("run canal: 2 names registered, 1 stream open, 0 opened so far, 3.0 MiB passed, 0 B held"),
            "{text}"
        );
        for line in [
            "  link of run canal to beta: up, 12.500 ms, 8 streams, 2.0 KiB in, 0 B out, 0 B kept\n",
            "  link of run canal to gamma:1: ",
            "  no link of run canal to delta:1: no such host\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
