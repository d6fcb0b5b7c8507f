//! Handles of ports: values that stand for an in port of an instance, and that whoever has one can send by.
//!
//! A handle travels as the bytes of a payload. It says which port it stands for, and, where its maker chose methods by hand, how that is
//! reached: the descriptor table goes with it. Without a table it is short; whoever opens it gets the table from the coordinator.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `89 78 6d 68` |
//! | 4 | 1 | version of this form: 1 |
//! | 5 | 1 | 1 if a table is in it, else 0 |
//! | 6 | 4 | number of the handle at its instance |
//! | 10 | 4 | mark of the run: the first bytes of the SHA-256 of its name |
//! | 14 | 1 + n | length of the name of the instance, the name |
//! | | 1 + n | length of the name of the port, the name |
//! | | 2 + n | only with a table: its length, the table as MessagePack |
//! | | 16 | seal: the first bytes of an HMAC-SHA256 over the name of the run and all bytes before, keyed by the run's secret |

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use xmml_wire::error::{Error, Result};
use xmml_wire::message_pack;
use xmml_wire::methods::Table;

const MARK: [u8; 4] = [0x89, b'x', b'm', b'h'];
const VERSION: u8 = 1;
const RUN_MARK: usize = 4;
const SEAL: usize = 16;
const LABEL: &[u8] = b"xmml handle of a port\0";

/// Longest handle that is read, in bytes.
pub const LIMIT: usize = 4096;

/// What a handle says. Everybody can read it; only members of its run can make one, or tell a forged one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The instance that receives.
    pub instance: String,
    /// Its in port.
    pub port: String,
    /// Tells it from other handles of this instance.
    pub number: u32,
    /// How the instance is reached, where that was chosen by hand; `None`: as the coordinator knows.
    pub table: Option<Table>,
    run: [u8; RUN_MARK],
}

impl Handle {
    /// Of a port of an instance of `run`.
    pub fn new(run: &str, instance: &str, port: &str, number: u32, table: Option<Table>) -> Handle {
        Handle { instance: instance.to_owned(), port: port.to_owned(), number, table, run: mark_of(run) }
    }

    /// Its bytes, sealed.
    ///
    /// # Errors
    /// [`Error::Usage`] if names or addresses are too long for one.
    pub fn sealed(&self, run: &str, secret: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = MARK.to_vec();
        bytes.extend([VERSION, u8::from(self.table.is_some())]);
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.run);
        for name in [&self.instance, &self.port] {
            let length = u8::try_from(name.len()).map_err(|_| too_long(&format!("the name {name}")))?;
            bytes.push(length);
            bytes.extend(name.as_bytes());
        }
        if let Some(table) = &self.table {
            let table = rmp_serde::to_vec(table).expect("tables hold nothing that MessagePack cannot");
            let length = u16::try_from(table.len()).map_err(|_| too_long("its table of methods"))?;
            bytes.extend(length.to_le_bytes());
            bytes.extend(table);
        }
        let seal = seal(run, secret, &bytes);
        bytes.extend(seal);
        match bytes.len() <= LIMIT {
            true => Ok(bytes),
            false => Err(too_long("all of it")),
        }
    }

    /// What bytes that look like a handle say. Whether they are genuine is for [`Handle::verified`].
    ///
    /// # Errors
    /// [`Error::Usage`] saying what is wrong with them.
    pub fn read(bytes: &[u8]) -> Result<Handle> {
        let problem = |problem: &str| Error::Usage { problem: format!("this is no handle of a port: {problem}") };
        if bytes.len() > LIMIT {
            return Err(problem(&format!("it has {} bytes; the longest has {LIMIT}", bytes.len())));
        }
        let cut_off = || problem("it ends too early");
        let mut rest = bytes;
        let mut take = |count: usize| {
            let (taken, left) = rest.split_at_checked(count).ok_or_else(cut_off)?;
            rest = left;
            Ok(taken)
        };
        if take(MARK.len()).ok() != Some(&MARK[..]) {
            return Err(problem("it does not begin like one"));
        }
        let [version, has_table] = *take(2)? else { return Err(cut_off()) };
        if version != VERSION {
            return Err(problem(&format!("it has version {version}; this release of xmml knows {VERSION}")));
        }
        let number = u32::from_le_bytes(take(4)?.try_into().map_err(|_| cut_off())?);
        let run = take(RUN_MARK)?.try_into().map_err(|_| cut_off())?;
        let mut name = || {
            let length = usize::from(take(1)?[0]);
            String::from_utf8(take(length)?.to_vec()).map_err(|_| problem("a name in it is not UTF-8"))
        };
        let (instance, port) = (name()?, name()?);
        let table = match has_table {
            0 => None,
            1 => {
                let length = u16::from_le_bytes(take(2)?.try_into().map_err(|_| cut_off())?);
                let table = message_pack::decode(take(usize::from(length))?);
                Some(table.map_err(|_| problem("its table of methods cannot be read"))?)
            }
            _ => return Err(problem("it is neither with nor without a table")),
        };
        take(SEAL)?;
        match rest.is_empty() {
            true => Ok(Handle { instance, port, number, table, run }),
            false => Err(problem("there are bytes behind its end")),
        }
    }

    /// As [`Handle::read`], of a handle of this run.
    ///
    /// # Errors
    /// [`Error::Usage`] also if it is of another run, or forged, or changed on its way.
    pub fn verified(bytes: &[u8], run: &str, secret: &[u8]) -> Result<Handle> {
        let handle = Handle::read(bytes)?;
        let problem = |problem: &str| {
            let problem = format!("the handle of {}.{} {problem}", handle.instance, handle.port);
            Err(Error::Usage { problem })
        };
        if handle.run != mark_of(run) {
            return problem("is of another run; handles are of use only within the run in which they were made");
        }
        let (body, found) = bytes.split_at(bytes.len() - SEAL);
        match keyed(run, secret, body).verify_truncated_left(found) {
            Ok(()) => Ok(handle),
            Err(_) => problem("is forged or was changed on its way: its seal does not fit"),
        }
    }
}

