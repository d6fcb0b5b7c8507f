//! What is taken from a link in a turn of the loop: so much that nothing waits without need, and so little that everybody else has a turn
//! soon. Threads of an encrypted link may bring frames as fast as they are taken. No socket here.

use xmml_path::Lane;

/// Bulk frames that are taken in a row before control is looked at again.
pub const BULK_IN_A_ROW: usize = 8;

/// Frames that are taken from a link in a turn.
pub const FRAMES_MAX: usize = 1024;

/// Bytes that are taken from a link in a turn; the last frame may go beyond.
pub const BYTES_MAX: usize = 4 << 20;

/// What may still be taken from a link in this turn, and from which lane next.
#[derive(Debug)]
pub struct ReadBudget {
    frames: usize,
    bytes: usize,
    /// Frames that were taken from the bulk lane since control had none; `None`: control is next.
    bulk: Option<usize>,
}

impl Default for ReadBudget {
    fn default() -> ReadBudget {
        ReadBudget { frames: FRAMES_MAX, bytes: BYTES_MAX, bulk: None }
    }
}

impl ReadBudget {
    /// Returns whether nothing more may be taken.
    pub fn is_spent(&self) -> bool {
        self.frames == 0 || self.bytes == 0
    }

    /// Takes the next frame, control first; `None` if there is none, or the budget is spent.
    pub fn next<Frame: AsRef<[u8]>>(&mut self, mut take: impl FnMut(Lane) -> Option<Frame>) -> Option<Frame> {
        while !self.is_spent() {
            let taken = match self.bulk {
                None => take(Lane::Control),
                Some(BULK_IN_A_ROW) => None,
                Some(_) => take(Lane::Bulk),
            };
            if let Some(frame) = taken {
                self.frames -= 1;
                self.bytes = self.bytes.saturating_sub(frame.as_ref().len());
                self.bulk = self.bulk.map(|count| count + 1);
                return Some(frame);
            }
            self.bulk = match self.bulk {
                None => Some(0),
                Some(0) => return None,
                Some(_) => None,
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what two lanes with so many frames of so many bytes give in a turn: the lanes in order, and whether more may be taken.
    fn turn(mut control: usize, mut bulk: usize, bytes: usize) -> (Vec<Lane>, bool) {
        let mut budget = ReadBudget::default();
        let mut lanes = Vec::new();
        let mut take = |lane| {
            let left = if lane == Lane::Control { &mut control } else { &mut bulk };
            *left = left.checked_sub(1)?;
            lanes.push(lane);
            Some(vec![0; bytes])
        };
        while budget.next(&mut take).is_some() {}
        (lanes, !budget.is_spent())
    }

    #[test]
    fn control_goes_first() {
        assert_eq!(turn(2, 1, 1), (vec![Lane::Control, Lane::Control, Lane::Bulk], true));
    }

    #[test]
    fn control_that_arrives_meanwhile_waits_for_a_few_bulk_frames_only() {
        let mut budget = ReadBudget::default();
        let mut taken = Vec::new();
        for _ in 0..2 * BULK_IN_A_ROW {
            // There is bulk always, and control from the second frame on.
            budget.next(|lane| (lane == Lane::Bulk || !taken.is_empty()).then_some([0; 1])).unwrap();
            taken.push(budget.bulk.is_some());
        }
        assert_eq!(taken.iter().position(|is_bulk| !is_bulk), Some(BULK_IN_A_ROW));
    }

    #[test]
    fn a_turn_takes_a_bounded_number_of_frames() {
        let (lanes, may_go_on) = turn(0, 2 * FRAMES_MAX, 1);
        assert_eq!((lanes.len(), may_go_on), (FRAMES_MAX, false));
    }

    #[test]
    fn a_turn_takes_a_bounded_number_of_bytes() {
        let (lanes, may_go_on) = turn(0, FRAMES_MAX, 64 << 10);
        assert_eq!((lanes.len() * (64 << 10), may_go_on), (BYTES_MAX, false));
    }
}
