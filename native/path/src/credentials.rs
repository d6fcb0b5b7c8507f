//! Who may speak on an encrypted path: certificates made for one run, signed by themselves, and known to both ends by their fingerprints.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use webpki::{anchor_from_trusted_cert, EndEntityCert, KeyUsage};

use xmml_wire::error::{Error, Result};

use crate::certificate::{Problem, SelfSigned};

/// Clocks of sites differ; a certificate counts from so long before it was made.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// Longer than any certificate can be good, and short enough to be added to a time.
const TOO_LONG: Duration = Duration::from_secs(1 << 40);

/// The name under which certificates are asked for; who is meant is told by the fingerprint.
pub(super) const SERVER: &str = "xmml.invalid";

/// The SHA-256 of a certificate: names it, and nothing else has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(super) fn of(certificate: &[u8]) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate).into())
    }

    pub(super) fn bytes(&self) -> [u8; 32] {
        self.0
    }

    pub(super) fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    /// 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Fingerprint> {
        let wrong = || Error::Usage {
            problem: format!("\"{text}\" is not the fingerprint of a certificate: 64 hexadecimal digits are expected"),
        };
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Fingerprint(bytes))
    }
}

/// A certificate and its key.
pub struct Credentials {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

/// A certificate that is not good at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfTime {
    /// It was good until then.
    Expired {
        /// When it ended.
        at: SystemTime,
    },
    /// It will be good.
    NotYet {
        /// When it begins.
        from: SystemTime,
    },
}

impl Clone for Credentials {
    fn clone(&self) -> Credentials {
        Credentials { certificate: self.certificate.clone(), key: self.key.clone_key() }
    }
}

impl fmt::Debug for Credentials {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.fingerprint())
    }
}

impl Credentials {
    /// Makes a key and a certificate for it, for the end called `name`; it is good for so long from now on.
    ///
    /// # Errors
    /// [`Error::Usage`] if a certificate cannot name the time, or the system has no random numbers.
    pub fn make(name: &str, good_for: Duration) -> Result<Credentials> {
        let now = SystemTime::now();
        Credentials::make_valid(name, now - SKEW, now + good_for.min(TOO_LONG))
    }

    /// The same with both times given.
    ///
    /// # Errors
    /// As of [`Credentials::make`].
    pub fn make_valid(name: &str, from: SystemTime, to: SystemTime) -> Result<Credentials> {
        let made = SelfSigned::make(name, SERVER, from, to).map_err(|problem| Error::Usage {
            problem: match problem {
                Problem::Time => format!("cannot make a certificate for \"{name}\" that is good beyond the year 9999"),
                Problem::Name(error) => format!("cannot make a certificate for \"{name}\": {error}"),
                Problem::Key => format!("cannot make a key for \"{name}\": the system has no random numbers for it"),
            },
        })?;
        Ok(Credentials { certificate: made.certificate.into(), key: PrivatePkcs8KeyDer::from(made.key).into() })
    }

    /// Reads a certificate and its key, as [`Credentials::to_pem`] writes them.
    ///
    /// # Errors
    /// [`Error::Usage`] that says what is missing.
    pub fn from_pem(text: &str) -> Result<Credentials> {
        let problem = |what: &str, cause: String| Error::Usage {
            problem: format!("there is no {what} in the credentials of a path: {cause}"),
        };
        let certificate = CertificateDer::from_pem_slice(text.as_bytes())
            .map_err(|error| problem("certificate", error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| problem("key", error.to_string()))?;
        Ok(Credentials { certificate, key })
    }

    /// Why every other end would refuse this certificate now, if its time is over or has not come.
    pub fn out_of_time(&self, now: SystemTime) -> Option<OutOfTime> {
        let at = |time: UnixTime| SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs());
        let unix = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        match judge(&self.certificate, &ring::default_provider(), unix, KeyUsage::server_auth()) {
            Err(webpki::Error::CertExpired { not_after, .. }) => Some(OutOfTime::Expired { at: at(not_after) }),
            Err(webpki::Error::CertNotValidYet { not_before, .. }) => Some(OutOfTime::NotYet { from: at(not_before) }),
            _ => None,
        }
    }

