//! How links to other relays are protected: TLS 1.3 around them, with certificates that are made at the start or kept in a file.
//!
//! A relay need not know the certificates of others: the handshake inside TLS proves that both ends know the run, and its proofs cover
//! the channel and both certificates, so that they are worth nothing to anybody in the middle. Who wants more names those that are trusted.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use xmml_path::{Credentials, Fingerprint, Tls};
use xmml_wire::error::Result;

/// A certificate that is made at the start is good for so long before and after: it dies with its relay, and clocks of sites differ.
const LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// See the module.
#[derive(Clone, Debug)]
pub struct Encryption {
    /// What this relay speaks TLS with.
    pub tls: Tls,
    /// Whether links that this relay dials are encrypted where nothing else is said.
    pub is_default: bool,
    mine: Credentials,
    is_self_made: bool,
    trusted: Vec<Fingerprint>,
    /// The sites whose relays may link themselves to this one in clear.
    clear_from: BTreeSet<String>,
}

impl Encryption {
    /// With a certificate of its own, made now; every relay that knows the run is believed.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn self_made(site: &str) -> Result<Encryption> {
        let now = SystemTime::now();
        let from = now.checked_sub(LIFE).unwrap_or(SystemTime::UNIX_EPOCH);
        let mine = Credentials::make_valid(site, from, now + LIFE)?;
        Ok(Encryption { is_self_made: true, ..Encryption::with(&mine, &[], true)? })
    }

    /// With these credentials; `trusted` are the certificates of the relays that are believed, if they know the run (none: of any).
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub fn with(mine: &Credentials, trusted: &[Fingerprint], is_default: bool) -> Result<Encryption> {
        let tls = match trusted {
            [] => Tls::proven_inside(mine)?,
            trusted => Tls::new(mine, trusted)?,
        };
        let (mine, trusted) = (mine.clone(), trusted.to_vec());
        Ok(Encryption { tls, is_default, mine, is_self_made: false, trusted, clear_from: BTreeSet::new() })
    }

    /// The same credentials with other wishes.
    ///
    /// # Errors
    /// As of [`Encryption::with`].
    pub fn but(&self, trusted: &[Fingerprint], is_default: bool) -> Result<Encryption> {
        let clear_from = self.clear_from.clone();
        let is_self_made = self.is_self_made;
        Ok(Encryption { is_self_made, clear_from, ..Encryption::with(&self.mine, trusted, is_default)? })
    }

    /// The same, but links in clear are taken from the relays of these sites, and from no others.
    pub fn taking_clear_from<'a>(self, sites: impl IntoIterator<Item = &'a str>) -> Encryption {
        Encryption { clear_from: sites.into_iter().map(str::to_owned).collect(), ..self }
    }

    /// Whether the relay of this site may link itself to this one in clear.
    pub fn takes_clear_from(&self, site: &str) -> bool {
        self.clear_from.contains(site)
    }

    /// Takes links in clear from the relays of these sites only, from now on. Links that stand remain; streams that they open from now on
    /// are judged anew. False: it was so already.
    pub fn take_clear_from(&mut self, sites: BTreeSet<String>) -> bool {
        let is_new = self.clear_from != sites;
        self.clear_from = sites;
        is_new
    }

    /// Believes only these from now on. Links that stand remain; streams that they open from now on are judged anew.
    /// False: they were believed already, and nobody else.
    pub fn trust(&mut self, trusted: &[Fingerprint]) -> bool {
        let is_new = self.trusted != trusted;
        self.tls.trust(trusted);
        self.trusted = trusted.to_vec();
        is_new
    }

    /// Its certificate was made at the start.
    pub fn is_self_made(&self) -> bool {
        self.is_self_made
    }
}

impl PartialEq for Encryption {
    fn eq(&self, other: &Encryption) -> bool {
        self.tls.fingerprint() == other.tls.fingerprint()
            && self.is_default == other.is_default
            && self.trusted == other.trusted
            && self.clear_from == other.clear_from
    }
}
