//! What the relay writes about itself: one line per event, for people or as JSON. Strangers are mentioned once per source, and a log that
//! cannot be written never stops the relay.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;
use xmml_wire::error::explained;

use crate::nonblocking_output::{self, NonblockingOutput};

/// Sources that are remembered so that what is about them is written once.
const ONCE_MAX: usize = 4096;

/// The source of events that have nothing to do with others: what the system refuses to the relay.
pub const SYSTEM: &str = "system";

/// Reasons of one event that are written about one source.
const REASONS_MAX: usize = 16;

/// After so long the same reason is news.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// So often it is looked, at most, what can be forgotten.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// Longest values that are written, in bytes: the first with which the line is not too long.
const VALUES_MAX: [usize; 3] = [400, 100, 25];

/// Longest line, in bytes: so many, and the end of one that was cut before it, a pipe takes at once or not at all.
const LINE_MAX: usize = nonblocking_output::PIECE - 1;

/// What is written, and where.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// The file; without it, the standard error.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// For people or for programs.
    #[serde(default)]
    pub format: Format,
    /// How much.
    #[serde(default)]
    pub level: Level,
}

/// How much is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What somebody must mend.
    Error,
    /// What may need mending, such as strangers at the door.
    Warning,
    /// What happens: runs, names, links.
    #[default]
    Info,
    /// Every stream.
    Debug,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// For whom it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// People.
    #[default]
    Text,
    /// Programs: a JSON object per line.
    Json,
}

/// Where it is written.
enum Sink {
    Stderr(NonblockingOutput),
    File(PathBuf, File),
    /// Nowhere; for tests.
    Memory(Vec<u8>),
}

/// See the module.
pub struct Log {
    sink: Sink,
    format: Format,
    level: Level,
    once: HashSet<(String, &'static str)>,
    /// Reasons that were written, as hashes, and when, by event and what it is about.
    reasons: HashMap<&'static str, HashMap<String, HashMap<u64, Instant>>>,
    /// When it was last looked what can be forgotten.
    tidied: Option<Instant>,
    /// Only the beginning of the last line could be written.
    is_cut: bool,
    /// Lines that could not be written since the last one that could.
    lost: u64,
    /// The same since the beginning.
    lost_in_all: u64,
}

impl Log {
    /// As a configuration says.
    ///
    /// # Errors
    /// Its file cannot be opened: which, and why.
    pub fn configured(config: &LogConfig) -> Result<Log, String> {
        match &config.file {
            None => Ok(Log::to_stderr(config.format, config.level)),
            Some(file) => Log::to_file(file, config.format, config.level)
                .map_err(|error| format!("log: {} cannot be opened: {}", file.display(), explained(&error))),
        }
    }

    /// To the standard error.
    pub fn to_stderr(format: Format, level: Level) -> Log {
        Log {
            sink: Sink::Stderr(NonblockingOutput::stderr()),
            format,
            level,
            once: HashSet::new(),
            reasons: HashMap::new(),
            tidied: None,
            is_cut: false,
            lost: 0,
            lost_in_all: 0,
        }
    }

    /// Appends to a file, which only its owner may read if it is made here.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn to_file(path: &Path, format: Format, level: Level) -> io::Result<Log> {
        let sink = Sink::File(path.to_owned(), open(path)?);
        Ok(Log { sink, ..Log::to_stderr(format, level) })
    }

    /// Into memory.
    pub fn to_memory(format: Format, level: Level) -> Log {
        Log { sink: Sink::Memory(Vec::new()), ..Log::to_stderr(format, level) }
    }