    /// Certificate and key in PEM. Whoever reads it can pose as this end: keep it in a file that its owner only can read.
    pub fn to_pem(&self) -> String {
        let block = |label: &str, bytes: &[u8]| {
            let digits = base64(bytes);
            let lines: Vec<&str> =
                digits.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
        };
        block("CERTIFICATE", &self.certificate) + &block("PRIVATE KEY", self.key.secret_der())
    }

    /// What the other end needs to know of this one.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// Signs a message. What it begins with should tell what it is meant for: TLS signs with the same key.
    ///
    /// # Errors
    /// [`Error::Usage`] if the key cannot be used.
    pub fn sign(&self, message: &[u8]) -> Result<Signature> {
        let problem = |error: rustls::Error| Error::Usage { problem: format!("this key cannot sign: {error}") };
        let provider = ring::default_provider();
        let key = provider.key_provider.load_private_key(self.key.clone_key()).map_err(problem)?;
        let schemes = provider.signature_verification_algorithms.supported_schemes();
        let none = || problem(rustls::Error::General("nobody could verify it".to_owned()));
        let bytes = key.choose_scheme(&schemes).ok_or_else(none)?.sign(message).map_err(problem)?;
        Ok(Signature { certificate: self.certificate.to_vec(), bytes })
    }
}

/// A signature, and the certificate of the key that has made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    certificate: Vec<u8>,
    bytes: Vec<u8>,
}

