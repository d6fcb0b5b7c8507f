//! Arrays that are spread over ranks: who holds what, and what passes between M sending and N receiving ranks.
//!
//! Everything here is a pure function of decompositions and shapes:
//!
//! * [`decomposition`]: which block of an array a rank holds, and which ranks of two sides can have elements in common;
//! * [`blocks`]: blocks of an index space and their overlaps;
//! * [`copying`]: copies a block from one array into another, from either memory order into either;
//! * [`part`]: what one rank sends to another, as data of an ordinary message, and how the receiver puts the parts together.
//!
//! A message of a parallel port is as many messages as there are pairs of ranks with elements in common, one on each conduit of such a
//! pair. No rank ever holds more than its own block.

pub mod blocks;
pub mod copying;
pub mod decomposition;
pub mod gathering;
pub mod part;
