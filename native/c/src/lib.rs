//! The C API of xMML over `xmml_core`: `include/xmml.h` is its documentation, and the order of its sections that of these modules.
//!
//! Every function here converts types and errors and adds nothing. No panic crosses the boundary (`status::guard`), no function
//! ends the process, and what C passes is checked before it is used: null pointers, text that is not UTF-8, shapes that overflow.
//!
//! What the header promises of a pointer (objects come from this library and are still alive, texts end with a 0 byte, arrays hold as many
//! elements as their shape says) is the type of the argument: see `argument`.

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
mod pool;
mod receive;
mod send;
mod status;
mod team;
mod text;
mod value;
mod value_api;

// Several threads of a program may use these at once, each by a reference of its own.
const _: () = {
    const fn may_be_shared<T: Sync>() {}
    may_be_shared::<instance::Member>();
    may_be_shared::<path::xmml_path>();
    may_be_shared::<path::xmml_path_listener>();
};
