//! Objects of a pool that wait with their writer until a reader has room: those of a queue, which its readers share, and those of a
//! reader that may lose some.
//!
//! Nobody stands between writer and readers. A reader is *given* an object, and *settles* it when it has dealt with it. How many it is given
//! ahead depends on its pace: no more than it settles within [`AHEAD`], so that nothing waits at a slow reader while another one is idle.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Room;

/// For so long a reader may have work ahead.
const AHEAD: Duration = Duration::from_millis(10);

/// What waits for some readers, and what they were given and have not settled.
#[derive(Debug)]
pub struct Backlog<T> {
    readers: Vec<Reader<T>>,
    waiting: VecDeque<Held<T>>,
    /// Bytes that wait or were given.
    held_bytes: u64,
    limit_bytes: u64,
    /// The oldest that wait make room for new ones.
    may_lose: bool,
    /// So many objects a reader is given before it settles one, however fast it is.
    most_given: u64,
    /// Which of equal readers is given the next one.
    turn: usize,
}

/// What is given as one: an object, or those of a group.
#[derive(Clone, Debug)]
struct Held<T> {
    it: T,
    bytes: u64,
    objects: u64,
}

#[derive(Debug)]
struct Reader<T> {
    given: VecDeque<Held<T>>,
    given_bytes: u64,
    is_gone: bool,
    /// How long it takes for one.
    pace: Option<Duration>,
    /// When it began with the one that it deals with.
    since: Option<Instant>,
}

impl<T> Reader<T> {
    fn room(&self, least_ahead: u64, most_given: u64) -> u64 {
        let by_pace = match self.pace {
            None => 0,
            Some(pace) => (AHEAD.as_nanos() / pace.as_nanos().max(1)).try_into().unwrap_or(u64::MAX),
        };
        let most = by_pace.max(least_ahead).saturating_add(1).min(most_given);
        most.saturating_sub(self.given.len() as u64)
    }
}

impl<T: Clone> Backlog<T> {
    /// Nothing waits, and nobody reads yet.
    pub fn new(limit_bytes: u64, may_lose: bool, most_given: u64) -> Backlog<T> {
        Backlog {
            readers: Vec::new(),
            waiting: VecDeque::new(),
            held_bytes: 0,
            limit_bytes,
            may_lose,
            most_given,
            turn: 0,
        }
    }

    /// For one reader that sees the newest object only: an older one makes room for it, and the reader is given one at a time.
    pub fn of_newest() -> Backlog<T> {
        Backlog::new(0, true, 1)
    }

    /// Adds a reader; returns its place.
    pub fn add_reader(&mut self) -> usize {
        self.readers.push(Reader { given: VecDeque::new(), given_bytes: 0, is_gone: false, pace: None, since: None });
        self.readers.len() - 1
    }

    /// Whether an object of so many bytes may be added. One always may when nothing is held.
    pub fn room(&self, bytes: u64) -> Room {
        if self.is_without_readers() {
            Room::Gone
        } else if self.may_lose || self.held_bytes == 0 || self.held_bytes.saturating_add(bytes) <= self.limit_bytes {
            Room::Free
        } else {
            Room::Full
        }
    }

    /// Adds an object, or so many of a group, for which there is room. Returns how many older ones are lost by that.
    pub fn add(&mut self, it: T, bytes: u64, objects: u64) -> u64 {
        self.waiting.push_back(Held { it, bytes, objects });
        self.held_bytes += bytes;
        let mut lost = 0;
        while self.may_lose && self.held_bytes > self.limit_bytes && self.waiting.len() > 1 {
            if let Some(oldest) = self.waiting.pop_front() {
                self.held_bytes -= oldest.bytes;
                lost += oldest.objects;
            }
        }
        lost
    }

    /// Gives the next object to the reader with most room; returns it with the place of the reader. `least_ahead` says how many objects a
    /// reader may have ahead whatever its pace, or `None`: it cannot be given any now.
    pub fn give(&mut self, now: Instant, least_ahead: impl Fn(usize) -> Option<u64>) -> Option<(usize, T)> {
        let bytes = self.waiting.front()?.bytes;
        let count = self.readers.len();
        let mut best: Option<(u64, usize)> = None;
        for place in (0..count).map(|turn| (self.turn + turn) % count) {
            let reader = &self.readers[place];
            let Some(least_ahead) = least_ahead(place).filter(|_| !reader.is_gone) else { continue };
            let is_within_limit =
                reader.given.is_empty() || reader.given_bytes.saturating_add(bytes) <= self.limit_bytes;
            let room = if is_within_limit { reader.room(least_ahead, self.most_given) } else { 0 };
            if room > best.map_or(0, |(most, _)| most) {
                best = Some((room, place));
            }
        }
        let (_, place) = best?;
        let held = self.waiting.pop_front()?;
        let it = held.it.clone();
        let reader = &mut self.readers[place];
        if reader.given.is_empty() {
            reader.since = Some(now);
        }
        reader.given.push_back(held);
        reader.given_bytes += bytes;
        self.turn = place + 1;
        Some((place, it))
    }

