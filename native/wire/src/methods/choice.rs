//! A method as it is asked for by hand, in the model, the plan, the environment or a call: its name, and parameters behind colons,
//! `tcp:buffer=4MiB`.

/// Methods whose connections are sockets, and have buffers in the kernel.
const WITH_BUFFERS: [&str; 2] = ["unix", "tcp"];

/// Largest buffer that can be asked for, in bytes.
const LARGEST: u32 = 1 << 30;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The method.
    pub name: &'a str,
    /// How many bytes the kernel may hold for the sender, if that is said.
    pub buffer: Option<u32>,
}

impl<'a> Choice<'a> {
    /// What a text asks for.
    ///
    /// # Errors
    /// A text that says which parameter cannot be.
    pub fn read(text: &'a str) -> Result<Choice<'a>, String> {
        let mut choice = Choice { name: name_of(text), buffer: None };
        for parameter in text.split(':').skip(1) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if key != "buffer" {
                return Err(format!("{text}: methods have no parameter \"{key}\", only buffer"));
            }
            if !WITH_BUFFERS.contains(&choice.name) {
                return Err(format!("{text}: {} has no buffer; {} have", choice.name, WITH_BUFFERS.join(" and ")));
            }
            let bytes = size_in(value).filter(|bytes| (1..=LARGEST).contains(bytes));
            let expected = || format!("{text}: a buffer has from 1 byte to 1 GiB, as in 65536, 256KiB, 4MiB");
            choice.buffer = Some(bytes.ok_or_else(expected)?);
        }
        Ok(choice)
    }
}

/// The method that a text asks for, whatever its parameters.
pub fn name_of(choice: &str) -> &str {
    choice.split(':').next().unwrap_or(choice)
}

/// Bytes of a text like `4MiB`.
fn size_in(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text[digits.len()..].trim_end_matches('B') {
        "" => 1,
        "k" => 1000,
        "Ki" => 1 << 10,
        "M" => 1_000_000,
        "Mi" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u32>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_name_and_perhaps_a_buffer() {
        assert_eq!(Choice::read("shm"), Ok(Choice { name: "shm", buffer: None }));
        assert_eq!(Choice::read("tcp:buffer=65536"), Ok(Choice { name: "tcp", buffer: Some(65536) }));
        assert_eq!(Choice::read("unix:buffer=4MiB"), Ok(Choice { name: "unix", buffer: Some(4 << 20) }));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (text, words) in [
            ("tcp:window=1", "no parameter \"window\""),
            ("shm:buffer=1MiB", "shm has no buffer; unix and tcp have"),
            ("tcp:buffer=much", "buffer=much: a buffer has"),
            ("tcp:buffer=5s", "from 1 byte"),
            ("tcp:buffer=0", "from 1 byte"),
            ("tcp:buffer=2000MiB", "to 1 GiB"),
            ("tcp:buffer=-1", "from 1 byte"),
        ] {
            let problem = Choice::read(text).unwrap_err();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }
}
