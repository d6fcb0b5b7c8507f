//! Files that hold what only their owner may know: secrets of runs, keys of certificates.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::explained;

/// Largest file with a secret that is read, in bytes.
pub const SECRET_MAX: u64 = 4096;

/// Largest file with a key and its certificate that is read, in bytes.
pub const KEY_MAX: u64 = 64 << 10;

/// Shortest secret, in bytes: shorter ones can be found by trying.
pub const SECRET_LEAST: usize = 16;

/// The text of a file that nobody but its owner can read; `what` names what is in it, for people.
///
/// # Errors
/// Others can read it, it has more than `most` bytes, or it cannot be read.
pub fn read(path: &Path, most: u64, what: &str) -> Result<String, String> {
    let about = std::fs::metadata(path).map_err(|error| explained(&error))?;
    let mode = about.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!("others can read {what} (mode {mode:o}); chmod 600 it"));
    }
    if about.len() > most {
        return Err(format!("it has {} bytes; at most {most} are read", about.len()));
    }
    std::fs::read_to_string(path).map_err(|error| explained(&error))
}

/// The secret in a file of hexadecimal digits that nobody but its owner can read.
///
/// # Errors
/// As of [`read`], or there is no secret in it, or a short one.
pub fn read_secret(path: &Path) -> Result<Vec<u8>, String> {
    secret_of_text(&read(path, SECRET_MAX, "this secret")?)
}

/// A secret written as hexadecimal digits.
///
/// # Errors
/// It is none, or so short that it can be found by trying.
pub fn secret_of_text(text: &str) -> Result<Vec<u8>, String> {
    let secret = bytes_in(text.trim()).ok_or("the secret must be hexadecimal digits, two for each byte")?;
    match secret.len() < SECRET_LEAST {
        true => Err(format!(
            "the secret has {} bytes, at least {SECRET_LEAST} are needed; make one with: openssl rand -hex 32",
            secret.len()
        )),
        false => Ok(secret),
    }
}

/// The bytes that are written as these hexadecimal digits; `None`: they are none.
pub(crate) fn bytes_in(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() % 2 != 0 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_hexadecimal_digits() {
        assert_eq!(bytes_in("00ff"), Some(vec![0, 255]));
        for text in ["", "0", "xy", "ää", "+1", " 00"] {
            assert_eq!(bytes_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_secret_is_not_short() {
        assert_eq!(secret_of_text(&format!(" {}\n", "0f".repeat(16))), Ok(vec![15; 16]));
        let short = "0f".repeat(15);
        for (text, expected) in [
            ("", "hexadecimal"),
            ("secret", "hexadecimal"),
            ("00ff", "2 bytes, at least"),
            (&short, "15 bytes, at least"),
        ] {
            let problem = secret_of_text(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_long_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let file = std::env::temp_dir().join(format!("xmml-private-{}", std::process::id()));
        std::fs::write(&file, "00ff").unwrap();
        for (mode, is_fine) in [(0o640, false), (0o604, false), (0o600, true), (0o400, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&file, 4, "this secret").is_ok(), is_fine, "{mode:o}");
        }
        assert!(read(&file, 3, "this secret").unwrap_err().contains("at most 3"));
        std::fs::remove_file(&file).unwrap();
        assert!(read(&file, 4, "this secret").is_err());
    }
}
