//! The C API of xMML over `xmml_core`: `include/xmml.h` is its documentation, and the order of its sections that of these modules.
//!
//! Every function here converts types and errors and adds nothing. No panic crosses the boundary (`status::guard`), no function
//! ends the process, and what C passes is checked before it is used: null pointers, text that is not UTF-8, shapes that overflow.
//!
//! # Safety
//! The functions are `unsafe` because they take pointers. What they ask of a pointer stands in the header: objects come from this library
//! and are still alive, texts end with a 0 byte, and arrays hold as many elements as their shape says.
#![allow(clippy::missing_safety_doc)]

mod alone;
mod argument;
mod array;
mod callback;
mod declared;
mod handle;
mod instance;
mod loan;
mod message;
mod parameter;
mod path;
mod receive;
mod send;
mod status;
mod team;
mod text;
mod value;
mod value_api;
