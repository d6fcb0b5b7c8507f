//! Where names are reached through relays: `HOST:PORT/SITE/NAME`, and where a process finds its own relay: `HOST:PORT/SITE`.

use std::fmt;

use crate::percent;

/// The variable that names the relay of this process's site.
pub const VARIABLE: &str = "XMML_RELAY";

/// Longest name of a site, in bytes.
pub const MAX_SITE: usize = 64;

/// A relay and the site that it stands at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAddress {
    /// Where it listens, as the processes of its site see it; empty: it is the relay of whoever reads this.
    pub at: String,
    /// Its site.
    pub site: String,
}

/// A name at a site, and the relay of that site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAddress {
    /// The relay where the name is registered.
    pub relay: RelayAddress,
    /// An instance, or `coordinator`.
    pub name: String,
}

/// Why a text is no name of a site; `None`: it is one.
pub fn site_problem(site: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if site.is_empty() || site.len() > MAX_SITE || !site.chars().all(is_allowed) {
        let problem =
            format!("\"{site}\" is not the name of a site: use 1 to {MAX_SITE} letters, digits, '.', '_', '-'");
        return Some(problem);
    }
    None
}

impl RelayAddress {
    /// Reads `HOST:PORT/SITE`.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str) -> Result<RelayAddress, String> {
        let (at, site) = text.split_once('/').unwrap_or((text, ""));
        let has_port = at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !has_port || site_problem(site).is_some() {
            return Err(format!(
                "\"{text}\" is not the address of a relay; expected HOST:PORT/SITE, e.g. login:40001/alpha"
            ));
        }
        Ok(RelayAddress { at: at.to_owned(), site: site.to_owned() })
    }

    /// The relay of this process's site, as `XMML_RELAY` says.
    ///
    /// # Errors
    /// The variable is not set, or says something else.
    pub fn own() -> Result<RelayAddress, String> {
        match std::env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => {
                RelayAddress::parse(&text).map_err(|problem| format!("{VARIABLE}: {problem}"))
            }
            _ => Err(format!("no relay is known: {VARIABLE} is not set (HOST:PORT/SITE)")),
        }
    }
}

impl fmt::Display for RelayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at, self.site)
    }
}

impl NameAddress {
    /// Reads `HOST:PORT/SITE/NAME` or `/SITE/NAME`.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str) -> Result<NameAddress, String> {
        let wrong = || format!("\"{text}\" is not an address behind a relay; expected HOST:PORT/SITE/NAME");
        let (relay, name) = text.rsplit_once('/').ok_or_else(wrong)?;
        let name = percent::decode(name).filter(|name| !name.is_empty()).ok_or_else(wrong)?;
        let relay = match relay.strip_prefix('/') {
            Some(site) if site_problem(site).is_none() => RelayAddress { at: String::new(), site: site.to_owned() },
            _ => RelayAddress::parse(relay).map_err(|_| wrong())?,
        };
        Ok(NameAddress { relay, name })
    }
}

impl fmt::Display for NameAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.relay)?;
        percent::encode(f, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_whatever_the_name() {
        for name in ["coordinator", "c[3]", "a/b?c,d e", "ä"] {
            let relay = RelayAddress { at: "login.alpha.org:40001".into(), site: "alpha".into() };
            let address = NameAddress { relay, name: name.into() };
            let text = address.to_string();
            assert!(!text.contains([',', ' ', '?']), "{text}");
            assert_eq!(NameAddress::parse(&text).unwrap(), address);
        }
    }

    #[test]
    fn the_relay_may_be_left_to_the_reader() {
        let address = NameAddress::parse("/alpha/coordinator").unwrap();
        assert_eq!((address.relay.at.as_str(), address.relay.site.as_str()), ("", "alpha"));
    }

    #[test]
    fn something_else_is_refused_with_an_example() {
        for text in ["", "login", "login:x/alpha", "login:1", "login:1/", "login:1/a b", "login:1/al/pha"] {
            assert!(RelayAddress::parse(text).unwrap_err().contains("login:40001/alpha"), "{text}");
        }
        for text in ["", "alpha/a", "login:1/alpha/", "login:1/alpha/%zz", "//a"] {
            assert!(NameAddress::parse(text).unwrap_err().contains("HOST:PORT/SITE/NAME"), "{text}");
        }
    }
}
