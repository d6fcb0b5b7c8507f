//! What a relay is to do, as a TOML file says. Every mistake is told with its place, before anything is started.

use std::ffi::CString;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::net::ToSocketAddrs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use socket2::{Domain, Socket, Type};
use xmml_path::{Credentials, Fingerprint, LinkFigures, OutOfTime, MAX_STREAMS};
use xmml_wire::error::Error;
use xmml_wire::handshake::MAX_NAME;
use xmml_wire::methods::relay::address::site_problem;
use xmml_wire::private_file;
use xmml_wire::relay_key::RelayKey;

use crate::encryption::Encryption;
use crate::log::LogConfig;
use crate::window;

/// Largest file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Longest name of an abstract socket, the @ included, in bytes.
const CONTROL_MAX: usize = 108;

/// No two hosts are further apart [s].
const LATENCY_MOST_S: f64 = 60.0;

/// See the module.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The site that the relay stands at.
    pub site: String,
    /// Where processes of the site find it: `HOST:PORT`, port 0 for any free one.
    #[serde(default)]
    pub listen: Vec<String>,
    /// The abstract Unix socket by which its owner speaks with it (`@name`); without it, one named after user and site.
    #[serde(default)]
    pub control: Option<String>,
    /// How to end.
    #[serde(default)]
    pub ends: Ends,
    /// Where Prometheus finds figures, on a loopback address; without it, nowhere.
    #[serde(default)]
    pub metrics: Option<String>,
    /// Whether links that it dials are encrypted where they do not say otherwise.
    #[serde(default = "yes")]
    pub encrypt: bool,
    /// The sites whose relays may link themselves to this one without encryption.
    #[serde(default)]
    pub clear_from: Vec<String>,
    /// The file with the certificate that it shows to other relays and its key, relative to the configuration; without it, one is made
    /// at the start.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// The SHA-256 of the certificates of the relays that it believes; without any, it believes all that know the run.
    #[serde(default)]
    pub trusted: Vec<String>,
    /// What streams and links together may hold beyond what each has in any case (64 KiB, and 1 MiB for each class), in bytes.
    #[serde(default = "usual_growth")]
    pub stream_memory_b: u64,
    /// What is written.
    #[serde(default)]
    pub log: LogConfig,
    /// The relays that it dials, for every run. (Others may dial it: it takes them where it listens.)
    #[serde(default, rename = "link")]
    pub links: Vec<LinkConfig>,
    /// The runs that it serves from the beginning.
    #[serde(default, rename = "run")]
    pub runs: Vec<RunConfig>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            site: String::new(),
            listen: Vec::new(),
            control: None,
            ends: Ends::default(),
            metrics: None,
            encrypt: true,
            clear_from: Vec::new(),
            certificate: None,
            trusted: Vec::new(),
            stream_memory_b: window::GROWTH,
            log: LogConfig::default(),
            links: Vec::new(),
            runs: Vec::new(),
        }
    }
}

fn yes() -> bool {
    true
}

fn usual_growth() -> u64 {
    window::GROWTH
}

/// When the relay ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ends {
    /// Never.
    #[default]
    Never,
    /// When it has had a run, and has none any more.
    WithLastRun,
}

/// A relay to be dialled.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Where it listens: `HOST:PORT`, maybe that of a forwarded port.
    pub to: String,
    /// TCP streams of the link, 1 to 128; without it, as many as pay.
    #[serde(default)]
    pub streams: Option<u32>,
    /// Whether it is encrypted; without it, as links of this relay are.
    #[serde(default)]
    pub encrypt: Option<bool>,
    /// How long bytes take to the other relay [s], as far as that is known beforehand; the link itself measures it.
    #[serde(default)]
    pub latency_s: Option<f64>,
    /// What the link carries [bytes/s], as far as that is known beforehand. With the latency it says with how many streams to begin.
    #[serde(default)]
    pub bandwidth_b_s: Option<f64>,
}

