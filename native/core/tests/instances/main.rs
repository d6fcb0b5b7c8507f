//! Instances, their coordinator and what they say to each other: what needs no process of its own, in one program, which takes a fraction of the time to
//! make.

#[path = "../support/mod.rs"]
mod support;

mod alone;
mod breaches;
mod carried_state;
mod coordinator;
mod faults;
mod filters_and_time;
mod handles;
mod liveness;
mod parallel_pools;
mod parallel_ports;
mod ranks;
mod reliability;
mod room_and_ends;
mod runs;
mod sequence;
