//! What is wrong in a text, and where.

use std::fmt;
use std::ops::Range;

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The bytes of the text that are wrong; empty at its end if something is missing there.
    pub at: Range<usize>,
    /// What is wrong and what was expected, in a sentence without its full stop.
    pub problem: String,
}

impl Mistake {
    pub(crate) fn new(at: Range<usize>, problem: impl Into<String>) -> Mistake {
        Mistake { at, problem: problem.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.at.start + 1, self.problem)
    }
}

impl std::error::Error for Mistake {}