impl LinkConfig {
    /// What is known of the link beforehand.
    pub fn figures(&self) -> Option<LinkFigures> {
        let one_way = Duration::try_from_secs_f64(self.latency_s?).ok()?;
        Some(LinkFigures { round_trip: 2 * one_way, bandwidth: self.bandwidth_b_s? })
    }

    fn check(&self) -> Result<(), Problem> {
        check_address("link", &self.to)?;
        let wrong = |what: String| Err(Problem(format!(" link to {}: {what}", self.to)));
        if self.streams.is_some_and(|streams| !(1..=MAX_STREAMS).contains(&streams)) {
            return wrong(format!("streams must be 1 to {MAX_STREAMS}"));
        }
        if self.latency_s.is_some_and(|latency| !(0.0..=LATENCY_MOST_S).contains(&latency)) {
            return wrong(format!("latency_s must be a number of seconds from 0 to {LATENCY_MOST_S}"));
        }
        if self.bandwidth_b_s.is_some_and(|bandwidth| !bandwidth.is_finite() || bandwidth <= 0.0) {
            return wrong("bandwidth_b_s must be a number of bytes per second above 0".to_owned());
        }
        if self.latency_s.is_some() != self.bandwidth_b_s.is_some() {
            return wrong("latency_s and bandwidth_b_s say something together only; give both or neither".to_owned());
        }
        Ok(())
    }
}

