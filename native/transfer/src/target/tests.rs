use std::fs;

use super::*;
use crate::listing::LeftOut;
use crate::message::{around_chunk, entries, finished, listed, spoilt};
use crate::ranges::RANGE;
use crate::tests::{file, link, Folder};

/// A source that keeps what it is told.
#[derive(Default)]
struct Kept(Mutex<Vec<ToSource>>);

impl Peer for Kept {
    fn send(&self, message: &[&[u8]]) -> Result<(), Stop> {
        locked(&self.0).push(ToSource::read(&message.concat()).unwrap());
        Ok(())
    }

    fn check(&self) -> Result<(), Stop> {
        Ok(())
    }
}

/// Gives a file of single bytes, each as a range, all of which come altered so often; returns what the target says at the end.
fn told_of_a_file(size: u64, altered: u32) -> ToSource {
    let (folder, peer) = (Folder::new(), Kept::default());
    let target = Target::new(Layout { base: folder.path().to_owned(), name: None }, false).unwrap();
    let hear = |message: &[u8]| assert!(target.hear(message, &peer).unwrap());
    hear(&entries(0, [&file("file", size)].into_iter()));
    hear(&listed(1, size, &[]));
    let mut wanted: Vec<Range> = (0..size).map(|offset| Range { offset, length: 1 }).collect();
    let mut sent: HashMap<u64, u32> = HashMap::new();
    loop {
        let (mut chunks, ends) = (wanted.chunks(MOST_PIECES).peekable(), [0]);
        while let Some(chunk) = chunks.next() {
            let content = |offset: u64| offset as u8;
            let data: Vec<u8> = chunk.iter().map(|range| content(range.offset)).collect();
            let pieces: Vec<Piece> = chunk
                .iter()
                .map(|range| {
                    let times = sent.entry(range.offset).or_default();
                    *times += 1;
                    let seen = content(range.offset) ^ u8::from(*times <= altered);
                    Piece { file: 0, range: *range, digest: digest(&[seen]) }
                })
                .collect();
            let (before, behind) = around_chunk(&pieces, data.len(), if chunks.peek().is_none() { &ends } else { &[] });
            hear(&[before, data, behind].concat());
        }
        match locked(&peer.0).pop().unwrap() {
            ToSource::Again(0, ranges) => wanted = ranges,
            told => {
                if matches!(told, ToSource::Stored(0)) {
                    let whole: Vec<u8> = (0..size).map(|offset| offset as u8).collect();
                    assert!(fs::read(folder.path().join("file")).unwrap() == whole);
                }
                return told;
            }
        }
    }
}

#[test]
fn a_file_is_stored_although_more_ranges_come_altered_than_can_be_asked_for_at_once() {
    assert_eq!(told_of_a_file(3 * MOST_PIECES as u64, 1), ToSource::Stored(0));
    assert_eq!(told_of_a_file(2, MOST_ATTEMPTS - 1), ToSource::Stored(0));
}

#[test]
fn a_file_is_given_up_when_a_range_of_it_comes_altered_every_time() {
    let told = told_of_a_file(2, MOST_ATTEMPTS);
    assert!(matches!(&told, ToSource::Failed(0, why) if why.contains("altered 3 times")), "{told:?}");
}

/// A copy of a file of two ranges of which the target has the first, in a part or an earlier version; the source knows that.
struct ComparedCopy {
    folder: Folder,
    peer: Kept,
    target: Target,
    content: Vec<u8>,
}

