//! The state of a relay as figures in the text format of Prometheus.

use std::fmt::Write;

use crate::status::Status;

/// Name, kind, and what it is.
type Metric = (&'static str, &'static str, &'static str);

const UPTIME: Metric = ("mto_uptime_seconds", "gauge", "How long the relay has been running.");
const ARRIVALS: Metric = ("mto_arrivals", "gauge", "Connections that have not proved anything yet.");
const REFUSED: Metric = ("mto_refused_total", "counter", "Connections that were turned away.");
const LOG_LOST: Metric = ("mto_log_lines_lost_total", "counter", "Lines that the log has lost.");
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

/// The page.
pub fn page(status: &Status) -> String {
    let mut text = String::new();
    let one = |value: f64| vec![(String::new(), value)];
    metric(&mut text, UPTIME, &one(status.uptime_s));
    metric(&mut text, ARRIVALS, &one(status.arrivals as f64));
    metric(&mut text, REFUSED, &one(status.refused as f64));
    metric(&mut text, LOG_LOST, &one(status.log_lines_lost as f64));
    let runs = |value: fn(&crate::status::RunStatus) -> u64| {
        status.runs.iter().map(|(name, run)| (labels(&[("run", name)]), value(run) as f64)).collect::<Vec<_>>()
    };
    metric(&mut text, NAMES, &runs(|run| run.names.len() as u64));
    metric(&mut text, STREAMS, &runs(|run| run.streams));
    metric(&mut text, OPENED, &runs(|run| run.opened));
    metric(&mut text, BYTES, &runs(|run| run.bytes));
    metric(&mut text, HELD, &runs(|run| run.held_bytes));
    let links = |value: fn(&crate::status::LinkStatus) -> f64| {
        let of = |link: &crate::status::LinkStatus| {
            (labels(&[("run", &link.run), ("site", &link.site), ("dialled", &link.dialled)]), value(link))
        };
        status.links.iter().map(of).collect::<Vec<_>>()
    };
    metric(&mut text, LINK_UP, &links(|link| f64::from(u8::from(link.state == "up"))));
    metric(&mut text, ROUND_TRIP, &links(|link| link.round_trip_ms / 1000.0));
    metric(&mut text, LINK_STREAMS, &links(|link| link.streams as f64));
    metric(&mut text, LINK_IN, &links(|link| link.bytes_in as f64));
    metric(&mut text, LINK_OUT, &links(|link| link.bytes_out as f64));
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
    use crate::status::RunStatus;

    #[test]
    fn figures_are_named_by_run() {
        let run = RunStatus { streams: 3, ..RunStatus::default() };
        let status = Status { runs: [("a \"b\"".to_owned(), run)].into(), refused: 2, ..Status::default() };
        let page = page(&status);
        assert!(page.contains("# TYPE mto_refused_total counter\nmto_refused_total 2\n"), "{page}");
        assert!(page.contains("mto_streams{run=\"a \\\"b\\\"\"} 3\n"), "{page}");
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
