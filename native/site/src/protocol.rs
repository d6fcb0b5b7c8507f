//! What the supervisor is told, and what it reports: one line of JSON each.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::de::{self, Visitor};
use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::lines::shortened;

/// An order to the supervisor.
#[derive(Debug)]
pub enum Order {
    /// Start a process.
    Start(Box<Start>),
    /// Send a signal to the process group of an instance, or of what hosts it.
    Signal(Signal),
    /// This process, below that of the instance, is the one that has joined the run.
    Watch(Watch),
    /// Remove a file, or a folder, when everything has ended.
    Remove(Remove),
    /// End what is left, then the supervisor.
    Quit,
}

/// A process to be started.
#[derive(Debug, Deserialize, Serialize)]
pub struct Start {
    /// Of its instance, its build, or of the process that instances share.
    pub name: String,
    /// The path of the program, and its arguments.
    pub command: Vec<Text>,
    /// What is added to the environment.
    pub env: BTreeMap<Text, Text>,
    /// Its working folder. This path and the next two are absolute, or relative to the folder of the run.
    pub folder: Text,
    /// The file that its standard output is appended to.
    #[serde(default)]
    pub stdout: Text,
    /// The file that its standard error is appended to.
    #[serde(default)]
    pub stderr: Text,
    /// A terminal that it gets instead of captured streams.
    pub terminal: Option<Text>,
    /// The instances that it hosts and reports about.
    pub hosted: Vec<String>,
    /// The fork server may start it.
    pub fork: bool,
    /// The CPUs that it may use; none: the same as this process.
    pub cpus: Option<Vec<usize>>,
}

/// An order as an agent passes it on.
#[derive(Debug, Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Told<'a> {
    /// See [`Order::Start`].
    Start(&'a Start),
}

/// See [`Order::Signal`].
#[derive(Debug, Deserialize)]
pub struct Signal {
    /// The instance.
    pub name: String,
    /// The number of the signal.
    pub signal: i32,
}

/// See [`Order::Watch`].
#[derive(Debug, Deserialize)]
pub struct Watch {
    /// The instance.
    pub name: String,
    /// The process.
    pub pid: i32,
}

/// See [`Order::Remove`].
#[derive(Debug, Deserialize)]
pub struct Remove {
    /// The file or folder.
    pub path: Text,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "do", borrow)]
    what: Cow<'a, str>,
}

impl Order {
    /// Reads an order.
    ///
    /// # Errors
    /// The line is none; the text says why.
    pub fn read(line: &[u8]) -> Result<Order, String> {
        let read = || -> serde_json::Result<Order> {
            Ok(match serde_json::from_slice::<Kind>(line)?.what.as_ref() {
                "start" => Order::Start(serde_json::from_slice(line)?),
                "signal" => Order::Signal(serde_json::from_slice(line)?),
                "watch" => Order::Watch(serde_json::from_slice(line)?),
                "remove" => Order::Remove(serde_json::from_slice(line)?),
                "quit" => Order::Quit,
                other => {
                    let known = "start, signal, watch, remove or quit";
                    return Err(de::Error::custom(format!("\"do\" is {other:?}, expected {known}")));
                }
            })
        };
        read().map_err(|error| format!("{error}: {}", shortened(line)))
    }
}

/// A text of the system: a path, a word of a command. It may hold bytes that are not UTF-8; Python writes these as lone
/// surrogates, U+DC80 to U+DCFF.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub OsString);

impl Text {
    /// Returns it for messages.
    pub fn shown(&self) -> Cow<'_, str> {
        self.0.to_string_lossy()
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Text;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned().into()))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(OsString::from_vec(without_surrogates(bytes))))
            }
        }
        deserializer.deserialize_bytes(Reader)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => RawValue::from_string(quoted(self.0.as_bytes())).map_err(S::Error::custom)?.serialize(serializer),
        }
    }
}

/// Returns bytes as a text of JSON, those that are not UTF-8 as surrogates.
fn quoted(bytes: &[u8]) -> String {
    let mut found = String::from("\"");
    for piece in bytes.utf8_chunks() {
        let valid = serde_json::Value::from(piece.valid()).to_string();
        found.push_str(&valid[1..valid.len() - 1]);
        found.extend(piece.invalid().iter().map(|byte| format!("\\udc{byte:02x}")));
    }
    found.push('"');
    found
}

/// Replaces the encoded surrogates by the bytes that they stand for.
fn without_surrogates(bytes: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(byte) = rest.first() {
        match rest {
            [0xED, second @ 0xB2..=0xB3, third @ 0x80..=0xBF, ..] => {
                found.push(0x80 | (second & 0x01) << 6 | (third & 0x3F));
                rest = &rest[3..];
            }
            _ => {
                found.push(*byte);
                rest = &rest[1..];
            }
        }
    }
    found
}

/// What the supervisor reports.
#[derive(Debug, Serialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Report<'a> {
    /// An instance was started.
    Started {
        /// The instance.
        name: &'a str,
        /// Its process.
        pid: i32,
        /// The name of the process that it shares; `None`: it has one of its own.
        process: Option<&'a str>,
    },
    /// A program could not be executed.
    Refused {
        /// The instance.
        name: &'a str,
        /// Why, in words.
        error: &'a str,
        /// The name of the error, as `ENOENT`; empty if it has none here.
        errno: &'a str,
    },
    /// A line of output.
    Output {
        /// The instance.
        name: &'a str,
        /// `stdout` or `stderr`.
        stream: &'a str,
        /// The line.
        text: &'a str,
    },
    /// The process that was to be watched is gone; that of the instance may not be.
    Vanished {
        /// The instance.
        name: &'a str,
    },
    /// A log or another file cannot be written.
    Unwritable {
        /// The instance.
        name: &'a str,
        /// The file.
        file: &'a str,
        /// Why, in words.
        error: &'a str,
        /// The number of the error.
        number: i32,
    },
    /// An instance has ended.
    Ended {
        /// The instance.
        name: &'a str,
        /// Its exit status; `None`: a signal ended it.
        status: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Processor time [s].
        cpu_s: f64,
        /// The most memory that it had.
        memory_bytes: i64,
        /// The name of the process that it shares.
        process: Option<&'a str>,
        /// It ended because its process did.
        with_process: bool,
        /// For want of which memory it was killed, or another process meanwhile.
        #[serde(skip_serializing_if = "Option::is_none")]
        no_memory: Option<&'a str>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_which_nothing_is_known_is_an_error_that_shows_it() {
        let problem = Order::read(br#"{"do": "dance", "name": "a"}"#).unwrap_err();
        assert_eq!(
            problem,
            "\"do\" is \"dance\", expected start, signal, watch, remove or quit: {\"do\": \"dance\", \"name\": \"a\"}"
        );
    }

    #[test]
    fn an_order_that_lacks_something_is_an_error_that_names_it() {
        let problem = Order::read(br#"{"do": "signal", "name": "a"}"#).unwrap_err();
        assert!(problem.contains("missing field `signal`"), "{problem}");
    }

    #[test]
    fn bytes_that_are_not_utf_8_come_as_python_writes_them() {
        let line = br#"{"do": "remove", "path": "/a\udc80\udcff\udcbf\udcc0\u00e9"}"#;
        let Ok(Order::Remove(Remove { path })) = Order::read(line) else { panic!("it is not understood") };
        let written = serde_json::to_string(&path).unwrap();
        assert_eq!(written, "\"/a\\udc80\\udcff\\udcbf\\udcc0\u{e9}\"");
        assert_eq!(path.0.into_vec(), b"/a\x80\xff\xbf\xc0\xc3\xa9");
    }
}