impl Signature {
    /// The certificate by whose key this message was signed; `None`: it was not.
    pub fn signer_of(&self, message: &[u8]) -> Option<Fingerprint> {
        let certificate = CertificateDer::from(&self.certificate[..]);
        let entity = EndEntityCert::try_from(&certificate).ok()?;
        let algorithms = ring::default_provider().signature_verification_algorithms.all;
        let is_signed = algorithms.iter().any(|each| entity.verify_signature(*each, message, &self.bytes).is_ok());
        is_signed.then(|| Fingerprint::of(&certificate))
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let number = (0..3).fold(0u32, |number, at| number << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            match at <= group.len() {
                true => text.push(char::from(DIGITS[(number >> (18 - 6 * at) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

/// Takes certificates that are pinned (or, if none are, any) and in their time.
#[derive(Debug)]
struct Pinned {
    trusted: RwLock<Option<Vec<Fingerprint>>>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
        usage: KeyUsage,
    ) -> std::result::Result<(), rustls::Error> {
        let trusted = self.trusted.read().unwrap_or_else(PoisonError::into_inner);
        if trusted.as_ref().is_some_and(|trusted| !trusted.contains(&Fingerprint::of(certificate))) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        judge(certificate, &self.provider, now, usage).map_err(|error| reason(&error).into())
    }
}

/// Whether a certificate is in its time, and signed by itself.
fn judge(
    certificate: &CertificateDer<'_>,
    provider: &CryptoProvider,
    now: UnixTime,
    usage: KeyUsage,
) -> std::result::Result<(), webpki::Error> {
    // It is its own authority; what remains to be checked are its times and its signature.
    let anchor = anchor_from_trusted_cert(certificate)?;
    let algorithms = provider.signature_verification_algorithms.all;
    let entity = EndEntityCert::try_from(certificate)?;
    entity.verify_for_usage(algorithms, &[anchor], &[], now, usage, None, None).map(drop)
}

fn reason(error: &webpki::Error) -> CertificateError {
    match error {
        webpki::Error::CertExpired { .. } => CertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
        _ => CertificateError::BadEncoding,
    }
}

/// How signatures are judged, by whichever of the two ends: rustls asks each by a trait of its own.
macro_rules! judges_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::Error::General("only TLS 1.3 is spoken here".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.check(certificate, now, KeyUsage::server_auth())?;
        Ok(ServerCertVerified::assertion())
    }

    judges_signatures!();
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        self.check(certificate, now, KeyUsage::client_auth())?;
        Ok(ClientCertVerified::assertion())
    }

    judges_signatures!();
}

/// What one end needs to speak TLS 1.3: its credentials, and whom it believes.
#[derive(Clone)]
pub struct Tls {
    pub(super) client: Arc<rustls::ClientConfig>,
    pub(super) server: Arc<rustls::ServerConfig>,
    pinned: Arc<Pinned>,
    fingerprint: Fingerprint,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({})", self.fingerprint)
    }
}

impl Tls {
    /// `mine` are the credentials of this end, `trusted` the certificates that are believed at the other.
    ///
    /// # Errors
    /// [`Error::Usage`] for credentials that cannot be used.
    pub fn new(mine: &Credentials, trusted: &[Fingerprint]) -> Result<Tls> {
        Tls::over(mine, Some(trusted.to_vec()))
    }

    /// The other end may show any certificate that is in its time: who it is, the handshake inside proves, and its proofs hold on this
    /// one channel only ([`xmml_wire::handshake`]). For ends that have a secret in common and no way to tell each other certificates before.
    ///
    /// # Errors
    /// As of [`Tls::new`].
    pub fn proven_inside(mine: &Credentials) -> Result<Tls> {
        Tls::over(mine, None)
    }

    /// From now on only these certificates are believed at the other end, also on streams that existing paths open; those that are open
    /// stay so. Clones are meant too.
    pub fn trust(&self, trusted: &[Fingerprint]) {
        *self.pinned.trusted.write().unwrap_or_else(PoisonError::into_inner) = Some(trusted.to_vec());
    }

    /// Names the certificate of this end.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn over(mine: &Credentials, trusted: Option<Vec<Fingerprint>>) -> Result<Tls> {
        let problem =
            |error: rustls::Error| Error::Usage { problem: format!("these credentials cannot be used: {error}") };
        let provider = Arc::new(ring::default_provider());
        let pinned = Arc::new(Pinned { trusted: RwLock::new(trusted), provider: provider.clone() });
        let versions = [&rustls::version::TLS13];
        let chain = vec![mine.certificate.clone()];
        let mut client = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(problem)?
            .dangerous() // the name of the builder's step: certificates are judged by what stands above, not by public authorities
            .with_custom_certificate_verifier(pinned.clone())
            .with_client_auth_cert(chain.clone(), mine.key.clone_key())
            .map_err(problem)?;
        client.resumption = rustls::client::Resumption::disabled();
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(problem)?
            .with_client_cert_verifier(pinned.clone())
            .with_single_cert(chain, mine.key.clone_key())
            .map_err(problem)?;
        server.send_tls13_tickets = 0;
        Ok(Tls { client: Arc::new(client), server: Arc::new(server), pinned, fingerprint: mine.fingerprint() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Credentials {
        Credentials::make("relay", Duration::from_secs(3600)).unwrap()
    }

    #[test]
    fn what_was_signed_names_the_certificate_of_its_key() {
        let mine = made();
        let signature = mine.sign(b"said").unwrap();
        assert_eq!(signature.signer_of(b"said"), Some(mine.fingerprint()));
        assert_eq!(signature.signer_of(b"unsaid"), None);
    }

    #[test]
    fn a_signature_beside_the_certificate_of_another_is_none() {
        let (mine, theirs) = (made(), made());
        let signature = mine.sign(b"said").unwrap();
        let passed_off = Signature { certificate: theirs.certificate.to_vec(), ..signature.clone() };
        assert_eq!(passed_off.signer_of(b"said"), None);
        assert_eq!(Signature { certificate: b"nonsense".to_vec(), ..signature }.signer_of(b"said"), None);
    }
}
