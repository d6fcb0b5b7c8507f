//! Relays of other sites whose link was closed because another relay of their site has come. No socket here.

use std::collections::VecDeque;

/// Relays that are remembered.
const REMEMBERED_MAX: usize = 64;

/// The relays that were replaced last, by their sites and the numbers that their processes have drawn.
#[derive(Debug, Default)]
pub struct FormerRelays(VecDeque<(String, u64)>);

impl FormerRelays {
    /// Decides whether a relay may be linked that has introduced itself by its site and its number. A relay that was started again does
    /// not resume what it had before, so it replaces `others`, the relays of its site that are linked: their numbers, and whether their
    /// links are open. Should a replaced relay be alive, it must not do the same in turn: it is linked again when the other one has left.
    /// Returns false if it must wait for that.
    pub fn admit(&mut self, site: &str, life: u64, others: &[(u64, bool)]) -> bool {
        let is_it = |(other, before): &(String, u64)| other == site && *before == life;
        if self.0.iter().any(is_it) && others.iter().any(|(_, is_open)| *is_open) {
            return false;
        }
        self.0.retain(|former| !is_it(former));
        for (former, _) in others {
            self.0.push_front((site.to_owned(), *former));
        }
        self.0.truncate(REMEMBERED_MAX);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_that_was_started_again_replaces_the_former_one() {
        let mut former = FormerRelays::default();
        assert!(former.admit("a", 1, &[]));
        assert!(former.admit("a", 2, &[(1, true)]));
    }

    #[test]
    fn a_replaced_relay_waits_while_the_other_one_is_linked() {
        let mut former = FormerRelays::default();
        former.admit("a", 2, &[(1, true)]);
        assert!(!former.admit("a", 1, &[(2, true)]));
        assert!(former.admit("b", 1, &[(2, true)]), "a relay of another site is another relay");
    }

    #[test]
    fn a_replaced_relay_comes_back_when_the_link_of_the_other_one_is_broken() {
        let mut former = FormerRelays::default();
        former.admit("a", 2, &[(1, true)]);
        assert!(former.admit("a", 1, &[(2, false)]));
        assert!(!former.admit("a", 2, &[(1, true)]), "now it is the other one that was replaced");
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut former = FormerRelays::default();
        for life in 0..=REMEMBERED_MAX as u64 {
            former.admit("a", life + 1, &[(life, true)]);
        }
        assert_eq!(former.0.len(), REMEMBERED_MAX);
        assert!(former.admit("a", 0, &[(REMEMBERED_MAX as u64 + 1, true)]), "the oldest is forgotten");
    }
}
