//! Patterns of texts: `*` stands for any number of characters, `?` for one.

/// A pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(Box<[char]>);

impl Pattern {
    /// Of its text.
    pub fn new(text: &str) -> Pattern {
        Pattern(text.chars().collect())
    }

    /// Whether a text is of this pattern. Takes at most as many steps as the product of both lengths: of several `*` only the last one
    /// that was met is tried again.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut place) = (0, 0);
        let mut again: Option<(usize, usize)> = None;
        while at < text.len() {
            match self.0.get(place) {
                Some('*') => {
                    again = Some((place, at));
                    place += 1;
                }
                Some(wanted) if *wanted == '?' || *wanted == text[at] => {
                    at += 1;
                    place += 1;
                }
                _ => {
                    let Some((star, begin)) = again else { return false };
                    again = Some((star, begin + 1));
                    (place, at) = (star + 1, begin + 1);
                }
            }
        }
        self.0[place..].iter().all(|rest| *rest == '*')
    }
}
