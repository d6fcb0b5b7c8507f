//! Writes certificates that are signed by their own key (RFC 5280), in the distinguished encoding of ASN.1 (DER).

use std::time::{Duration, SystemTime};

use ring::error::{KeyRejected, Unspecified};
use ring::rand::SystemRandom;
use ring::signature::{EcdsaKeyPair, KeyPair, ECDSA_P256_SHA256_ASN1_SIGNING};
use sha2::{Digest, Sha256};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[2]` of `GeneralName`: the name of a host.
const DNS_NAME: u8 = 0x82;
/// `[0]` of `TBSCertificate`: the version.
const VERSION: u8 = 0xa0;
/// `[3]` of `TBSCertificate`: the extensions.
const EXTENSIONS: u8 = 0xa3;

/// Object identifiers, with tag and length.
const COMMON_NAME: &[u8] = b"\x06\x03\x55\x04\x03"; // 2.5.4.3
const SUBJECT_ALTERNATIVE_NAME: &[u8] = b"\x06\x03\x55\x1d\x11"; // 2.5.29.17
const EC_PUBLIC_KEY: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01"; // 1.2.840.10045.2.1
const P_256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"; // 1.2.840.10045.3.1.7
const ECDSA_WITH_SHA_256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"; // 1.2.840.10045.4.3.2

/// The first second that a certificate cannot name: 10000-01-01, since 1970.
const END_OF_TIME: Duration = Duration::from_secs(253_402_300_800);

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
    /// The system has no random numbers, or a key that was just made is refused.
    Key,
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
        let algorithm = element(SEQUENCE, &[ECDSA_WITH_SHA_256]);
        let signed = to_be_signed(name, host, &[time(from)?, time(to)?], pair.public_key().as_ref(), &algorithm);
        let signature = pair.sign(&random, &signed)?;
        let certificate = element(SEQUENCE, &[&signed, &algorithm, &bits(signature.as_ref())]);
        Ok(SelfSigned { certificate, key: key.as_ref().to_vec() })
    }
}

/// Returns what the signature of a certificate covers, `TBSCertificate`.
fn to_be_signed(name: &str, host: &str, validity: &[Vec<u8>; 2], public_key: &[u8], algorithm: &[u8]) -> Vec<u8> {
    let mut serial = Sha256::digest(public_key)[..20].to_vec();
    serial[0] = serial[0] & 0x3f | 0x40; // positive, and as short as DER wants it
    let name = element(SEQUENCE, &[COMMON_NAME, &element(UTF8_STRING, &[name.as_bytes()])]);
    let name = element(SEQUENCE, &[&element(SET, &[&name])]);
    let key = element(SEQUENCE, &[&element(SEQUENCE, &[EC_PUBLIC_KEY, P_256]), &bits(public_key)]);
    let hosts = element(SEQUENCE, &[&element(DNS_NAME, &[host.as_bytes()])]);
    let hosts = element(SEQUENCE, &[SUBJECT_ALTERNATIVE_NAME, &element(OCTET_STRING, &[&hosts])]);
    element(
        SEQUENCE,
        &[
            &element(VERSION, &[&element(INTEGER, &[&[2]])]), // 2 is version 3
            &element(INTEGER, &[&serial]),
            algorithm,
            &name,
            &element(SEQUENCE, &[&validity[0], &validity[1]]),
            &name,
            &key,
            &element(EXTENSIONS, &[&element(SEQUENCE, &[&hosts])]),
        ],
    )
}

/// Returns tag, length and content.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut encoded = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length @ ..=0x7f) => encoded.push(length),
        _ => {
            let digits = content.len().to_be_bytes();
            let digits = &digits[content.len().leading_zeros() as usize / 8..];
            encoded.push(0x80 | digits.len() as u8);
            encoded.extend(digits);
        }
    }
    encoded.extend(content);
    encoded
}

/// Returns a string of bits that are whole bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes])
}

/// Returns a time in whole seconds; one before 1970 is 1970. RFC 5280 wants years of two digits until 2049.
fn time(at: SystemTime) -> Result<Vec<u8>, Problem> {
    let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if since_1970 >= END_OF_TIME {
        return Err(Problem::Time);
    }
    let text = humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since_1970).to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    Ok(match digits.as_str() < "2050" {
        true => element(UTC_TIME, &[&digits.as_bytes()[2..], b"Z"]),
        false => element(GENERALIZED_TIME, &[digits.as_bytes(), b"Z"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn lengths_take_as_few_bytes_as_they_can() {
        assert_eq!(element(SET, &[&[7; 3], &[8; 2]]), [0x31, 5, 7, 7, 7, 8, 8]);
        for (length, head) in [
            (127, &[4, 127][..]),
            (128, &[4, 0x81, 128]),
            (255, &[4, 0x81, 255]),
            (256, &[4, 0x82, 1, 0]),
            (65536, &[4, 0x83, 1, 0, 0]),
        ] {
            let encoded = element(OCTET_STRING, &[&vec![0; length]]);
            assert!(encoded.starts_with(head) && encoded.len() == head.len() + length, "{length}");
        }
    }

    #[test]
    fn years_have_two_digits_until_2049() {
        assert_eq!(time(at(0)).unwrap(), b"\x17\x0d700101000000Z");
        assert_eq!(time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).unwrap(), b"\x17\x0d700101000000Z");
        assert_eq!(time(at(1_795_776_925)).unwrap(), b"\x17\x0d261127105525Z");
        assert_eq!(time(at(2_524_607_999)).unwrap(), b"\x17\x0d491231235959Z");
        assert_eq!(time(at(2_524_608_000)).unwrap(), b"\x18\x0f20500101000000Z");
        assert_eq!(time(at(253_402_300_799)).unwrap(), b"\x18\x0f99991231235959Z");
        assert_eq!(time(at(253_402_300_800)), Err(Problem::Time));
    }
}
