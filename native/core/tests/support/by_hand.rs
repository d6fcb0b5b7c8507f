//! What an instance that is none says to the coordinator, and hears from it.

use std::io::{Read, Write};

use xmml_core::control::{ToCoordinator, ToInstance};
use xmml_core::coordinator::{Coordinator, CoordinatorAddress};
use xmml_wire::frame::{encode_control, Frame};
use xmml_wire::handshake::Role;
use xmml_wire::methods::Table;

use super::waiting;

#[path = "../../../wire/tests/support/by_hand.rs"]
mod connection;

#[allow(unused_imports)] // no test uses all of it
pub use connection::{connect, Client, Until};

/// Where a coordinator listens.
pub fn control_address(coordinator: &Coordinator) -> CoordinatorAddress {
    coordinator.addresses()[0].parse().unwrap()
}

impl<S: Read + Write> Client<S> {
    /// Asks to be let into the run.
    pub fn ask_to_join(&mut self, pid: u32) {
        self.say(&ToCoordinator::Join { pid, host: "here".into(), language: "test".into(), version: "1".into() });
    }

    /// Tells the coordinator something.
    pub fn say(&mut self, message: &ToCoordinator) {
        self.stream.write_all(&encode_control(&message.encode())).unwrap();
    }

    /// What the coordinator says next.
    pub fn hear(&mut self) -> ToInstance {
        match self.frame() {
            Frame::Control(body) => ToInstance::decode(&body, "coordinator").unwrap(),
            other => panic!("not a control frame: {other:?}"),
        }
    }

    /// Where an instance that has joined listens, once the coordinator says so.
    pub fn table_of(&mut self, name: &str) -> Table {
        loop {
            if let ToInstance::Peer { instance, table } = self.hear() {
                if instance == name {
                    return table;
                }
            }
        }
    }
}

impl Client {
    /// The control connection of the instance `name`.
    pub fn to_coordinator(coordinator: &Coordinator, secret: &[u8], name: &str) -> Result<Client, String> {
        let address = control_address(coordinator);
        Client::dial(connect(&address.address), &address.run, secret, name, Role::Control, "coordinator")
    }
}
