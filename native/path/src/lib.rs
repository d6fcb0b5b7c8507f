//! A path: 1 to 128 TCP streams between two programs that behave as one channel for messages, in both directions at once.
//!
//! * Messages are cut in pieces, and a piece goes to whichever stream is free: a slow stream never holds the others.
//! * There are two [lanes](Lane), each in order; what is on the control lane never waits behind bulk.
//! * Both ends keep what is not receipted. A stream that dies is opened again by the end that dialled; if all die, the path goes on where
//!   the receipts stand. Nothing is lost, doubled or reordered.
//! * Memory is bounded: the other end sends only what this end has granted ([`Settings::window`]), and the program asks
//!   [`Path::has_room`] (or waits) before it sends.
//!
//! There are two ways of using one. A program with an event loop of its own polls [`Path::fd`] for reading, calls [`Path::drive`]
//! whenever it is readable, and uses the calls that never wait: [`Path::post`], [`Path::take`]. Other programs call
//! [`Path::attend`] once, which starts a thread that keeps the path alive while they compute, and then the calls that wait:
//! [`Path::send`], [`Path::receive`] and their company. The two ways may be mixed, from any number of threads.
//!
//! ```
//! use std::time::Duration;
//! use xmml_path::{Identity, Lane, Listener, Path, Received, Settings};
//!
//! # fn main() -> xmml_wire::error::Result<()> {
//! let here = Identity::new(b"the secret of the run", "run", "amsterdam");
//! let there = Identity::new(b"the secret of the run", "run", "tokyo");
//! let listener = Listener::bind("127.0.0.1:0", &there, Settings::default())?;
//! let path = Path::dial(&listener.address(), &here, "tokyo", Settings::default())?;
//! path.attend()?;
//! path.post(Lane::Bulk, b"hello".to_vec())?;
//! let other = listener.accept(Some(Duration::from_secs(10)))?.expect("somebody dialled");
//! let received = other.receive(Lane::Bulk, Some(Duration::from_secs(10)))?;
//! assert_eq!(received, Some(Received::Message(b"hello".to_vec().into())));
//! # Ok(())
//! # }
//! ```
//!
//! Inside: [`frame`] is the wire, [`session`] (with [`outbox`], [`inbox`], [`ranges`]) the state without sockets or clocks, `stream` one
//! socket, `driver` what happens as sockets and time go on and who drives, `dialling` and `driver::acceptor` how streams come to be,
//! `farewell` how a path that is given up is told of, `zero_copy` what streams send without copying it.

mod certificate;
mod congestion;
pub mod credentials;
mod dialling;
mod driver;
mod exchange;
mod farewell;
mod forwarding;
pub mod frame;
mod identity;
pub mod inbox;
mod limit;
mod listener;
pub mod outbox;
mod pacing;
mod path;
pub mod ranges;
mod sending;
pub mod session;
mod settings;
mod socket;
mod socket_option;
mod stream;
mod tcp_info;
mod tls;
mod tuning;
mod zero_copy;

#[cfg(test)]
#[path = "../../wire/tests/support/waiting.rs"]
mod waiting;

pub use congestion::available_congestion_controls;
pub use credentials::{Credentials, Fingerprint, OutOfTime, Signature, Tls};
pub use driver::State;
pub use exchange::{cycle, gather, gather_again, scatter, Cycle};
pub use forwarding::relay;
pub use frame::{Lane, CLOSED};
pub use identity::Identity;
pub use listener::Listener;
pub use path::{Path, Received, Stats, Ticket};
pub use sending::{InTime, Late, Sending};
pub use settings::{LinkFigures, Settings, Streams, ZeroCopy, LEAST_WINDOW, MAX_STREAMS};
pub use tls::TlsWire;
pub use zero_copy::Copies;

/// The examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/wide-area.md")]
struct WideAreaPage;
