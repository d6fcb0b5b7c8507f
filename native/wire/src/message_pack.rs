//! MessagePack: what instances, coordinators, relays and ranks say to each other beside the data of a model.
//!
//! Reading is compiled once, for visitors behind a pointer, not for each type that is read: that took a fifth of the time in which this crate
//! is compiled. What is read is small and rare.

use rmp_serde::Deserializer;
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::error::{Error, Result};

/// The value whose coding `bytes` begin with.
///
/// # Errors
/// They are not the coding of one: what is wrong, for people.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> std::result::Result<T, impl std::fmt::Display> {
    let mut reader = Deserializer::from_read_ref(bytes);
    erased_serde::deserialize(&mut <dyn erased_serde::Deserializer>::erase(&mut reader))
}

/// The coding of a message, with the names of its fields.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(message).expect("messages hold nothing that MessagePack cannot")
}

/// Reads the body of a control frame that came from `peer`.
///
/// # Errors
/// [`Error::Protocol`]: it is no such message.
pub fn decode_from<T: DeserializeOwned>(body: &[u8], peer: &str) -> Result<T> {
    decode(body).map_err(|error| Error::Protocol {
        peer: peer.to_owned(),
        problem: format!("a control message cannot be read: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    enum Said {
        Something { count: u64, name: Option<String> },
        Nothing,
    }

    fn text<T: std::fmt::Debug>(read: std::result::Result<T, impl std::fmt::Display>) -> String {
        read.unwrap_err().to_string()
    }

    #[test]
    fn what_was_coded_is_read_with_names_of_fields_and_without() {
        let coded = rmp_serde::to_vec_named(&("Something", 1_u64)).unwrap();
        assert_eq!(decode::<(String, u64)>(&coded).ok(), Some(("Something".to_owned(), 1)));
        assert_eq!(decode::<Said>(b"\xa7Nothing").ok(), Some(Said::Nothing));
        let something = Some(Said::Something { count: 7, name: None });
        assert_eq!(
            decode::<Said>(b"\x81\xa9Something\x83\xa5count\x07\xa5other\x92\x01\xc0\xa4name\xc0").ok(),
            something
        );
        assert_eq!(decode::<Said>(b"\x81\xa9Something\x92\x07\xc0").ok(), something);
    }

    #[test]
    fn what_is_no_coding_or_that_of_something_else_is_an_error_for_people() {
        assert!(text(decode::<u64>(b"")).contains("IO error"), "{}", text(decode::<u64>(b"")));
        for (bytes, expected) in [
            (&b"\xa5Other"[..], "unknown variant `Other`, expected `Something` or `Nothing`"),
            (b"\x81\xa9Something\x80", "missing field `count`"),
            (b"\x81\xa9Something\x81\xa5count\xa1x", "wrong msgpack marker FixStr(1)"),
            (b"\xc1", "wrong msgpack marker"),
        ] {
            let problem = text(decode::<Said>(bytes));
            assert!(problem.contains(expected), "{problem}");
        }
    }

    /// Whoever reads has a stack of two megabytes, and what a stranger nests must not use it up.
    #[test]
    fn what_is_nested_without_end_is_an_error() {
        for (depth, is_read) in [(1000, true), (2000, false), (1_000_000, false)] {
            let nested = [&b"\x81\xa9Something\x82\xa5count\x07\xa5other"[..], &vec![0x91; depth], b"\xc0"].concat();
            let read = std::thread::Builder::new().stack_size(1 << 20).spawn(move || decode::<Said>(&nested).ok());
            let read = read.unwrap().join().unwrap();
            assert_eq!(read.is_some(), is_read, "{depth}");
        }
    }
}
