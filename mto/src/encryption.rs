//! How links to other relays are protected: TLS 1.3 around them, with certificates that are made at the start or kept in a file.
//!
//! A relay need not know the certificates of others: the handshake inside TLS proves that both ends know the run, and its proofs cover
//! the channel and both certificates, so that they are worth nothing to anybody in the middle. Who wants more names those that are trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use xmml_path::{Credentials, Fingerprint, Signature, Tls};
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
    /// The certificates of the relays, by their sites; none: nobody has said whose they are.
    relays: BTreeMap<String, Fingerprint>,
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
        let (relays, clear_from) = (BTreeMap::new(), BTreeSet::new());
        Ok(Encryption { tls, is_default, mine, is_self_made: false, trusted, relays, clear_from })
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

    /// Believes only these from now on: any of `trusted`, and of the sites in `relays` the relays that show these certificates. Links that
    /// stand remain; streams that they open from now on are judged anew. False: they were believed already, and nobody else.
    pub fn trust(&mut self, trusted: &[Fingerprint], relays: BTreeMap<String, Fingerprint>) -> bool {
        let trusted: Vec<Fingerprint> = trusted.iter().chain(relays.values()).copied().collect();
        let is_new = self.trusted != trusted || self.relays != relays;
        self.tls.trust(&trusted);
        (self.trusted, self.relays) = (trusted, relays);
        is_new
    }

    /// The certificates of the relays, by their sites; none: nobody has said whose they are.
    pub fn relays(&self) -> &BTreeMap<String, Fingerprint> {
        &self.relays
    }

    /// Checks that these certificates are those of the relay of a site, where it is known whose they are.
    ///
    /// # Errors
    /// They are not; says so.
    pub fn check_shown(&self, site: &str, shown: &BTreeSet<Fingerprint>) -> std::result::Result<(), String> {
        match self.relays.is_empty() || self.relays.get(site).is_some_and(|its| *shown == BTreeSet::from([*its])) {
            true => Ok(()),
            false => Err(format!("its certificate is not that of the relay of {site}")),
        }
    }

    /// Signs what this relay says, for relays that have not heard it from this one.
    pub fn sign(&self, message: &[u8]) -> Option<Signature> {
        self.mine.sign(message).ok() // with a key that cannot sign there is no TLS either
    }

    /// Checks that the relay of a site has signed a message, where it is known whose certificates are whose.
    ///
    /// # Errors
    /// It has not; says so.
    pub fn check_signed(
        &self,
        site: &str,
        message: &[u8],
        signature: Option<&Signature>,
    ) -> std::result::Result<(), String> {
        let signer = || signature.and_then(|signature| signature.signer_of(message));
        match self.relays.is_empty() || self.relays.get(site).is_some_and(|its| signer() == Some(*its)) {
            true => Ok(()),
            false => Err(format!("it is not signed with the certificate that the relay of {site} is known by")),
        }
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
            && self.relays == other.relays
            && self.clear_from == other.clear_from
    }
}
