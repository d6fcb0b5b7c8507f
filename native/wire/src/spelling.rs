//! What somebody may have meant by a name that does not exist.

/// Longest word that is compared, in bytes. Comparing takes time and memory by the product of both lengths, and a word may be somebody else's.
const LONGEST: usize = 256;

/// The known name that is closest to `word`, if it is close enough to be a slip of the pen.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let longest = word.chars().count().max(3);
    known
        .into_iter()
        .filter(|name| name.len() <= LONGEST)
        .map(|name| (distance(word, name), name))
        .filter(|(changes, name)| *changes <= longest / 3 && *changes < name.chars().count())
        .min_by_key(|(changes, _)| *changes)
        .map(|(_, name)| name)
}

/// How many characters must be changed, added, left out or swapped with their neighbour to get from one word to the other
/// (optimal string alignment), whatever their case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, added) => added,
                (left_out, 0) => left_out,
                _ => {
                    let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let shifted = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swap = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                    changed.min(shifted).min(swap)
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let known = ["multiply", "drop", "timeoffset"];
        for (word, meant) in
            [("mutliply", "multiply"), ("Drop", "drop"), ("time_offset", "timeoffset"), ("dorp", "drop")]
        {
            assert_eq!(closest(word, known), Some(meant), "{word}");
        }
    }

    #[test]
    fn words_that_nobody_writes_by_hand_are_compared_with_nothing() {
        let long = "a".repeat(1_000_000); // the square of that is more memory than there is
        assert_eq!(closest(&long, [&*long, "sum"]), None);
        assert_eq!(closest("smu", [&*long, "sum"]), Some("sum"));
    }

    #[test]
    fn a_different_word_is_not_guessed_at() {
        assert_eq!(closest("interpolate", ["multiply", "drop", "sum"]), None);
        assert_eq!(closest("x", ["sum"]), None);
    }
}
