//! Through the relay of the site (`mto`): the bytes of a connection pass one or more relays, none of which the two ends can tell from a
//! wire. A process needs no port that anybody could dial: it dials its own relay, registers its name there, and dials again for each
//! stream that it is told of.
//!
//! The relay of a process is named by `XMML_RELAY=HOST:PORT/SITE`; without it there is nothing to listen at, but names at other sites
//! can still be reached by dialling their relay. A relay can be killed and started again: the connection breaks, and is made anew.

pub mod address;
pub mod asking;
mod hosts;
mod listener;
pub mod protocol;
mod stream;

use std::io;
use std::net::SocketAddr;

use crate::handshake::Party;
use crate::methods::TrafficKind;

use super::{Descriptor, Listener, Method, Place, Stream};
use address::{NameAddress, RelayAddress};
use listener::RelayListener;
use protocol::ToRelay;
use stream::RelayStream;

/// The method `relay`.
pub struct Relay;

impl Method for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn can_break(&self) -> bool {
        true
    }

    fn available(&self) -> Result<(), String> {
        RelayAddress::own().map(drop)
    }

    fn listen(&self, address: Option<&str>, me: &Party) -> io::Result<Box<dyn Listener>> {
        let relay = match address {
            Some(address) => RelayAddress::parse(address),
            None => RelayAddress::own(),
        };
        let relay = relay.map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
        Ok(Box::new(RelayListener::new(relay, me)?))
    }

    fn probe(&self, descriptor: &Descriptor, there: &Place, here: &Place) -> Result<(), String> {
        let own = RelayAddress::own();
        let can_dial = |address: &NameAddress| {
            let is_loopback = |at: &str| at.parse::<SocketAddr>().is_ok_and(|at| at.ip().is_loopback());
            own.is_ok() || here.shares_network_with(there) || !is_loopback(&address.relay.at)
        };
        let addresses = descriptor.addresses.iter().map(|address| NameAddress::parse(address));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        match (addresses.iter().any(can_dial), own) {
            (true, _) => Ok(()),
            (false, Err(none)) => {
                Err(format!("{none}, and the relay of {} listens only on its loopback interface", there.host))
            }
            (false, Ok(_)) => Err("the receiver names no relay".to_owned()),
        }
    }

    fn connect(&self, address: &str, me: &Party, traffic: TrafficKind) -> io::Result<Box<dyn Stream>> {
        let to = NameAddress::parse(address).map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
        let dialled = match RelayAddress::own() {
            Ok(own) => own.at,
            Err(_) if !to.relay.at.is_empty() => to.relay.at,
            Err(none) => return Err(io::Error::new(io::ErrorKind::InvalidInput, none)),
        };
        let peer = format!("relay:{address}");
        let request = ToRelay::Open { site: to.relay.site, name: to.name, traffic };
        Ok(Box::new(RelayStream::ask(&dialled, me, request, peer)?))
    }
}