    /// A reader has settled all but `left` of what it was given. What one says that is far away comes in bursts: the shorter times are its own, the
    /// longer ones those of the way.
    pub fn settle(&mut self, place: usize, left: u64, is_far: bool, now: Instant) {
        let reader = &mut self.readers[place];
        let settled = (reader.given.len() as u64).saturating_sub(left);
        if settled == 0 {
            return;
        }
        for held in reader.given.drain(..settled as usize) {
            self.held_bytes -= held.bytes;
            reader.given_bytes -= held.bytes;
        }
        if let Some(since) = reader.since {
            let each = now.saturating_duration_since(since) / settled.try_into().unwrap_or(u32::MAX);
            reader.pace = Some(match reader.pace {
                None => each,
                Some(before) if !is_far => (before * 3 + each) / 4,
                Some(before) if each < before => (before + each) / 2,
                Some(before) => (before * 7 + each) / 8,
            });
        }
        reader.since = (!reader.given.is_empty()).then_some(now);
    }

    /// A reader has left, having settled all but `left` of what it was given: that waits again, before all other. Returns how many objects
    /// nobody will take, since no reader is left.
    pub fn reader_gone(&mut self, place: usize, left: u64, now: Instant) -> u64 {
        self.settle(place, left, false, now);
        self.take_back(place, |_| {})
    }

    /// A reader has died: what it was given and has not settled, as far as is known, waits again, before all other; each of these is
    /// `marked`, the first one first. Returns how many objects nobody will take, since no reader is left.
    pub fn reader_died(&mut self, place: usize, marked: impl FnMut(&mut T)) -> u64 {
        self.take_back(place, marked)
    }

    fn take_back(&mut self, place: usize, mut marked: impl FnMut(&mut T)) -> u64 {
        let reader = &mut self.readers[place];
        reader.is_gone = true;
        reader.given_bytes = 0;
        let mut given = std::mem::take(&mut reader.given);
        given.iter_mut().for_each(|held| marked(&mut held.it));
        given.into_iter().rev().for_each(|held| self.waiting.push_front(held));
        if !self.is_without_readers() {
            return 0;
        }
        self.held_bytes = 0;
        let lost = self.waiting_objects();
        self.waiting.clear();
        lost
    }

    /// Takes out the object that waits for the only reader, which gets it without having room, as the last one; `None`: none waits, or the
    /// reader has left.
    pub fn take_last(&mut self) -> Option<T> {
        let last = self.waiting.pop_back()?;
        self.held_bytes -= last.bytes;
        Some(last.it)
    }

    /// Whether all readers have left.
    pub fn is_without_readers(&self) -> bool {
        self.readers.iter().all(|reader| reader.is_gone)
    }

    /// Whether objects wait for a reader that has room.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How many objects wait for a reader that has room.
    pub fn waiting_objects(&self) -> u64 {
        self.waiting.iter().map(|held| held.objects).sum()
    }

