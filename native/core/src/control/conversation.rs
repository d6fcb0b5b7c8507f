//! What lets a control connection be made anew without a word lost or heard twice: each side counts the messages that it hears, and keeps
//! what it has said until the other side is known to have it. One conversation lasts from the welcome to the end of the instance,
//! whatever becomes of the connections below it.
//!
//! [`Rejoin`](super::ToCoordinator::Rejoin), its answer, and `Heard` are about the conversation, not in it: they are neither counted nor
//! kept.

use std::collections::VecDeque;

use xmml_wire::connection::Outgoing;

/// After so many messages a side says how many it has heard.
const HEARD_EVERY: u64 = 16;

/// So many bytes are kept for one side that does not say what it has; who says more while it is away is not taken back.
const KEPT_LIMIT: usize = 32 << 20;

/// One side of a conversation.
#[derive(Debug, Default)]
pub struct Conversation {
    /// Frames that the other side may not have, in order.
    kept: VecDeque<Outgoing>,
    kept_bytes: usize,
    /// Frames before these: the other side has them.
    forgotten: u64,
    /// Messages of the other side that have come.
    heard: u64,
    /// How many of them the other side knows to have come.
    told: u64,
}

impl Conversation {
    /// Keeps a frame that is said. False: it is too much; the conversation cannot be taken up again if its connection breaks.
    pub fn say(&mut self, frame: &Outgoing) -> bool {
        self.kept_bytes += frame.len();
        self.kept.push_back(frame.clone());
        self.kept_bytes <= KEPT_LIMIT
    }

    /// A message has come. `Some`: it is time to tell the other side that so many have.
    pub fn hear(&mut self) -> Option<u64> {
        self.heard += 1;
        (self.heard - self.told >= HEARD_EVERY).then(|| self.tell())
    }

    /// How many messages have come; the other side is told.
    pub fn tell(&mut self) -> u64 {
        self.told = self.heard;
        self.heard
    }

    /// The other side has the first `count` messages, and needs them no more.
    ///
    /// # Errors
    /// That cannot be, for people.
    pub fn has(&mut self, count: u64) -> Result<(), String> {
        let said = self.forgotten + self.kept.len() as u64;
        if count < self.forgotten || count > said {
            return Err(format!(
                "it says that it has {count} messages of this conversation; there were {said}, of which it had {}",
                self.forgotten
            ));
        }
        while self.forgotten < count {
            self.kept_bytes -= self.kept.pop_front().map_or(0, |frame| frame.len());
            self.forgotten += 1;
        }
        Ok(())
    }

    /// A number that grows with every message that the other side, or this one, is known to have.
    pub fn progress(&self) -> u64 {
        self.heard + self.forgotten
    }

    /// Whether the other side may lack something.
    pub fn waits(&self) -> bool {
        !self.kept.is_empty()
    }

    /// What the other side may not have, to be said again.
    pub fn rest(&self) -> impl Iterator<Item = Outgoing> + '_ {
        self.kept.iter().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(byte: u8) -> Outgoing {
        vec![byte; 10].into()
    }

    #[test]
    fn what_the_other_side_has_is_forgotten_and_the_rest_said_again_in_order() {
        let mut mine = Conversation::default();
        (0..5).for_each(|byte| assert!(mine.say(&frame(byte))));
        mine.has(2).unwrap();
        mine.has(2).unwrap();
        assert!(mine.say(&frame(5)));
        let rest: Vec<usize> = mine.rest().map(|frame| frame.len()).collect();
        assert_eq!(rest, [10; 4]);
        assert_eq!((mine.forgotten, mine.kept_bytes), (2, 40));
        mine.has(6).unwrap();
        assert_eq!((mine.rest().count(), mine.kept_bytes), (0, 0));
    }

    #[test]
    fn counts_that_cannot_be_are_refused() {
        let mut mine = Conversation::default();
        (0..3).for_each(|byte| assert!(mine.say(&frame(byte))));
        mine.has(2).unwrap();
        for count in [0, 1, 4, u64::MAX] {
            assert!(mine.has(count).unwrap_err().contains("there were 3"), "{count}");
        }
    }

    #[test]
    fn the_other_side_is_told_now_and_then_how_many_have_come() {
        let mut mine = Conversation::default();
        let told: Vec<u64> = (0..40).filter_map(|_| mine.hear()).collect();
        assert_eq!(told, [16, 32]);
        assert_eq!(mine.tell(), 40);
        assert_eq!(mine.hear(), None);
    }

    #[test]
    fn who_never_says_what_it_has_is_not_kept_for_without_end() {
        let mut mine = Conversation::default();
        let long: Outgoing = vec![0; KEPT_LIMIT / 4].into();
        let kept: Vec<bool> = (0..5).map(|_| mine.say(&long)).collect();
        assert_eq!(kept, [true, true, true, true, false]);
    }
}
