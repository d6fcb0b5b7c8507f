//! The relay of a site. Instances behind it can be reached from other sites by run, site and name, without a port of their own; between
//! relays the streams of a run share one link. One thread forwards everything: what comes in goes out by the same turn of the loop.
//!
//! What the relay is told by processes of its site is in `xmml_wire::methods::relay::protocol`; `docs/relay.md` is for its users.

pub mod config;
pub mod control_protocol;
pub mod encryption;
pub mod link_frame;
pub mod log;
pub mod metrics;
pub mod nonblocking_output;
pub mod nonblocking_tcp;
pub mod pending_connection;
pub mod read_buffer;
pub mod registry;
pub mod relay;
pub mod routes;
pub mod signals;
pub mod status;
pub mod stream_buffer;
pub mod window;

#[cfg(test)]
#[path = "../../native/wire/tests/support/waiting.rs"]
mod waiting;
