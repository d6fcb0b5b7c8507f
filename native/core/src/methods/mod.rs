//! The ways by which a conduit can travel.

/// How a conduit travels, or why it does not (yet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodReport {
    /// The conduit.
    pub conduit: u32,
    /// The conduit for people: `a.o -> b.i`.
    pub name: String,
    /// The method in use; `None` while the other end is not known yet, and at a receiver before the sender has connected.
    pub chosen: Option<String>,
    /// The methods that were considered first and refused, each with the reason.
    pub refused: Vec<Refusal>,
}

/// A method that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its name, e.g. `unix`.
    pub method: String,
    /// Why not.
    pub reason: String,
}
