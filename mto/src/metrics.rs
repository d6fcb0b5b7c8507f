//! The state of a relay as figures in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::status::Status;

/// Name, kind, and what it is.
type Metric = (&'static str, &'static str, &'static str);

const UPTIME: Metric = ("mto_uptime_seconds", "gauge", "How long the relay has been running.");
const ARRIVALS: Metric = ("mto_arrivals", "gauge", "Connections that have not proved anything yet.");
const REFUSED: Metric = ("mto_refused_total", "counter", "Connections that were turned away.");
const LOG_LOST: Metric = ("mto_log_lines_lost_total", "counter", "Lines that the log has lost.");
const MEMORY: Metric = ("mto_stream_memory_bytes", "gauge", "What streams and links may hold beyond what each has.");
const MEMORY_USED: Metric = ("mto_stream_memory_used_bytes", "gauge", "What of that is given to them.");
const NAMES: Metric = ("mto_names", "gauge", "Names that can be reached here.");
const STREAMS: Metric = ("mto_streams", "gauge", "Streams that are open.");
const OPENED: Metric = ("mto_streams_opened_total", "counter", "Streams opened so far.");
const BYTES: Metric = ("mto_bytes_total", "counter", "Bytes of streams that have passed, both ways together.");
const HELD: Metric = ("mto_held_bytes", "gauge", "Bytes that wait for a receiver.");
const LINK_UP: Metric = ("mto_link_up", "gauge", "Whether a link carries.");
const ROUND_TRIP: Metric = ("mto_link_round_trip_seconds", "gauge", "The time there and back on a link.");
const LINK_STREAMS: Metric = ("mto_link_tcp_streams", "gauge", "TCP streams of a link.");
const LINK_IN: Metric = ("mto_link_bytes_in_total", "counter", "Bytes that came by a link.");
const LINK_OUT: Metric = ("mto_link_bytes_out_total", "counter", "Bytes that went by a link.");
const LINK_KEPT: Metric = ("mto_link_kept_bytes", "gauge", "Bytes kept until the other relay has them.");
const LINK_LOST: Metric = ("mto_link_tcp_streams_lost_total", "counter", "TCP streams that a link has lost.");
const MISSING: Metric = ("mto_links_missing", "gauge", "Relays that are dialled for a run without success.");

/// The page.
pub fn page(status: &Status) -> String {
    let mut text = String::new();
    let one = |value: f64| vec![(String::new(), value)];
    metric(&mut text, UPTIME, &one(status.uptime_s));
    metric(&mut text, ARRIVALS, &one(status.arrivals as f64));
    metric(&mut text, REFUSED, &one(status.refused as f64));
    metric(&mut text, LOG_LOST, &one(status.log_lines_lost as f64));
    metric(&mut text, MEMORY, &one(status.stream_memory_bytes as f64));
    metric(&mut text, MEMORY_USED, &one(status.stream_memory_used_bytes as f64));
    let runs = |value: fn(&crate::status::RunStatus) -> u64| {
        status.runs.iter().map(|(name, run)| (labels(&[("run", name)]), value(run) as f64)).collect::<Vec<_>>()
    };
    metric(&mut text, NAMES, &runs(|run| run.names.len() as u64));
    metric(&mut text, STREAMS, &runs(|run| run.streams));
    metric(&mut text, OPENED, &runs(|run| run.opened));
    metric(&mut text, BYTES, &runs(|run| run.bytes));
    metric(&mut text, HELD, &runs(|run| run.held_bytes));
    let links = |value: fn(&crate::status::LinkStatus) -> f64| {
        // Two relays of one site may have dialled this one: the second is told from the first by its number.
        let mut counts = BTreeMap::new();
        let of = |link: &crate::status::LinkStatus| {
            let known = [("run", link.run.as_str()), ("site", &link.site), ("dialled", &link.dialled)];
            let count = counts.entry(labels(&known)).or_insert(0);
            *count += 1;
            let number = count.to_string();
            let all = match count {
                1 => labels(&known),
                _ => labels(&[&known[..], &[("number", &number)]].concat()),
            };
            (all, value(link))
        };
        status.links.iter().map(of).collect::<Vec<_>>()
    };
    metric(&mut text, LINK_UP, &links(|link| f64::from(u8::from(link.state == "up"))));
    metric(&mut text, ROUND_TRIP, &links(|link| link.round_trip_ms / 1000.0));
    metric(&mut text, LINK_STREAMS, &links(|link| link.streams as f64));
    metric(&mut text, LINK_IN, &links(|link| link.bytes_in as f64));
    metric(&mut text, LINK_OUT, &links(|link| link.bytes_out as f64));
    metric(&mut text, LINK_KEPT, &links(|link| link.kept_bytes as f64));
    metric(&mut text, LINK_LOST, &links(|link| link.streams_lost as f64));
    let missing = |run: &String| status.not_linked.iter().filter(|link| link.run == *run).count() as f64;
    let missing: Vec<_> = status.runs.keys().map(|run| (labels(&[("run", run)]), missing(run))).collect();
    metric(&mut text, MISSING, &missing);
    text
}

/// The answer to whoever asked by HTTP with this first line.
pub fn answer(first_line: &str, status: &Status) -> String {
    let (code, body) = match first_line.split(' ').collect::<Vec<_>>()[..] {
        ["GET", "/metrics" | "/", ..] => ("200 OK", page(status)),
        ["GET", ..] => ("404 Not Found", "The figures are at /metrics.\n".to_owned()),
        _ => ("405 Method Not Allowed", "Only GET is understood.\n".to_owned()),
    };
    format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn metric(text: &mut String, (name, kind, help): Metric, values: &[(String, f64)]) {
    // Writing into a String does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{LinkStatus, RunStatus};

    #[test]
    fn figures_are_named_by_run() {
        let run = RunStatus { streams: 3, ..RunStatus::default() };
        let status = Status { runs: [("a \"b\"".to_owned(), run)].into(), refused: 2, ..Status::default() };
        let page = page(&status);
        assert!(page.contains("# TYPE mto_refused_total counter\nmto_refused_total 2\n"), "{page}");
        assert!(page.contains("mto_streams{run=\"a \\\"b\\\"\"} 3\n"), "{page}");
    }

    #[test]
    fn links_of_one_site_have_labels_of_their_own() {
        let link = LinkStatus { run: "r".into(), site: "b".into(), ..LinkStatus::default() };
        let page = page(&Status { links: vec![link.clone(), link], ..Status::default() });
        let mut series: Vec<&str> = page.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        let count = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), count, "{page}");
    }

    #[test]
    fn every_figure_of_the_documentation_is_there_with_its_kind_and_no_other() {
        let text = include_str!("../../docs/relay.md");
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `mto_")?.split_once("` | "));
        let documented: Vec<String> =
            rows.filter_map(|(name, rest)| Some(format!("# TYPE mto_{name} {}", rest.split_once(' ')?.0))).collect();
        let page = page(&Status::default());
        let mut told: Vec<&str> = page.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        let mut documented: Vec<&str> = documented.iter().map(String::as_str).collect();
        told.sort_unstable();
        documented.sort_unstable();
        assert_eq!(told, documented);
    }

    #[test]
    fn only_get_is_answered_with_figures() {
        let status = Status::default();
        assert!(answer("GET /metrics HTTP/1.1", &status).starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(answer("GET /else HTTP/1.1", &status).starts_with("HTTP/1.1 404"));
        assert!(answer("POST / HTTP/1.1", &status).starts_with("HTTP/1.1 405"));
        assert!(answer("\x16\x03\x01", &status).starts_with("HTTP/1.1 405"));
    }
}