/// A link as the command line has it: `HOST:PORT`, then `KEY=VALUE` with the keys and values of a configuration, all with commas between.
impl FromStr for LinkConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<LinkConfig, String> {
        let mut words = text.split(',');
        let to = words.next().unwrap_or_default();
        let keys: Vec<&str> = words.collect();
        let link: LinkConfig = toml::from_str(&format!("to = ''\n{}", keys.join("\n")))
            .map_err(|error| format!("{}; expected HOST:PORT,streams=8,encrypt=true,...", error.message().trim()))?;
        Ok(LinkConfig { to: to.to_owned(), ..link })
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Its name.
    pub name: String,
    /// The file with its relay key (`mto relay-key`), readable by its owner only; relative to the configuration.
    pub relay_key_file: PathBuf,
    /// The run is forgotten when nobody of it has been connected for so long [s]; without it, never.
    #[serde(default)]
    pub lease_s: Option<f64>,
}

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Config {
    /// Reads a file; relay keys are not read yet.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(path: &Path) -> Result<Config, Problem> {
        let text = read_bounded(path, FILE_MAX).map_err(|problem| Problem(format!("{}: {problem}", path.display())))?;
        let mut config =
            Config::parse(&text).map_err(|Problem(problem)| Problem(format!("{}:{problem}", path.display())))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        for run in &mut config.runs {
            run.relay_key_file = folder.join(&run.relay_key_file);
        }
        if let Some(file) = &mut config.certificate {
            *file = folder.join(&*file);
        }
        if let Some(file) = &mut config.log.file {
            *file = folder.join(&*file);
        }
        Ok(config)
    }

    /// Reads the text of a file. A problem begins with line and column where they are known.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Config, Problem> {
        let config: Config = toml::from_str(text).map_err(|error| {
            let place = error.span().map_or_else(String::new, |span| {
                let before = &text[..span.start.min(text.len())];
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
                format!("{line}:{column}: ")
            });
            Problem(format!("{place}{}", error.message().trim()))
        })?;
        config.check()?;
        Ok(config)
    }

    /// Whether what it says can be.
    ///
    /// # Errors
    /// What cannot.
    pub fn check(&self) -> Result<(), Problem> {
        if let Some(problem) = site_problem(&self.site) {
            return Err(Problem(format!(" site: {problem}")));
        }
        for address in &self.listen {
            check_address("listen", address)?;
        }
        self.links.iter().try_for_each(LinkConfig::check)?;
        if let Some(problem) = self.clear_from.iter().find_map(|site| site_problem(site)) {
            return Err(Problem(format!(" clear_from: {problem}")));
        }
        self.fingerprints()?;
        if let Some(address) = &self.metrics {
            check_address("metrics", address)?;
            let is_loopback =
                address.starts_with("127.") || address.starts_with("localhost:") || address.starts_with("[::1]");
            if !is_loopback {
                return Err(Problem(format!(
                    " metrics: \"{address}\" is not a loopback address; use 127.0.0.1:PORT, and forward it if it must be seen elsewhere"
                )));
            }
        }
        if let Some(control) = &self.control {
            if !control.starts_with('@') || control.len() < 2 {
                return Err(Problem(format!(
                    " control: \"{control}\" is not the name of an abstract socket; expected @NAME"
                )));
            }
            if control.len() > CONTROL_MAX || control.contains('\0') {
                return Err(Problem(format!(
                    " control: \"{control}\" cannot name a socket; expected @NAME of at most {CONTROL_MAX} bytes"
                )));
            }
        }
        for (index, run) in self.runs.iter().enumerate() {
            if self.runs[..index].iter().any(|other| other.name == run.name) {
                return Err(Problem(format!(" run: \"{}\" is there twice", run.name)));
            }
            if run.name.is_empty() || run.name.len() > MAX_NAME {
                return Err(Problem(format!(" run \"{}\": the name of a run has 1 to {MAX_NAME} bytes", run.name)));
            }
            let is_time = |lease: f64| lease > 0.0 && Duration::try_from_secs_f64(lease).is_ok();
            if run.lease_s.is_some_and(|lease| !is_time(lease)) {
                return Err(Problem(format!(" run \"{}\": lease_s must be a number of seconds above 0", run.name)));
            }
        }
        Ok(())
    }

    /// Whether it can be done on this machine, as far as can be said without doing it: no port stays open, and no file is made.
    ///
    /// # Errors
    /// What cannot.
    pub fn check_here(&self) -> Result<(), Problem> {
        for address in &self.listen {
            check_bound("listen", address)?;
        }
        if let Some(address) = &self.metrics {
            check_bound("metrics", address)?;
        }
        match &self.log.file {
            Some(file) => check_log(file),
            None => Ok(()),
        }
    }

    fn fingerprints(&self) -> Result<Vec<Fingerprint>, Problem> {
        let read = |text: &String| text.parse().map_err(|error| Problem(format!(" trusted: {error}")));
        self.trusted.iter().map(read).collect()
    }

    /// How links are protected: reads the certificate, or makes one, but keeps one that was made `before`.
    ///
    /// # Errors
    /// It cannot be read, or others can read it, or it is none, or not good now; a fingerprint is none.
    pub fn encryption(&self, before: Option<&Encryption>) -> Result<Encryption, Problem> {
        let encryption = self.encryption_by_certificate(before)?;
        Ok(encryption.taking_clear_from(self.clear_from.iter().map(String::as_str)))
    }

    fn encryption_by_certificate(&self, before: Option<&Encryption>) -> Result<Encryption, Problem> {
        let trusted = self.fingerprints()?;
        let wrong = |error: Error| Problem(error.to_string());
        let Some(file) = &self.certificate else {
            let made = match before.filter(|before| before.is_self_made()) {
                Some(before) => before.clone(),
                None => Encryption::self_made(&self.site).map_err(wrong)?,
            };
            return made.but(&trusted, self.encrypt).map_err(wrong);
        };
        let problem = |text: String| Problem(format!("certificate: {}: {text}", file.display()));
        let text = private_file::read(file, private_file::KEY_MAX, "this key").map_err(problem)?;
        let mine = Credentials::from_pem(&text).map_err(|error| problem(error.to_string()))?;
        if let Some(why) = mine.out_of_time(SystemTime::now()) {
            return Err(problem(explained(why)));
        }
        Encryption::with(&mine, &trusted, self.encrypt).map_err(wrong)
    }

    /// The name of the socket by which the owner speaks with the relay.
    pub fn control(&self) -> String {
        self.control.clone().unwrap_or_else(|| default_control(&self.site))
    }
}

