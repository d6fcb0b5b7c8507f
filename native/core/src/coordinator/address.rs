//! Where a coordinator is: `unix:@name?run=RUN` or `tcp:host:port?run=RUN`. The name of the run travels along because both ends of a
//! handshake must know it; what is not a letter, digit, `.`, `_` or `-` is written as `%XX`.

use crate::error::{Error, Result};

/// An address of a coordinator, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorAddress {
    /// Name of the method.
    pub method: String,
    /// Where, in the method's notation.
    pub address: String,
    /// Name of the run.
    pub run: String,
}

impl std::fmt::Display for CoordinatorAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}?run=", self.method, self.address)?;
        for byte in self.run.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for CoordinatorAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<CoordinatorAddress> {
        let wrong = || Error::Usage {
            problem: format!(
                "\"{text}\" is not the address of a coordinator; expected unix:@name?run=RUN or tcp:host:port?run=RUN"
            ),
        };
        let (place, run) = text.split_once("?run=").ok_or_else(wrong)?;
        let (method, address) = place.split_once(':').ok_or_else(wrong)?;
        let run = decoded(run).ok_or_else(wrong)?;
        Ok(CoordinatorAddress { method: method.to_owned(), address: address.to_owned(), run })
    }
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let code = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(code, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_whatever_the_run_is_called() {
        for run in ["canal-2026", "my, run? 100%=ä", ""] {
            let address = CoordinatorAddress { method: "unix".into(), address: "@xmml-12".into(), run: run.into() };
            let text = address.to_string();
            assert!(!text.contains(',') && !text.contains(' '), "{text}");
            assert_eq!(text.parse::<CoordinatorAddress>().unwrap(), address);
        }
    }

    #[test]
    fn something_else_is_refused_with_an_example() {
        let error = "unix:@x".parse::<CoordinatorAddress>().unwrap_err().to_string();
        assert!(error.contains("expected unix:@name?run=RUN"), "{error}");
    }
}
