//! Who an instance is to others of its run.

use xmml_wire::error::Result;
use xmml_wire::handshake::Party;

/// The name of an instance and of its run, and the secret by which members of the run know each other.
pub struct Identity {
    /// Name of the instance.
    pub name: String,
    /// Name of the run.
    pub run: String,
    /// The run's secret.
    pub secret: Vec<u8>,
}

impl Identity {
    /// What this process brings into a handshake.
    pub fn party(&self) -> Result<Party> {
        Party::new(&self.secret, &self.run, &self.name)
    }
}