    /// What was written into memory.
    pub fn written(&self) -> String {
        match &self.sink {
            Sink::Memory(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    }

    /// Opens the file anew, because somebody has moved it away.
    pub fn reopen(&mut self) {
        if let Sink::File(path, file) = &mut self.sink {
            if let Ok(fresh) = open(path) {
                *file = fresh;
            }
        }
    }

    /// Writes like `other` from now on, and where it does; what was written once is not written again.
    pub fn go_on_as(&mut self, other: Log) {
        (self.format, self.level, self.sink) = (other.format, other.level, other.sink);
    }

    /// Whether it is kept in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.sink, Sink::Memory(_))
    }

    /// How many lines could not be written.
    pub fn lines_lost(&self) -> u64 {
        self.lost_in_all
    }

    /// Writes an event with its facts.
    pub fn event(&mut self, level: Level, event: &str, facts: &[(&str, &str)]) {
        if level > self.level {
            return;
        }
        let line = line(self.format, level, event, facts, SystemTime::now());
        if self.lost > 0 {
            let lost = self.lost.to_string();
            let first = self::line(
                self.format,
                Level::Warning,
                "lines of the log were lost",
                &[("lines", &lost)],
                SystemTime::now(),
            );
            if self.write(&first).is_err() {
                self.lost += 1;
                self.lost_in_all += 1;
                return;
            }
            self.lost = 0;
        }
        if self.write(&line).is_err() {
            self.lost += 1;
            self.lost_in_all += 1;
        }
    }

    /// Writes an event about `source` unless the same has been written about it before. False: it had been.
    pub fn once(&mut self, source: &str, level: Level, event: &'static str, facts: &[(&str, &str)]) -> bool {
        // Of the relay's own events there are few, and strangers must not be able to silence them.
        let is_full = self.once.len() >= ONCE_MAX && source != SYSTEM;
        if is_full || !self.once.insert((source.to_owned(), event)) {
            return false;
        }
        self.event(level, event, facts);
        true
    }

    /// The same for each of the first reasons that there are for it with these facts, and again after a day; the reason is the last fact.
    pub fn once_for(&mut self, source: &str, reason: &str, level: Level, event: &'static str, facts: &[(&str, &str)]) {
        self.once_for_at(Instant::now(), source, reason, level, event, facts);
    }

    fn once_for_at(
        &mut self,
        now: Instant,
        source: &str,
        reason: &str,
        level: Level,
        event: &'static str,
        facts: &[(&str, &str)],
    ) {
        // Each event has room of its own: strangers, however many, must not be able to silence what is said of links.
        let known = self.reasons.entry(event).or_default();
        let about = format!("{source} {facts:?}");
        let is_remembered = |written: &Instant| now.saturating_duration_since(*written) < REMEMBERED;
        if known.len() >= ONCE_MAX && !known.contains_key(&about) {
            if self.tidied.is_some_and(|tidied| now.saturating_duration_since(tidied) < TIDY_EVERY) {
                return;
            }
            self.tidied = Some(now);
            known.retain(|_, written| written.values().any(is_remembered));
            if known.len() >= ONCE_MAX {
                return;
            }
        }
        let written = known.entry(about).or_default();
        written.retain(|_, written| is_remembered(written));
        let reason_hash = hash(reason);
        if written.len() < REASONS_MAX && !written.contains_key(&reason_hash) {
            written.insert(reason_hash, now);
            self.event(level, event, &[facts, &[("reason", reason)]].concat());
        }
    }

    /// Writes a line at once, or not: nobody may read what is written, and the relay has other things to do than to wait.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let whole = match self.is_cut {
            true => format!("\n{line}"),
            false => line.to_owned(),
        };
        let count = match &mut self.sink {
            Sink::Stderr(outlet) => outlet.write(whole.as_bytes())?,
            Sink::File(_, file) => file.write(whole.as_bytes())?,
            Sink::Memory(bytes) => bytes.write(whole.as_bytes())?,
        };
        self.is_cut = count < whole.len();
        match self.is_cut {
            true => Err(io::ErrorKind::WriteZero.into()),
            false => Ok(()),
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Never waits: not for a reader of a pipe either.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

/// One line, its end included.
pub fn line(format: Format, level: Level, event: &str, facts: &[(&str, &str)], now: SystemTime) -> String {
    let with = |most: usize| line_with_values(format, level, event, facts, now, most);
    let fits = |line: &String| line.len() <= LINE_MAX;
    VALUES_MAX.into_iter().map(with).find(fits).unwrap_or_else(|| line_with_values(format, level, event, &[], now, 0))
}

fn line_with_values(
    format: Format,
    level: Level,
    event: &str,
    facts: &[(&str, &str)],
    now: SystemTime,
    most: usize,
) -> String {
    let time = humantime::format_rfc3339_millis(now).to_string();
    match format {
        Format::Json => {
            let mut object = serde_json::Map::new();
            for (key, value) in [("time", time.as_str()), ("level", level.name()), ("event", event)] {
                object.insert(key.to_owned(), value.into());
            }
            for (key, value) in facts {
                object.insert((*key).to_owned(), shortened(value, most).into());
            }
            format!("{}\n", serde_json::Value::Object(object))
        }
        Format::Text => {
            let mut line = format!("{time} {}: {event}", level.name());
            for (key, value) in facts {
                let value = shortened(value, most);
                let is_plain = !value.is_empty() && value.chars().all(|c| c.is_ascii_graphic() && c != '"');
                match is_plain {
                    true => line.push_str(&format!(" {key}={value}")),
                    false => line.push_str(&format!(" {key}={}", serde_json::Value::from(value))),
                }
            }
            line.push('\n');
            line
        }
    }
}

/// What a stranger says must not fill the log.
fn shortened(value: &str, most: usize) -> &str {
    let mut len = value.len().min(most);
    while !value.is_char_boundary(len) {
        len -= 1;
    }
    &value[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_however_many_do_not_silence_what_the_system_refuses() {
        let mut log = Log::to_memory(Format::Text, Level::Info);
        for stranger in 0..=ONCE_MAX {
            log.once(&stranger.to_string(), Level::Info, "turned away", &[]);
        }
        assert!(!log.once("one more", Level::Info, "turned away", &[]));
        assert!(log.once(SYSTEM, Level::Error, "cannot accept connections for a moment", &[]));
        assert!(!log.once(SYSTEM, Level::Error, "cannot accept connections for a moment", &[]));
    }

    #[test]
    fn a_line_is_for_people_or_for_programs() {
        let facts = [("run", "canal"), ("reason", "it \"said\"\nso")];
        let at = SystemTime::UNIX_EPOCH;
        let text = line(Format::Text, Level::Warning, "refused", &facts, at);
        assert_eq!(text, "1970-01-01T00:00:00.000Z warning: refused run=canal reason=\"it \\\"said\\\"\\nso\"\n");
        let json: serde_json::Value =
            serde_json::from_str(&line(Format::Json, Level::Warning, "refused", &facts, at)).unwrap();
        assert_eq!((json["event"].as_str(), json["reason"].as_str()), (Some("refused"), Some("it \"said\"\nso")));
    }

    #[test]
    fn the_same_about_the_same_source_is_written_once() {
        let mut log = Log::to_memory(Format::Text, Level::Info);
        for source in ["a", "b", "a"] {
            log.once(source, Level::Warning, "refused", &[("source", source)]);
        }
        assert_eq!(log.written().lines().count(), 2);
    }

    #[test]
    fn each_reason_is_written_once_and_not_without_end() {
        let mut log = Log::to_memory(Format::Text, Level::Info);
        for reason in ["nobody is there", "its proof is wrong", "nobody is there"] {
            log.once_for("b", reason, Level::Warning, "no link", &[("to", "b")]);
        }
        assert_eq!(log.written().lines().count(), 2);
        assert!(log.written().contains("no link to=b reason=\"its proof is wrong\""), "{}", log.written());
        for reason in 0..2 * REASONS_MAX {
            log.once_for("b", &reason.to_string(), Level::Warning, "no link", &[("to", "b")]);
        }
        assert_eq!(log.written().lines().count(), REASONS_MAX);
    }

    #[test]
    fn the_same_reason_is_news_for_another_run_and_on_another_day() {
        let mut log = Log::to_memory(Format::Text, Level::Info);
        let began = Instant::now();
        let mut tell = |run: &str, hours: u64| {
            let at = began + Duration::from_secs(hours * 3600);
            log.once_for_at(at, "b", "nobody is there", Level::Warning, "no link", &[("run", run)]);
            log.written().lines().count()
        };
        assert_eq!(
            [tell("one", 0), tell("two", 1), tell("one", 23), tell("one", 24), tell("two", 24)],
            [1, 2, 2, 3, 3]
        );
        assert_eq!(tell("two", 25), 4);
    }

    #[test]
    fn strangers_of_another_day_take_no_room() {
        let mut log = Log::to_memory(Format::Text, Level::Info);
        let began = Instant::now();
        let mut come = |strangers: std::ops::Range<usize>, at: Instant| {
            for stranger in strangers {
                log.once_for_at(at, &stranger.to_string(), "it said nothing", Level::Warning, "turned away", &[]);
            }
            log.written().lines().count()
        };
        assert_eq!(come(0..ONCE_MAX + 1, began), ONCE_MAX);
        assert_eq!(come(ONCE_MAX + 1..ONCE_MAX + 11, began + REMEMBERED), ONCE_MAX + 10);
    }

    #[test]
    fn strangers_without_number_silence_no_reason_of_a_link() {
        let mut log = Log::to_memory(Format::Text, Level::Info);
        for stranger in 0..2 * ONCE_MAX {
            let source = stranger.to_string();
            log.once_for(&source, "it said nothing", Level::Warning, "turned away", &[("source", &source)]);
        }
        assert_eq!(log.written().lines().count(), ONCE_MAX);
        log.once_for("0", "its proof is wrong", Level::Warning, "turned away", &[("source", "0")]);
        log.once_for("b", "nobody is there", Level::Warning, "no link", &[("to", "b")]);
        for expected in ["turned away source=0 reason=\"its proof is wrong\"", "no link to=b"] {
            assert!(log.written().contains(expected), "{expected}");
        }
    }

    #[test]
    fn a_line_is_never_longer_than_what_a_pipe_takes_at_once() {
        let long = "\u{1}".repeat(2 * LINE_MAX);
        let facts = [("run", long.as_str()), ("name", &long), ("from", &long), ("reason", &long)];
        for format in [Format::Text, Format::Json] {
            let line = line(format, Level::Info, "said", &facts, SystemTime::UNIX_EPOCH);
            assert!(line.len() <= LINE_MAX && line.contains("\\u0001") && line.ends_with('\n'), "{line}");
        }
    }

    #[test]
    fn a_line_that_was_cut_is_counted_as_lost_and_ended_before_the_next() {
        let mut log = Log::to_memory(Format::Text, Level::Info);
        (log.is_cut, log.lost) = (true, 1);
        log.event(Level::Info, "next", &[]);
        assert!(log.written().starts_with('\n') && log.written().lines().count() == 3, "{}", log.written());
    }

    #[test]
    fn sources_without_number_do_not_fill_memory_or_log() {
        let mut log = Log::to_memory(Format::Text, Level::Info);
        for source in 0..2 * ONCE_MAX {
            log.once(&source.to_string(), Level::Warning, "refused", &[]);
        }
        assert_eq!(log.written().lines().count(), ONCE_MAX);
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let mut log = Log::to_file(Path::new("/dev/full"), Format::Text, Level::Info).unwrap();
        log.event(Level::Info, "one", &[]);
        log.event(Level::Info, "two", &[]);
        assert_eq!(log.lines_lost(), 2);
        log.sink = Sink::Memory(Vec::new());
        log.event(Level::Info, "three", &[]);
        assert!(log.written().contains("lines of the log were lost lines=2"), "{}", log.written());
        assert!(log.written().contains("three"));
    }
}