impl ComparedCopy {
    fn with(there: &str) -> ComparedCopy {
        let (folder, peer) = (Folder::new(), Kept::default());
        let mut content = vec![1; RANGE];
        content.extend_from_slice(&[2; 1000]);
        fs::write(folder.path().join(there), &content[..RANGE]).unwrap();
        let target = Target::new(Layout { base: folder.path().to_owned(), name: None }, false).unwrap();
        let copy = ComparedCopy { folder, peer, target, content };
        copy.hear(&entries(0, [&file("file", copy.content.len() as u64)].into_iter()));
        copy.hear(&listed(1, copy.content.len() as u64, &[]));
        copy.target.consider(&copy.peer);
        let told = locked(&copy.peer.0).drain(..).next().unwrap();
        assert_eq!(told, ToSource::Have(0, digest(&copy.content[..RANGE]).to_vec()));
        copy
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn hear(&self, message: &[u8]) {
        assert!(self.target.hear(message, &self.peer).unwrap());
    }

    /// Gives these ranges, and says that the file is complete; returns what the target says.
    fn give(&self, given: &[Range]) -> ToSource {
        let content = |range: &Range| &self.content[range.offset as usize..][..range.length];
        let data: Vec<u8> = given.iter().flat_map(content).copied().collect();
        let pieces: Vec<Piece> =
            given.iter().map(|range| Piece { file: 0, range: *range, digest: digest(content(range)) }).collect();
        let (before, behind) = around_chunk(&pieces, data.len(), &[0]);
        self.hear(&[before, data, behind].concat());
        locked(&self.peer.0).pop().unwrap()
    }

    fn second(&self) -> Range {
        ranges(self.content.len() as u64).nth(1).unwrap()
    }

    /// Gives what is asked for again; the file is whole then.
    fn is_whole_after(&self, told: &ToSource) {
        let ToSource::Again(0, again) = told else { panic!("{told:?}") };
        assert_eq!(self.give(again), ToSource::Stored(0));
        assert!(fs::read(self.path("file")).unwrap() == self.content);
    }
}

const PART: &str = ".file.xmml-part";

#[test]
fn a_file_that_is_as_it_was_compared_lacks_only_what_the_digests_lack() {
    for there in [PART, "file"] {
        let copy = ComparedCopy::with(there);
        assert_eq!(copy.give(&[copy.second()]), ToSource::Stored(0));
        assert!(fs::read(copy.path("file")).unwrap() == copy.content);
    }
}

#[test]
fn copying_an_earlier_version_is_progress_as_hashing_it_is() {
    for (there, compared) in [(PART, RANGE), ("file", 2 * RANGE)] {
        let copy = ComparedCopy::with(there);
        assert_eq!(copy.target.progress.compared(), RANGE as u64);
        copy.give(&[copy.second()]);
        assert_eq!(copy.target.progress.compared(), compared as u64, "{there}");
    }
}

#[test]
fn a_part_that_another_copy_has_completed_since_is_not_taken_for_there() {
    let copy = ComparedCopy::with(PART);
    fs::rename(copy.path(PART), copy.path("file")).unwrap();
    let told = copy.give(&[copy.second()]);
    copy.is_whole_after(&told);
}

#[test]
fn an_earlier_version_that_was_replaced_since_is_not_taken_for_there() {
    let copy = ComparedCopy::with("file");
    fs::write(copy.path("other"), vec![3; RANGE]).unwrap();
    fs::rename(copy.path("other"), copy.path("file")).unwrap();
    let told = copy.give(&[copy.second()]);
    copy.is_whole_after(&told);
}

#[test]
fn an_earlier_version_that_was_replaced_since_is_not_stored_because_all_of_it_stood_there() {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name);
    let peer = Kept::default();
    fs::write(path("file"), "as it is").unwrap();
    let target = Target::new(Layout { base: folder.path().to_owned(), name: None }, false).unwrap();
    let hear = |message: &[u8]| assert!(target.hear(message, &peer).unwrap());
    hear(&entries(0, [&file("file", 8)].into_iter()));
    hear(&listed(1, 8, &[]));
    target.consider(&peer);
    fs::write(path("other"), "another!").unwrap();
    fs::rename(path("other"), path("file")).unwrap();
    let (before, behind) = around_chunk(&[], 0, &[0]);
    hear(&[before, behind].concat());
    let told = locked(&peer.0).pop();
    assert_eq!(told, Some(ToSource::Again(0, vec![Range { offset: 0, length: 8 }])));
}

