//! What is taken from links in a turn of the loop: so much that nothing waits without need, and so little that everybody else has a turn
//! soon. Threads of an encrypted link may bring frames as fast as they are taken.

use xmml_path::Lane;

use super::Relay;
use crate::registry::Token;

/// Bulk frames that are taken in a row before control is looked at again.
const BULK_IN_A_ROW: usize = 8;

/// Frames that are taken from a link in a turn.
const FRAMES_MAX: usize = 1024;

/// Bytes that are taken from a link in a turn; the last frame may go beyond.
const BYTES_MAX: usize = 4 << 20;

/// What may still be taken in this turn.
struct Left {
    frames: usize,
    bytes: usize,
}

impl Left {
    fn is_nothing(&self) -> bool {
        self.frames == 0 || self.bytes == 0
    }
}

impl Relay {
    /// Takes in what has come by a link, control first; what is too much for this turn is taken in the next.
    pub(super) fn take_frames(&mut self, link: Token) -> Result<(), String> {
        let mut left = Left { frames: FRAMES_MAX, bytes: BYTES_MAX };
        loop {
            while self.take_frame(link, Lane::Control, &mut left)? {}
            let mut count = 0;
            while count < BULK_IN_A_ROW && self.take_frame(link, Lane::Bulk, &mut left)? {
                count += 1;
            }
            if left.is_nothing() {
                // Nothing wakes the relay for what has come already.
                self.unfinished.insert(link);
                return Ok(());
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// False: there is none, or it has to wait.
    fn take_frame(&mut self, link: Token, lane: Lane, left: &mut Left) -> Result<bool, String> {
        if left.is_nothing() {
            return Ok(false);
        }
        let Some(frame) = self.links.get(&link).and_then(|link| link.path.take(lane)) else { return Ok(false) };
        left.frames -= 1;
        left.bytes = left.bytes.saturating_sub(frame.len());
        self.frame_came(link, frame)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use xmml_path::{Identity, Path, Settings};

    use xmml_wire::handshake::relay_key;
    use xmml_wire::methods::relay::protocol::RELAY;

    use super::*;
    use crate::encryption::Encryption;
    use crate::link_frame;
    use crate::log::{Format, Level, Log};
    use crate::waiting::await_that;

    /// A relay, and another one that is linked to it.
    fn linked() -> (Relay, Path) {
        let mut relay = Relay::new("b", Log::to_memory(Format::Text, Level::Info)).unwrap();
        relay.encrypt(Encryption::self_made("b").unwrap().but(&[], false).unwrap());
        let address = relay.listen("127.0.0.1:0").unwrap().to_string();
        relay.add_run("canal", b"the secret", None).unwrap();
        let me = Identity::new(&relay_key(b"the secret"), "canal", "x");
        let other = Path::dial(&address, &me, RELAY, Settings::default()).unwrap();
        other.attend().unwrap();
        await_that("there is a link", || {
            relay.turn(&mut Vec::new()).unwrap();
            !relay.links.is_empty()
        });
        (relay, other)
    }

    fn waiting(relay: &Relay, link: Token) -> usize {
        relay.links[&link].path.stats().waiting.iter().sum()
    }

    #[test]
    fn a_link_that_brings_more_than_a_turn_takes_leaves_it_to_the_next_and_loses_nothing() {
        for (count, bytes) in [(3 * FRAMES_MAX, 1), (3 * BYTES_MAX / (64 << 10), 64 << 10)] {
            let (mut relay, other) = linked();
            let link = *relay.links.keys().next().unwrap();
            // From now on somebody else fills it, as its threads do.
            relay.links[&link].path.attend().unwrap();
            for number in 0..count {
                let frame = link_frame::data(number as u64 + 1, &vec![1; bytes]);
                other.post(Lane::Bulk, frame).unwrap();
            }
            await_that(&format!("all {count} have come"), || waiting(&relay, link) == count);
            let mut turns = 0;
            while waiting(&relay, link) > 0 {
                let before = waiting(&relay, link);
                relay.link_ready(link);
                let taken = before - waiting(&relay, link);
                assert!(taken <= FRAMES_MAX && taken * bytes <= BYTES_MAX + bytes, "{taken} of {bytes} bytes at once");
                // The next turn comes by itself.
                assert!(relay.unfinished.contains(&link) || waiting(&relay, link) == 0);
                turns += 1;
            }
            assert!(turns >= 3, "{turns}");
            relay.turn(&mut Vec::new()).unwrap();
            assert!(relay.unfinished.is_empty());
        }
    }
}