impl fmt::Display for Handle {
    /// For people: everything that it says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Handle { instance, port, number, run, .. } = self;
        write!(f, "handle {number} of {instance}.{port} (run {:08x})", u32::from_be_bytes(*run))?;
        let Some(table) = &self.table else { return write!(f, ", reached as the coordinator knows") };
        write!(f, ", reached at {} by", table.place.host)?;
        for (index, entry) in table.entries.iter().enumerate() {
            let between = if index == 0 { " " } else { ", then " };
            write!(f, "{between}{} ({})", entry.method, entry.addresses.join(" "))?;
        }
        Ok(())
    }
}

fn mark_of(run: &str) -> [u8; RUN_MARK] {
    let digest = Sha256::digest(run.as_bytes());
    let mut mark = [0; RUN_MARK];
    mark.copy_from_slice(&digest[..RUN_MARK]);
    mark
}

fn keyed(run: &str, secret: &[u8], body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(LABEL);
    mac.update(&(run.len() as u64).to_le_bytes());
    mac.update(run.as_bytes());
    mac.update(body);
    mac
}

fn seal(run: &str, secret: &[u8], body: &[u8]) -> [u8; SEAL] {
    let mut seal = [0; SEAL];
    seal.copy_from_slice(&keyed(run, secret, body).finalize().into_bytes()[..SEAL]);
    seal
}

fn too_long(what: &str) -> Error {
    Error::Usage { problem: format!("no handle can be made: {what} is too long for one") }
}

#[cfg(test)]
mod tests {
    use xmml_wire::methods::{Descriptor, Place};

    use super::*;

    const SECRET: &[u8] = b"secret of the run";

    fn light() -> Handle {
        Handle::new("run", "server", "questions", 7, None)
    }

    fn full() -> Handle {
        let entries = ["inproc", "shm", "unix", "tcp"].map(|method| Descriptor {
            method: method.to_owned(),
            addresses: vec!["@0123456789abcdef0123456789abcdef".to_owned(), "192.168.100.100:40000".to_owned()],
        });
        let table = Table { place: Place::here(), entries: entries.to_vec() };
        Handle::new("run", "server", "questions", 7, Some(table))
    }

    #[test]
    fn a_handle_survives_its_bytes() {
        for handle in [light(), full()] {
            let bytes = handle.sealed("run", SECRET).unwrap();
            assert_eq!(Handle::verified(&bytes, "run", SECRET).unwrap(), handle);
        }
    }

    #[test]
    fn without_a_table_it_is_short_and_with_four_methods_it_has_at_most_512_bytes() {
        assert!(light().sealed("run", SECRET).unwrap().len() <= 64);
        assert!(full().sealed("run", SECRET).unwrap().len() <= 512);
    }

    #[test]
    fn one_of_another_run_is_told_from_a_forged_one() {
        let bytes = light().sealed("run", SECRET).unwrap();
        let foreign = Handle::verified(&bytes, "another run", SECRET).unwrap_err();
        assert!(foreign.to_string().contains("another run"), "{foreign}");
        let forged = Handle::verified(&bytes, "run", b"guessed").unwrap_err();
        assert!(forged.to_string().contains("forged"), "{forged}");
    }

    #[test]
    fn no_byte_can_be_changed_left_out_or_added() {
        let bytes = full().sealed("run", SECRET).unwrap();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 0x10;
            assert!(Handle::verified(&changed, "run", SECRET).is_err(), "byte {place}");
            assert!(Handle::verified(&bytes[..place], "run", SECRET).is_err(), "cut off at {place}");
        }
        assert!(Handle::verified(&[&bytes[..], &[0]].concat(), "run", SECRET).is_err());
    }

    #[test]
    fn its_text_says_everything() {
        assert!(light().to_string().starts_with("handle 7 of server.questions (run "));
        let text = full().to_string();
        assert!(text.contains(" by inproc (@0123") && text.contains(", then tcp ("), "{text}");
    }
}
