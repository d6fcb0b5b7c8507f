//! Sets of positions of a lane, as ranges that do not touch each other.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// From the first position of each range to the one after its last.
    spans: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// How many separate ranges it has.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// How many positions it holds.
    pub fn len(&self) -> u64 {
        self.spans.iter().map(|(from, to)| to - from).sum()
    }

    /// The ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.spans.iter().map(|(&from, &to)| from..to)
    }

    /// The first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.spans.first_key_value().map(|(&from, &to)| from..to)
    }

    /// The range that holds `position`.
    pub fn around(&self, position: u64) -> Option<Range<u64>> {
        let (&from, &to) = self.spans.range(..=position).next_back()?;
        (position < to).then_some(from..to)
    }

    /// Where the next range behind `position` begins.
    pub fn next_after(&self, position: u64) -> Option<u64> {
        self.spans.range(position..).next().map(|(&from, _)| from)
    }

    /// Whether the whole of `range` is in it.
    pub fn holds(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.around(range.start).is_some_and(|found| found.end >= range.end)
    }

    /// Puts `range` in; joins what touches.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut from, mut to) = (range.start, range.end);
        if let Some((&start, &end)) = self.spans.range(..=from).next_back() {
            if end >= to {
                return;
            }
            if end >= from {
                from = start;
            }
        }
        while let Some((&start, &end)) = self.spans.range(from..=to).next() {
            to = to.max(end);
            self.spans.remove(&start);
        }
        self.spans.insert(from, to);
    }

    /// Takes `range` out.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some((&start, &end)) = self.spans.range(..range.start).next_back() {
            if end > range.start {
                self.spans.insert(start, range.start);
                if end > range.end {
                    self.spans.insert(range.end, end);
                    return;
                }
            }
        }
        while let Some((&start, &end)) = self.spans.range(range.clone()).next() {
            self.spans.remove(&start);
            if end > range.end {
                self.spans.insert(range.end, end);
            }
        }
    }

    /// What of `range` is not in it.
    pub fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        while at < range.end {
            if let Some(found) = self.around(at) {
                at = found.end;
                continue;
            }
            let end = self.next_after(at).map_or(range.end, |next| next.min(range.end));
            gaps.push(at..end);
            at = end;
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_behave_like_a_set_of_positions(steps in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 1..40)) {
            let mut ranges = Ranges::default();
            let mut set = [false; 100];
            for (put, from, count) in steps {
                let range = from..from + count;
                set[range.start as usize..range.end as usize].fill(put);
                match put {
                    true => ranges.insert(range),
                    false => ranges.remove(range),
                }
                let spans: Vec<_> = ranges.iter().collect();
                prop_assert!(spans.windows(2).all(|pair| pair[0].end < pair[1].start), "{spans:?}");
                prop_assert!(spans.iter().all(|span| !span.is_empty()));
                for (at, &held) in set.iter().enumerate() {
                    prop_assert_eq!(ranges.around(at as u64).is_some(), held);
                }
                prop_assert_eq!(ranges.len(), set.iter().filter(|&&held| held).count() as u64);
                let missing: u64 = ranges.gaps(0..100).iter().map(|gap| gap.end - gap.start).sum();
                prop_assert_eq!(missing, 100 - ranges.len());
            }
        }
    }
}
