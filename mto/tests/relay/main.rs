//! The relay: what needs no process of its own, in one program, which takes a fraction of the time to make.

#[path = "../support/mod.rs"]
mod support;

mod encryption;
mod false_relays;
mod names;
mod program;
mod streams;
mod unread;
mod ways;
