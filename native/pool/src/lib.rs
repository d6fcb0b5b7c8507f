//! Objects with typed attributes, and selectors that choose among them: pure values, without sockets, clocks or threads.

mod mistake;
pub mod object;
pub mod packing;
pub mod schema;
pub mod selector;
pub mod time;
pub mod value;

pub use mistake::Mistake;