#[test]
fn what_nobody_has_asked_for_ends_the_copy() {
    let folder = Folder::new();
    for entry in [file("other", 1), Entry { kind: Kind::Folder, ..file("wanted", 0) }, link("wanted")] {
        let target = Target::new(Layout { base: folder.path().into(), name: None }, false).unwrap();
        let target = target.only(["wanted".into()].into());
        let done = target.hear(&entries(0, [&entry].into_iter()), &Kept::default());
        assert!(matches!(done, Err(Failure::Malformed(_))), "{entry:?}");
    }
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

/// Whether entries of these paths are taken where the folder `asked`, and so many without a name, were asked for.
fn are_taken(paths: &[&str], unnamed: usize) -> bool {
    let folder = Folder::new();
    let target = Target::new(Layout { base: folder.path().into(), name: None }, false).unwrap();
    let target = target.trees(["asked".into()].into(), unnamed);
    let listed: Vec<_> = paths.iter().map(|path| file(path, 1)).collect();
    target.hear(&entries(0, listed.iter()), &Kept::default()).is_ok()
}

#[test]
fn of_a_copy_of_folders_nothing_is_taken_that_lies_beside_them() {
    assert!(are_taken(&["asked", "asked/in", "asked/.in"], 0));
    for other in [".profile", "asked2", "other/asked"] {
        assert!(!are_taken(&["asked", other], 0), "{other}");
    }
}

#[test]
fn so_many_folders_may_have_names_that_the_source_alone_knows_but_none_a_hidden_one() {
    assert!(are_taken(&["home/a", "home/.b", "asked"], 1));
    assert!(!are_taken(&["home", "other"], 1));
    assert!(are_taken(&["home", "other"], 2));
    assert!(!are_taken(&[".ssh/authorized_keys"], 1));
}

/// Lists files without end; returns what stops that, and how many messages were taken.
fn listed_without_end(target: &Target, message: impl Fn(u64) -> Vec<u8>) -> (String, u64) {
    let peer = Kept::default();
    let stopped = (0..).find_map(|number| Some((target.hear(&message(number), &peer).err()?, number)));
    let (failure, number) = stopped.unwrap();
    assert!(matches!(&failure, Failure::TooMuch(_)), "{failure}");
    (failure.to_string(), number)
}

fn target_with_memory(folder: &Folder, listing_memory: usize) -> Target {
    Target::new(Layout { base: folder.path().to_owned(), name: None }, false).unwrap().listing_within(listing_memory)
}

#[test]
fn a_source_that_lists_files_for_ever_is_stopped() {
    let folder = Folder::new();
    for (length, most) in [(1, 5600), (4000, 260)] {
        let message = |number: u64| {
            let path = format!("{number:0>length$}");
            entries(number, [&file(&path, 1)].into_iter())
        };
        let (failure, taken) = listed_without_end(&target_with_memory(&folder, 1 << 20), message);
        assert!(failure.contains("more than 1 MiB of memory"), "{failure}");
        assert!((most / 2..most).contains(&taken), "{taken}");
    }
}

#[test]
fn reasons_why_files_cannot_be_given_are_kept_once_and_count_as_the_listing_does() {
    let (folder, peer) = (Folder::new(), Kept::default());
    let target = target_with_memory(&folder, 40_000);
    let files = [file("a", 1), file("b", 1), file("c", 1)];
    target.hear(&entries(0, files.iter()), &peer).unwrap();
    let why = "x".repeat(4000);
    for _ in 0..10 {
        target.hear(&spoilt(0, &why), &peer).unwrap();
    }
    assert_eq!(locked(&target.report).failed, [("a".into(), why.clone())]);
    target.hear(&spoilt(1, &why), &peer).unwrap();
    let failure = target.hear(&spoilt(2, &why), &peer).unwrap_err();
    assert!(matches!(failure, Failure::TooMuch(_)), "{failure}");
}

#[test]
fn what_fails_here_counts_as_the_listing_does_and_the_next_message_ends_the_copy() {
    let (folder, peer) = (Folder::new(), Kept::default());
    let target = target_with_memory(&folder, 3 << 20);
    let links: Vec<_> = (0..500).map(|number| link(&format!("missing/{number:0>4000}"))).collect();
    target.hear(&entries(0, links.iter()), &peer).unwrap();
    target.hear(&listed(500, 0, &[]), &peer).unwrap();
    let listed_b = target.held.load(Ordering::Relaxed);
    target.consider(&peer);
    let told = locked(&peer.0).iter().filter(|told| matches!(told, ToSource::Failed(..))).count();
    let kept = locked(&target.report).failed.len();
    assert_eq!(told, 500); // or the source would wait
    assert!(kept > 0 && kept * TEXT_MEMORY * 4000 < (3 << 20) - listed_b, "{kept}");
    let failure = target.hear(&finished(), &peer).unwrap_err();
    assert!(matches!(&failure, Failure::TooMuch(why) if why.contains(&format!("{kept} failures"))), "{failure}");
}

#[test]
fn what_the_source_has_left_out_counts_as_the_listing_does() {
    let folder = Folder::new();
    let target = target_with_memory(&folder, 100_000);
    let left_out: Vec<_> = (0..50).map(|_| LeftOut { path: "a".into(), reason: "x".repeat(1000) }).collect();
    let failure = target.hear(&listed(0, 0, &left_out), &Kept::default()).unwrap_err();
    assert!(matches!(failure, Failure::TooMuch(_)), "{failure}");
    assert!((1..50).contains(&locked(&target.report).failed.len()));
}

#[test]
fn a_report_gives_away_what_has_failed() {
    let (folder, peer) = (Folder::new(), Kept::default());
    let target = target_with_memory(&folder, usize::MAX);
    target.hear(&entries(0, [&link("missing/link")].into_iter()), &peer).unwrap();
    target.hear(&listed(1, 7, &[]), &peer).unwrap();
    target.consider(&peer);
    let (first, second) = (target.take_report(), target.take_report());
    assert_eq!(first.failed, [("missing/link".into(), "No such file or directory".to_owned())]);
    assert_eq!(second, Report { failed: Vec::new(), ..first });
}

#[test]
fn a_link_in_the_place_of_what_was_asked_for_ends_the_copy_and_is_not_made() {
    let (folder, peer) = (Folder::new(), Kept::default());
    for name in [None, Some("mylib".into())] {
        let target = Target::new(Layout { base: folder.path().into(), name }, false).unwrap();
        let target = target.trees(["lib".into()].into(), 0);
        let failure = target.hear(&entries(0, [&link("lib")].into_iter()), &peer).unwrap_err();
        assert!(matches!(&failure, Failure::Malformed(why) if why.contains("symbolic link")), "{failure}");
        target.hear(&listed(1, 0, &[]), &peer).unwrap();
        target.consider(&peer);
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    }
}

#[test]
fn a_listing_that_goes_on_after_its_end_stops_the_copy() {
    let folder = Folder::new();
    for more in [entries(0, [&file("file", 1)].into_iter()), listed(0, 0, &[])] {
        let target = target_with_memory(&folder, usize::MAX);
        target.hear(&listed(0, 0, &[]), &Kept::default()).unwrap();
        let failure = target.hear(&more, &Kept::default()).unwrap_err();
        assert!(failure.to_string().contains("after its end"), "{failure}");
    }
}

#[test]
fn a_million_files_are_taken_in_the_memory_that_they_are_said_to_take() {
    let (folder, peer) = (Folder::new(), Kept::default());
    let target = target_with_memory(&folder, 400 << 20);
    let path = |number: usize| format!("results/of/the/parameter/study/with/names/of/usual/length/{number:030}");
    for first in (0..1_000_000).step_by(1000) {
        let files: Vec<_> = (first..first + 1000).map(|number| file(&path(number), 1)).collect();
        target.hear(&entries(first as u64, files.iter()), &peer).unwrap();
    }
    assert_eq!(locked(&target.receiving).entries.len(), 1_000_000);
}

#[test]
fn ranges_that_come_altered_without_end_do_not_fill_the_memory() {
    let (folder, peer) = (Folder::new(), Kept::default());
    let target = target_with_memory(&folder, usize::MAX);
    target.hear(&entries(0, [&file("file", 1 << 40)].into_iter()), &peer).unwrap();
    let altered = |first: u64| {
        let range = |offset: u64| Range { offset, length: 1 };
        let piece = |number: u64| Piece { file: 0, range: range(first + number), digest: digest(&[1]) };
        let pieces: Vec<_> = (0..MOST_PIECES as u64).map(piece).collect();
        let (before, behind) = around_chunk(&pieces, MOST_PIECES, &[]);
        [before, vec![0; MOST_PIECES], behind].concat()
    };
    let failure = (0..).step_by(MOST_PIECES).find_map(|first| target.hear(&altered(first), &peer).err()).unwrap();
    assert!(failure.to_string().contains("have come altered"), "{failure}");
    let receiving = locked(&target.receiving);
    assert_eq!(receiving.arriving[&0].lacking.len() as u32, MOST_ALTERED + 1);
}

#[test]
fn a_length_that_no_file_has_does_not_fill_the_memory() {
    let (folder, peer) = (Folder::new(), Kept::default());
    let target = Target::new(Layout { base: folder.path().to_owned(), name: None }, false).unwrap();
    fs::write(folder.path().join(PART), vec![1; RANGE]).unwrap();
    target.hear(&entries(0, [&file("file", 1 << 62)].into_iter()), &peer).unwrap();
    target.hear(&listed(1, 1 << 62, &[]), &peer).unwrap();
    target.consider(&peer);
    fs::write(folder.path().join(PART), vec![2; RANGE]).unwrap();
    let piece = Piece { file: 0, range: Range { offset: 0, length: 1 }, digest: digest(&[3]) };
    let (before, behind) = around_chunk(&[piece], 1, &[]);
    target.hear(&[before, vec![3], behind].concat(), &peer).unwrap();
    let told = locked(&peer.0).pop().unwrap();
    assert!(matches!(&told, ToSource::Failed(0, why) if why.contains("changed meanwhile")), "{told:?}");
}