    /// How many bytes those have.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.iter().map(|held| held.bytes).sum()
    }

    /// Whether every object was settled.
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.readers.iter().all(|reader| reader.given.is_empty())
    }

    /// Whether half of what may be held is free.
    pub fn has_much_room(&self) -> bool {
        self.held_bytes <= self.limit_bytes / 2
    }

    /// How many objects were not settled.
    pub fn unsettled_objects(&self) -> u64 {
        let given = self.readers.iter().flat_map(|reader| &reader.given);
        self.waiting_objects() + given.map(|held| held.objects).sum::<u64>()
    }

    /// The places of the readers that have objects to settle.
    pub fn unsettled(&self) -> impl Iterator<Item = usize> + '_ {
        self.readers.iter().enumerate().filter(|(_, reader)| !reader.given.is_empty()).map(|(place, _)| place)
    }

    /// From now on nothing is given to anybody.
    pub fn halt(&mut self) {
        self.most_given = 0;
    }

    /// More may be held from now on.
    pub fn grow(&mut self) {
        self.limit_bytes = self.limit_bytes.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(readers: usize) -> Backlog<u32> {
        let mut backlog = Backlog::new(1000, false, 8);
        (0..readers).for_each(|_| _ = backlog.add_reader());
        backlog
    }

    fn given(backlog: &mut Backlog<u32>, now: Instant) -> Vec<(usize, u32)> {
        std::iter::from_fn(|| backlog.give(now, |_| Some(0))).collect()
    }

    #[test]
    fn each_object_is_given_to_one_reader_and_no_reader_has_two_before_its_pace_is_known() {
        let (mut backlog, now) = (queue(3), Instant::now());
        for object in 0..5 {
            assert_eq!(backlog.room(10), Room::Free);
            backlog.add(object, 10, 1);
        }
        assert_eq!(given(&mut backlog, now), [(0, 0), (1, 1), (2, 2)]);
        backlog.settle(1, 0, false, now + Duration::from_secs(1));
        assert_eq!(given(&mut backlog, now), [(1, 3)]);
        assert!(backlog.is_waiting() && !backlog.is_settled());
    }

    #[test]
    fn a_fast_reader_is_given_up_to_eight_ahead_and_a_slow_one_none() {
        let (mut backlog, now) = (queue(2), Instant::now());
        (0..40).for_each(|object| _ = backlog.add(object, 1, 1));
        given(&mut backlog, now);
        backlog.settle(0, 0, false, now + Duration::from_micros(10));
        backlog.settle(1, 0, false, now + Duration::from_secs(1));
        let places: Vec<usize> = given(&mut backlog, now).iter().map(|(place, _)| *place).collect();
        let count = |place| places.iter().filter(|each| **each == place).count();
        assert_eq!((count(0), count(1)), (8, 1));
    }

    #[test]
    fn a_reader_that_is_not_ready_is_given_nothing() {
        let mut backlog = queue(2);
        (0..2).for_each(|object| _ = backlog.add(object, 1, 1));
        let second_only = |place| (place == 1).then_some(0);
        assert_eq!(backlog.give(Instant::now(), second_only), Some((1, 0)));
        assert_eq!(backlog.give(Instant::now(), second_only), None);
    }

    #[test]
    fn a_reader_that_is_far_away_has_one_ahead_however_slow_it_is() {
        let mut backlog = queue(2);
        (0..5).for_each(|object| _ = backlog.add(object, 1, 1));
        let far = |place| Some(place as u64);
        let places: Vec<usize> =
            std::iter::from_fn(|| backlog.give(Instant::now(), far)).map(|(place, _)| place).collect();
        assert_eq!(places, [1, 0, 1]);
    }

    #[test]
    fn no_reader_is_given_more_bytes_than_the_limit_however_fast_it_is() {
        let mut backlog = Backlog::new(100, true, 64);
        backlog.add_reader();
        let now = Instant::now();
        backlog.add(0, 1, 1);
        given(&mut backlog, now);
        backlog.settle(0, 0, false, now);
        (1..9).for_each(|object| _ = backlog.add(object, 40, 1));
        assert_eq!(given(&mut backlog, now), [(0, 7), (0, 8)]);
    }

    #[test]
    fn a_way_that_takes_time_does_not_make_a_reader_slow() {
        let (mut backlog, mut now) = (queue(1), Instant::now());
        let far = |_| Some(1);
        let mut outstanding = 0;
        for _ in 0..40 {
            (0..20).for_each(|object| _ = backlog.add(object, 1, 1));
            while backlog.give(now, far).is_some() {
                outstanding += 1;
            }
            now += Duration::from_millis(30);
            while outstanding > 0 {
                outstanding -= 1;
                now += Duration::from_micros(10);
                backlog.settle(0, outstanding, true, now);
            }
        }
        (0..20).for_each(|object| _ = backlog.add(object, 1, 1));
        assert_eq!(std::iter::from_fn(|| backlog.give(now, far)).count(), 8);
    }

    #[test]
    fn what_was_given_counts_as_held_until_it_is_settled() {
        let (mut backlog, now) = (queue(1), Instant::now());
        backlog.add(0, 900, 1);
        given(&mut backlog, now);
        assert_eq!((backlog.room(100), backlog.room(101)), (Room::Free, Room::Full));
        backlog.settle(0, 0, false, now);
        assert_eq!(backlog.room(5000), Room::Free, "one always may be held");
        backlog.add(1, 5000, 1);
        assert_eq!(backlog.room(1), Room::Full);
        backlog.grow();
        assert_eq!(backlog.room(1), Room::Full);
        (0..3).for_each(|_| backlog.grow());
        assert_eq!(backlog.room(1), Room::Free);
    }

    #[test]
    fn what_a_reader_that_leaves_has_not_settled_is_given_to_others_first_and_in_order() {
        let (mut backlog, now) = (queue(2), Instant::now());
        (0..2).for_each(|object| _ = backlog.add(object, 1, 1));
        given(&mut backlog, now);
        backlog.settle(0, 0, false, now);
        (2..12).for_each(|object| _ = backlog.add(object, 1, 1));
        let ahead: Vec<u32> =
            given(&mut backlog, now).into_iter().filter(|(at, _)| *at == 0).map(|(_, it)| it).collect();
        assert_eq!(ahead, [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(backlog.reader_gone(0, 6, now), 0);
        backlog.settle(1, 0, false, now);
        let again: Vec<u32> = given(&mut backlog, now).into_iter().map(|(_, object)| object).collect();
        assert_eq!(again, [4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn what_a_reader_that_dies_has_not_settled_is_marked_and_given_to_others_first() {
        let (mut backlog, now) = (queue(2), Instant::now());
        (0..3).for_each(|object| _ = backlog.add(object, 1, 1));
        assert_eq!(given(&mut backlog, now), [(0, 0), (1, 1)]);
        assert_eq!(backlog.reader_died(0, |object| *object += 100), 0);
        backlog.settle(1, 0, false, now + Duration::from_secs(1));
        assert_eq!(given(&mut backlog, now), [(1, 100)]);
        assert_eq!(backlog.reader_died(1, |object| *object += 100), 2, "nobody is left");
    }

    #[test]
    fn one_that_is_halted_gives_out_nothing() {
        let (mut backlog, now) = (queue(1), Instant::now());
        backlog.add(0, 1, 1);
        backlog.halt();
        assert_eq!(given(&mut backlog, now), []);
        assert!(backlog.is_waiting());
    }

    #[test]
    fn what_nobody_is_left_for_is_counted() {
        let (mut backlog, now) = (queue(2), Instant::now());
        (0..7).for_each(|object| _ = backlog.add(object, 1, 1));
        given(&mut backlog, now);
        assert_eq!(backlog.reader_gone(0, 1, now), 0);
        assert_eq!(backlog.reader_gone(1, 0, now), 6);
        assert_eq!(backlog.room(1), Room::Gone);
        assert!(backlog.is_settled());
    }

    #[test]
    fn where_some_may_be_lost_the_oldest_make_room_and_the_newest_stays() {
        let mut backlog = Backlog::new(30, true, 64);
        backlog.add_reader();
        let lost: u64 = (0..10).map(|object| backlog.add(object, 10, 1)).sum();
        assert_eq!((lost, backlog.room(1000)), (7, Room::Free));
        assert_eq!(backlog.add(10, 1000, 1), 3);
        assert_eq!(given(&mut backlog, Instant::now()), [(0, 10)]);
    }

    #[test]
    fn of_the_newest_one_waits_while_another_is_given_and_the_last_needs_no_room() {
        let (mut backlog, now) = (Backlog::of_newest(), Instant::now());
        backlog.add_reader();
        assert_eq!((0..5).map(|object| backlog.add(object, 100, 1)).sum::<u64>(), 4);
        assert_eq!(given(&mut backlog, now), [(0, 4)]);
        assert_eq!((5..9).map(|object| backlog.add(object, 100, 1)).sum::<u64>(), 3);
        assert_eq!(given(&mut backlog, now), []);
        backlog.settle(0, 0, false, now);
        assert_eq!(given(&mut backlog, now), [(0, 8)]);
        backlog.add(9, 100, 1);
        assert_eq!((backlog.take_last(), backlog.take_last()), (Some(9), None));
        assert!(!backlog.is_waiting());
    }

    #[test]
    fn whatever_readers_do_every_object_is_settled_once_unless_nobody_is_left() {
        let mut seed = 7_u64;
        let mut chance = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..300 {
            let readers = 1 + chance(4) as usize;
            let (mut backlog, mut now) = (queue(readers), Instant::now());
            let mut at: Vec<VecDeque<u32>> = vec![VecDeque::new(); readers];
            let (mut settled, mut added, mut gone) = (Vec::new(), 0, vec![false; readers]);
            for _ in 0..200 {
                now += Duration::from_micros(chance(5_000));
                let place = chance(readers as u64) as usize;
                match chance(8) {
                    0..=2 if backlog.room(100) == Room::Free => {
                        backlog.add(added, 100, 1);
                        added += 1;
                    }
                    3..=6 if !gone[place] && !at[place].is_empty() => {
                        settled.extend(at[place].pop_front());
                        backlog.settle(place, at[place].len() as u64, false, now);
                    }
                    7 if chance(10) == 0 && !gone[place] && gone.iter().filter(|gone| !**gone).count() > 1 => {
                        gone[place] = true;
                        assert_eq!(backlog.reader_gone(place, at[place].len() as u64, now), 0);
                        at[place].clear();
                    }
                    _ => {}
                }
                while let Some((place, object)) = backlog.give(now, |_| Some(0)) {
                    assert!(!gone[place]);
                    at[place].push_back(object);
                }
            }
            while !backlog.is_settled() {
                for (place, at) in at.iter_mut().enumerate() {
                    settled.extend(at.drain(..));
                    backlog.settle(place, 0, false, now);
                }
                while let Some((place, object)) = backlog.give(now, |_| Some(0)) {
                    at[place].push_back(object);
                }
            }
            settled.sort_unstable();
            assert_eq!(settled, (0..added).collect::<Vec<_>>());
        }
    }
}
