//! The names of the ports of an instance, where they lie in memory: a name that was handed out is recognised by its address.

use std::ffi::{c_char, CStr};

/// The names of ports, numbered from 0 in the order of the model. They lie one after the other, each with a 0 byte behind it for C.
#[derive(Clone, Debug)]
pub struct PortNames {
    text: Box<str>,
    /// Where each begins, and where the last one ends.
    starts: Box<[usize]>,
    /// For each byte of the text, the number of the name that begins there: a look-up takes no search.
    numbers: Box<[Option<u32>]>,
}

impl PortNames {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> PortNames {
        let (mut text, mut starts, mut numbers) = (String::new(), vec![0], Vec::new());
        for (number, name) in (0..).zip(names) {
            text.push_str(name);
            text.push('\0');
            starts.push(text.len());
            numbers.push(Some(number));
            numbers.resize(text.len(), None);
        }
        PortNames { text: text.into(), starts: starts.into(), numbers: numbers.into() }
    }

    /// The name with this number, as it lies here; empty if there are not so many.
    #[inline]
    pub fn get(&self, number: usize) -> &str {
        let Some(&[start, end]) = self.starts.get(number..).and_then(<[usize]>::first_chunk) else { return "" };
        self.text.get(start..end - 1).unwrap_or_default()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.starts.len() - 1).map(|number| self.get(number))
    }

    /// The name with this number as a text of C.
    pub fn c_text(&self, number: usize) -> &CStr {
        let rest = self.starts.get(number).map_or(&[][..], |start| &self.text.as_bytes()[*start..]);
        CStr::from_bytes_until_nul(rest).unwrap_or_default()
    }

    /// The name that begins at this address, if one of these does.
    #[inline]
    pub fn at(&self, address: *const c_char) -> Option<&str> {
        self.number_at(self.offset_of(address.cast())).map(|number| self.get(number))
    }

    /// The number of a name that [`PortNames::get`] or [`PortNames::at`] gave; `None` for any other text, whatever it says.
    #[inline]
    pub(super) fn number_of(&self, name: &str) -> Option<usize> {
        let offset = self.offset_of(name.as_ptr());
        let number = self.number_at(offset)?;
        (self.starts.get(number + 1) == Some(&(offset + name.len() + 1))).then_some(number)
    }

    /// How far behind the beginning of the text an address is; beyond its end for all that are not within it.
    #[inline]
    fn offset_of(&self, address: *const u8) -> usize {
        address.addr().wrapping_sub(self.text.as_ptr().addr())
    }

    #[inline]
    fn number_at(&self, offset: usize) -> Option<usize> {
        (*self.numbers.get(offset)?).map(|number| number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> PortNames {
        PortNames::new(["pressure", "", "p", "velocity"].into_iter())
    }

    #[test]
    fn a_name_is_recognised_by_its_address() {
        let names = names();
        for number in 0..4 {
            assert_eq!(names.number_of(names.get(number)), Some(number));
            assert_eq!(names.at(names.c_text(number).as_ptr()), Some(names.get(number)));
        }
        assert_eq!(names.c_text(3), c"velocity");
    }

    #[test]
    fn the_same_text_elsewhere_is_not_recognised() {
        let (names, others) = (names(), names());
        assert_eq!(names.number_of(others.get(0)), None);
        assert_eq!(names.at(c"pressure".as_ptr()), None);
        assert_eq!(names.at(std::ptr::null()), None);
    }

    #[test]
    fn a_part_of_a_name_is_not_recognised() {
        let names = names();
        let pressure = names.get(0);
        assert_eq!(names.number_of(&pressure[..1]), None);
        assert_eq!(names.number_of(&pressure[1..]), None);
        assert_eq!(names.at(pressure[1..].as_ptr().cast()), None);
    }

    #[test]
    fn there_is_no_name_beyond_the_last() {
        let names = names();
        assert_eq!((names.get(4), names.c_text(4), names.get(usize::MAX)), ("", c"", ""));
        assert_eq!(names.iter().collect::<Vec<_>>(), ["pressure", "", "p", "velocity"]);
    }
}
