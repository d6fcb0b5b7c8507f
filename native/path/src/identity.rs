//! Who the ends of a path are.

use xmml_wire::error::{Error, Result};
use xmml_wire::handshake::Party;
use xmml_wire::private_file;

use super::credentials::Tls;

/// Who an end of a path is, and what it proves that with.
#[derive(Clone)]
pub struct Identity {
    secret: Vec<u8>,
    run: String,
    name: String,
    pub(super) tls: Option<Tls>,
}

impl std::fmt::Debug for Identity {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({} of run {})", self.name, self.run)
    }
}

impl Identity {
    /// `secret` and `run` are the same at both ends; `name` is that of this end.
    pub fn new(secret: &[u8], run: &str, name: &str) -> Identity {
        Identity { secret: secret.to_vec(), run: run.to_owned(), name: name.to_owned(), tls: None }
    }

    /// The same with the secret from a file of hexadecimal digits that only its owner can read, as a run's is: 16 bytes at least.
    ///
    /// # Errors
    /// [`Error::Io`] that names the file, and what is wrong with it.
    pub fn from_secret_file(file: &std::path::Path, run: &str, name: &str) -> Result<Identity> {
        let problem = |cause: String| Error::Io { action: format!("read the secret from {}", file.display()), cause };
        Ok(Identity::new(&private_file::read_secret(file).map_err(problem)?, run, name))
    }

    /// Every stream is encrypted: TLS 1.3, in which both ends show a certificate, and believe that of the other as their [`Tls`] says.
    /// Both ends must want it.
    pub fn encrypted(mut self, tls: Tls) -> Identity {
        self.tls = Some(tls);
        self
    }

    /// The name of this end.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn party(&self) -> Result<Party> {
        Party::new(&self.secret, &self.run, &self.name)
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.secret.is_empty() {
            true => Err(Error::Usage { problem: "the secret of a path is empty".to_owned() }),
            false => Ok(()),
        }
    }
}
