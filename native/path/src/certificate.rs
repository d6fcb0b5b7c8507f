//! Makes certificates that are signed by their own key (RFC 5280).

use std::time::SystemTime;

use ring::error::{KeyRejected, Unspecified};
use ring::rand::SystemRandom;
use ring::signature::{EcdsaKeyPair, KeyPair, ECDSA_P256_SHA256_ASN1_SIGNING};
use sha2::{Digest, Sha256};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{
    BitString, GeneralizedTime, Ia5String, ObjectIdentifier, OctetString, SetOfVec, UtcTime, Utf8StringRef,
};
use x509_cert::der::{self, Any, DateTime, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::Extension;
use x509_cert::name::{RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};
use x509_cert::{Certificate, TbsCertificate, Version};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const SUBJECT_ALTERNATIVE_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const ECDSA_WITH_SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");

/// A certificate and its key, both in DER; the key as PKCS #8.
pub(crate) struct SelfSigned {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Why there is no certificate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It would be good beyond the year 9999.
    Time,
    /// It cannot name its subject.
    Name(der::Error),
    /// The system has no random numbers, or a key that was just made is refused.
    Key,
}

impl From<der::Error> for Problem {
    fn from(error: der::Error) -> Problem {
        Problem::Name(error)
    }
}

impl From<Unspecified> for Problem {
    fn from(_: Unspecified) -> Problem {
        Problem::Key
    }
}

impl From<KeyRejected> for Problem {
    fn from(_: KeyRejected) -> Problem {
        Problem::Key
    }
}

impl SelfSigned {
    /// Makes a key for ECDSA over P-256, and a certificate that is good between two times. `name` is the subject and the issuer, `host`
    /// the alternative name of the subject.
    pub(crate) fn make(name: &str, host: &str, from: SystemTime, to: SystemTime) -> Result<SelfSigned, Problem> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random)?;
        let validity = Validity { not_before: time(from)?, not_after: time(to)? };
        let tbs_certificate = to_be_signed(name, host, validity, pair.public_key().as_ref())?;
        let signature = pair.sign(&random, &tbs_certificate.to_der()?)?;
        let signature_algorithm = tbs_certificate.signature.clone();
        let signature = BitString::from_bytes(signature.as_ref())?;
        let certificate = Certificate { tbs_certificate, signature_algorithm, signature }.to_der()?;
        Ok(SelfSigned { certificate, key: key.as_ref().to_vec() })
    }
}

/// Returns what the signature of a certificate covers.
fn to_be_signed(name: &str, host: &str, validity: Validity, public_key: &[u8]) -> der::Result<TbsCertificate> {
    let mut serial = Sha256::digest(public_key)[..20].to_vec();
    serial[0] = serial[0] & 0x3f | 0x40; // positive, and as short as DER wants it
    let value = Any::from(Utf8StringRef::new(name)?);
    let names = SetOfVec::try_from(vec![AttributeTypeAndValue { oid: COMMON_NAME, value }])?;
    let subject = RdnSequence(vec![RelativeDistinguishedName(names)]);
    let hosts = SubjectAltName(vec![GeneralName::DnsName(Ia5String::new(host)?)]);
    let extn_value = OctetString::new(hosts.to_der()?)?;
    let algorithm = AlgorithmIdentifierOwned { oid: EC_PUBLIC_KEY, parameters: Some((&P_256).into()) };
    Ok(TbsCertificate {
        version: Version::V3,
        serial_number: SerialNumber::new(&serial)?,
        signature: AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA_256, parameters: None },
        issuer: subject.clone(),
        validity,
        subject,
        subject_public_key_info: SubjectPublicKeyInfoOwned {
            algorithm,
            subject_public_key: BitString::from_bytes(public_key)?,
        },
        issuer_unique_id: None,
        subject_unique_id: None,
        extensions: Some(vec![Extension { extn_id: SUBJECT_ALTERNATIVE_NAME, critical: false, extn_value }]),
    })
}

/// Returns a time in whole seconds; one before 1970 is 1970. RFC 5280 wants years of two digits until 2049.
fn time(at: SystemTime) -> Result<Time, Problem> {
    let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at = DateTime::from_unix_duration(since_1970).map_err(|_| Problem::Time)?;
    Ok(match UtcTime::from_date_time(at) {
        Ok(short) => Time::UtcTime(short),
        Err(_) => Time::GeneralTime(GeneralizedTime::from_date_time(at)),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn encoded(seconds: u64) -> Result<Vec<u8>, Problem> {
        Ok(time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?.to_der()?)
    }

    #[test]
    fn years_have_two_digits_until_2049() {
        assert_eq!(encoded(1_795_776_925).unwrap(), b"\x17\x0d261127105525Z");
        assert_eq!(encoded(2_524_607_999).unwrap(), b"\x17\x0d491231235959Z");
        assert_eq!(encoded(2_524_608_000).unwrap(), b"\x18\x0f20500101000000Z");
        assert_eq!(encoded(253_402_300_799).unwrap(), b"\x18\x0f99991231235959Z");
        assert_eq!(encoded(253_402_300_800), Err(Problem::Time));
    }

    #[test]
    fn a_time_before_1970_is_1970() {
        let before = time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).unwrap();
        assert_eq!(before.to_der().unwrap(), b"\x17\x0d700101000000Z");
    }
}
