//! The key by which a relay, and whoever speaks with it, prove that they belong to a run.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::private_file;

/// Bytes of a relay key.
pub const RELAY_KEY: usize = 32;

const LABEL: &[u8] = b"xmml key of relays\0";

/// What stands before the digits of a relay key, so that nobody takes one for a secret.
const PREFIX: &str = "relay-key:";

const NOT_A_KEY: &str = "this is no relay key (relay-key: and 64 hexadecimal digits); \
                         a relay is given a key made from the secret of the run, never the secret itself: \
                         make the key with \"mto relay-key SECRET_FILE\"";

/// A key made from the secret of a run. Who has it may register names at relays and open streams, but cannot pass for an instance or
/// the coordinator, and does not learn the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RelayKey([u8; RELAY_KEY]);

impl RelayKey {
    /// Returns the relay key of the run with this secret.
    pub fn of(secret: &[u8]) -> RelayKey {
        let mac = Hmac::<Sha256>::new_from_slice(secret);
        let mut mac = mac.unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        mac.update(LABEL);
        RelayKey(mac.finalize().into_bytes().into())
    }

    /// Reads the relay key in a file that nobody but its owner can read.
    ///
    /// # Errors
    /// Others can read the file, it cannot be read, or it holds no relay key.
    pub fn read(path: &Path) -> Result<RelayKey, String> {
        private_file::read(path, private_file::SECRET_MAX, "this relay key")?.parse()
    }

    /// Returns the key, by which handshakes with relays are proved.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the key as people and launchers pass it on: `relay-key:` and hexadecimal digits.
    pub fn to_text(&self) -> String {
        let digits = self.0.iter().map(|byte| format!("{byte:02x}"));
        std::iter::once(PREFIX.to_owned()).chain(digits).collect()
    }
}

impl FromStr for RelayKey {
    type Err = String;

    fn from_str(text: &str) -> Result<RelayKey, String> {
        let digits = text.trim().strip_prefix(PREFIX);
        let bytes = digits.and_then(private_file::bytes_in).and_then(|bytes| bytes.try_into().ok());
        bytes.map(RelayKey).ok_or_else(|| NOT_A_KEY.to_owned())
    }
}

impl TryFrom<String> for RelayKey {
    type Error = String;

    fn try_from(text: String) -> Result<RelayKey, String> {
        text.parse()
    }
}

impl From<RelayKey> for String {
    fn from(key: RelayKey) -> String {
        key.to_text()
    }
}

impl fmt::Debug for RelayKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RelayKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the secret of the golden vectors, as docs/protocol.md has it.
    const GOLDEN: &str = "relay-key:238444b2b16e94db8db0dc396fe3920dec5c18795f5c531568c356c4d3739e09";

    #[test]
    fn the_key_of_a_secret_is_that_of_the_protocol() {
        assert_eq!(RelayKey::of(&[0x5e; 32]).to_text(), GOLDEN);
    }

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let key = RelayKey::of(b"the secret");
        assert_eq!(format!(" {}\n", key.to_text()).parse(), Ok(key));
    }

    #[test]
    fn what_is_no_relay_key_is_refused_with_the_command_that_makes_one() {
        let digits = "5e".repeat(32);
        let (short, odd) = (format!("relay-key:{}", &digits[2..]), format!("relay-key:{}g", &digits[1..]));
        for text in ["", "relay-key:", &digits, &short, &odd] {
            let problem = text.parse::<RelayKey>().unwrap_err();
            assert!(problem.contains("mto relay-key SECRET_FILE"), "{text}: {problem}");
            assert!(!problem.contains("5e5e"), "{problem}");
        }
    }

    #[test]
    fn nobody_reads_a_key_in_what_is_written_for_developers() {
        assert_eq!(format!("{:?}", RelayKey::of(b"the secret")), "RelayKey(..)");
    }
}