impl RunConfig {
    /// Reads its relay key.
    ///
    /// # Errors
    /// It cannot be read, others can read it, or it is none.
    pub fn relay_key(&self) -> Result<RelayKey, Problem> {
        let file = &self.relay_key_file;
        RelayKey::read(file).map_err(|text| Problem(format!("run \"{}\": {}: {text}", self.name, file.display())))
    }

    /// Its lease.
    pub fn lease(&self) -> Option<Duration> {
        self.lease_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }
}

/// The name of the socket of a relay at this site, if nothing else is said.
pub fn default_control(site: &str) -> String {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    format!("@xmml-mto-{user}-{site}")
}

fn check_address(what: &str, address: &str) -> Result<(), Problem> {
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(Problem(format!(" {what}: \"{address}\" is not an address; expected HOST:PORT, e.g. 0.0.0.0:40001"))),
    }
}

/// Whether an address is one of this machine. That it is taken is no mistake: by the relay that is at work with this configuration.
fn check_bound(what: &str, address: &str) -> Result<(), Problem> {
    let wrong = |error: io::Error| {
        Problem(format!(
            "{what}: \"{address}\": {error}; expected HOST:PORT with a host of this machine, e.g. 0.0.0.0:40001"
        ))
    };
    let mut why = io::Error::other("the host has no internet address");
    for found in address.to_socket_addrs().map_err(wrong)? {
        let socket = Socket::new(Domain::for_address(found), Type::STREAM, None).map_err(wrong)?;
        match socket.set_reuse_address(true).and_then(|()| socket.bind(&found.into())) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => why = error,
            _ => return Ok(()),
        }
    }
    Err(wrong(why))
}

