//! The listeners of an instance: opened when it joins, for the methods its model allows, and later for those that are asked for.

use std::io;

use xmml_wire::handshake::Party;
use xmml_wire::methods::{self, Descriptor, Listener, Method, Place, Table};
use xmml_wire::wakeup::Interest;

use crate::control::ToCoordinator;

use super::{Door, IoThread};

/// Listens by a method. `XMML_LISTEN` says where to listen for TCP; empty, it says nothing.
pub fn open(method: &dyn Method, me: &Party) -> io::Result<Door> {
    let address = std::env::var("XMML_LISTEN").ok().filter(|text| method.name() == "tcp" && !text.is_empty());
    let listener = method.listen(address.as_deref(), me).map_err(|error| match &address {
        Some(text) => io::Error::new(error.kind(), not_here(text, &error)),
        None => error,
    })?;
    Ok((method.name(), listener))
}

/// Why nobody can listen where `XMML_LISTEN` says.
fn not_here(text: &str, error: &io::Error) -> String {
    format!(
        "XMML_LISTEN is \"{text}\": {error}; expected HOST:PORT with an address of this machine and port 0 for any that \
         is free, towards:HOST or device:NAME"
    )
}

/// What is published of listeners: fastest first.
pub fn table<'a>(here: &Place, doors: impl Iterator<Item = &'a Door>) -> Table {
    let mut entries: Vec<Descriptor> = doors
        .map(|(method, listener)| Descriptor {
            method: (*method).to_owned(),
            addresses: published(method, &**listener),
        })
        .collect();
    let order: Vec<&str> = methods::all().iter().map(|method| method.name()).collect();
    entries.sort_by_key(|entry| order.iter().position(|name| *name == entry.method));
    Table { place: here.clone(), entries }
}

/// Where others find a listener: where it listens, or for TCP what `XMML_PUBLISH` says (behind a proxy or a forwarded port).
fn published(method: &str, listener: &dyn Listener) -> Vec<String> {
    match std::env::var("XMML_PUBLISH") {
        Ok(addresses) if method == "tcp" && !addresses.is_empty() => addresses.split(',').map(str::to_owned).collect(),
        _ => listener.addresses(),
    }
}

impl IoThread {
    /// Listens by these methods too (none: by all), and says so if that is news.
    pub(super) fn open_doors(&mut self, wanted: &[String]) {
        let mut is_news = false;
        for method in methods::all() {
            let name = method.name();
            let is_wanted = match wanted.is_empty() {
                true => method.available().is_ok(),
                false => wanted.iter().any(|choice| methods::name_of(choice) == name),
            };
            if !is_wanted || self.listeners.values().any(|(other, _)| *other == name) {
                continue;
            }
            let token = self.runtime.token();
            let opened = self
                .runtime
                .identity
                .party()
                .map_err(io::Error::other)
                .and_then(|me| open(&*method, &me))
                .and_then(|door| self.epoll.add(door.1.fd(), token, Interest::READ).map(|()| door));
            match opened {
                Ok(door) => {
                    self.listeners.insert(token, door);
                    is_news = true;
                }
                Err(error) => {
                    let text = format!("cannot listen for other instances by {name}: {error}");
                    self.runtime.tell(&ToCoordinator::Warning { text });
                }
            }
        }
        if is_news {
            let table = table(&self.runtime.here, self.listeners.values());
            self.runtime.state().open.reached_by(&table);
            self.runtime.tell(&ToCoordinator::Reachable { table });
        }
    }
}
