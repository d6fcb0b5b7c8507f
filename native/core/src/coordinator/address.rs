//! Where a coordinator is: `unix:@name?run=RUN`, `tcp:host:port?run=RUN`, or behind relays `relay:host:port/SITE/coordinator?run=RUN`.
//! The name of the run travels along because both ends of a handshake must know it.

use xmml_wire::error::{Error, Result};
use xmml_wire::percent;

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
        percent::encode(f, &self.run)
    }
}

impl std::str::FromStr for CoordinatorAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<CoordinatorAddress> {
        let wrong = || {
            Error::Usage {
            problem: format!(
                "\"{text}\" is not the address of a coordinator; expected unix:@name?run=RUN, tcp:host:port?run=RUN or relay:host:port/SITE/coordinator?run=RUN"
            ),
        }
        };
        let (place, run) = text.split_once("?run=").ok_or_else(wrong)?;
        let (method, address) = place.split_once(':').ok_or_else(wrong)?;
        let run = percent::decode(run).ok_or_else(wrong)?;
        Ok(CoordinatorAddress { method: method.to_owned(), address: address.to_owned(), run })
    }
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