/// Whether a log can be appended to this file, or the file be made.
fn check_log(file: &Path) -> Result<(), Problem> {
    let wrong = |error: io::Error| {
        let expected = "expected a file that can be written, in a folder that is there";
        Err(Problem(format!("log: {} cannot be opened: {error}; {expected}", file.display())))
    };
    match OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(file) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return wrong(error),
        Err(_) => {}
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else {
        return wrong(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: the name ends with a zero and outlives the call.
    match unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } {
        0 => Ok(()),
        _ => wrong(io::Error::last_os_error()),
    }
}

/// Why a certificate is not good, and what to do.
fn explained(why: OutOfTime) -> String {
    let date = |time: SystemTime| humantime::format_rfc3339_seconds(time);
    let what = match why {
        OutOfTime::Expired { at } => format!("this certificate was valid until {}", date(at)),
        OutOfTime::NotYet { from } => {
            format!("this certificate is not valid before {}; is the clock of this host right?", date(from))
        }
    };
    format!("{what}: no other relay would believe it; make another with \"mto certificate FILE\", and name its SHA-256 wherever this one is trusted")
}

fn read_bounded(path: &Path, most: u64) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > most {
        return Err(format!("it has {size} bytes; at most {most} are read"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Config::parse(text).unwrap_err().0
    }

    #[test]
    fn a_configuration_needs_no_more_than_a_site() {
        let config = Config::parse("site = 'alpha'").unwrap();
        assert_eq!(config.ends, Ends::Never);
        assert!(config.control().ends_with("-alpha"));
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        assert_eq!(problem("site = 'alpha'\nlissten = []"), "2:1: unknown field `lissten`, expected one of `site`, `listen`, `control`, `ends`, `metrics`, `encrypt`, `clear_from`, `certificate`, `trusted`, `stream_memory_b`, `log`, `link`, `run`");
        assert!(problem("site = 'alpha'\nlisten = 3").starts_with("2:10: "));
        assert!(problem("site = 'alpha'\n[[run]]\nname = 'r'").contains("relay_key_file"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, expected) in [
            ("site = 'al pha'", "not the name of a site"),
            ("site = 'a'\nlisten = ['login']", "expected HOST:PORT"),
            ("site = 'a'\n[[link]]\nto = 'b'", "expected HOST:PORT"),
            ("site = 'a'\n[[link]]\nto = 'b:1'\nstreams = 0", "1 to 128"),
            ("site = 'a'\n[[link]]\nto = 'b:1'\nlatency_s = -1\nbandwidth_b_s = 1.0", "from 0 to 60"),
            ("site = 'a'\n[[link]]\nto = 'b:1'\nlatency_s = 1\nbandwidth_b_s = nan", "above 0"),
            ("site = 'a'\n[[link]]\nto = 'b:1'\nlatency_s = 0.01", "both or neither"),
            ("site = 'a'\nclear_from = ['al pha']", "clear_from: "),
            ("site = 'a'\ntrusted = ['00ff']", "64 hexadecimal digits"),
            ("site = 'a'\nmetrics = '0.0.0.0:1'", "loopback"),
            ("site = 'a'\ncontrol = '/tmp/x'", "expected @NAME"),
            (
                "site = 'a'\n[[run]]\nname = 'r'\nrelay_key_file = 's'\n[[run]]\nname = 'r'\nrelay_key_file = 's'",
                "twice",
            ),
            ("site = 'a'\n[[run]]\nname = 'r'\nrelay_key_file = 's'\nlease_s = -1.0", "above 0"),
            ("site = 'a'\n[[run]]\nname = 'r'\nrelay_key_file = 's'\nlease_s = 1e300", "above 0"),
            ("site = 'a'\n[[run]]\nname = ''\nrelay_key_file = 's'", "1 to 255 bytes"),
            (&format!("site = 'a'\n[[run]]\nname = '{}'\nrelay_key_file = 's'", "r".repeat(256)), "1 to 255 bytes"),
            (&format!("site = 'a'\ncontrol = '@{}'", "c".repeat(108)), "at most 108 bytes"),
        ] {
            assert!(problem(text).contains(expected), "{text}: {}", problem(text));
        }
    }

    #[test]
    fn a_relay_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let file = std::env::temp_dir().join(format!("mto-relay-key-{}", std::process::id()));
        std::fs::write(&file, RelayKey::of(b"the secret").to_text()).unwrap();
        let run = RunConfig { name: "r".into(), relay_key_file: file.clone(), lease_s: None };
        for (mode, is_fine) in [(0o640, false), (0o600, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(run.relay_key().is_ok(), is_fine, "{mode:o}");
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_link_is_written_alike_in_a_file_and_on_the_command_line() {
        let in_file =
            "site = 'a'\n[[link]]\nto = 'b:1'\nstreams = 3\nencrypt = false\nlatency_s = 0.01\nbandwidth_b_s = 1e8";
        let link: LinkConfig = "b:1,streams=3,encrypt=false,latency_s=0.01,bandwidth_b_s=1e8".parse().unwrap();
        assert_eq!(Config::parse(in_file).unwrap().links[..], *std::slice::from_ref(&link));
        assert_eq!(link.figures(), Some(LinkFigures { round_trip: Duration::from_millis(20), bandwidth: 1e8 }));
        let plain: LinkConfig = "[::1]:40001".parse().unwrap();
        assert_eq!((plain.to.as_str(), plain.streams, plain.figures()), ("[::1]:40001", None, None));
        for (text, expected) in [
            ("b:1,stream=3", "unknown field `stream`"),
            ("b:1,streams=many", "HOST:PORT,streams=8"),
            ("b:1,streams=3,streams=4", "duplicate"),
            ("b:1,to='c:1'", "duplicate"),
        ] {
            let problem = text.parse::<LinkConfig>().unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
