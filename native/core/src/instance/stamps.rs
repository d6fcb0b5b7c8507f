//! The time stamps of a message, as a program gives them.

/// Time stamps that a program gives to a message. The default is what the submodel execution loop says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stamps {
    /// Model time of the message, in seconds; `None`: that of the loop.
    pub timestamp: Option<f64>,
    /// Model time of the message that will follow it.
    pub next: NextStamp,
}

/// What a program says of the time of the message that will follow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum NextStamp {
    /// Nothing: the loop says it.
    #[default]
    OfLoop,
    /// None will follow.
    Nothing,
    /// Its model time, in seconds.
    At(f64),
}

impl Stamps {
    /// The time stamp and that of the next message, where those of the loop are `of_loop`.
    pub fn or(self, of_loop: (f64, Option<f64>)) -> (f64, Option<f64>) {
        let next = match self.next {
            NextStamp::OfLoop => of_loop.1,
            NextStamp::Nothing => None,
            NextStamp::At(time) => Some(time),
        };
        (self.timestamp.unwrap_or(of_loop.0), next)
    }

    /// One of them that is no time: not a number, or infinite.
    pub fn impossible(self) -> Option<f64> {
        let next = match self.next {
            NextStamp::At(time) => Some(time),
            NextStamp::OfLoop | NextStamp::Nothing => None,
        };
        [self.timestamp, next].into_iter().flatten().find(|time| !time.is_finite())
    }
}

impl From<Option<f64>> for NextStamp {
    /// The time of the next message, or that there is none.
    fn from(next: Option<f64>) -> NextStamp {
        next.map_or(NextStamp::Nothing, NextStamp::At)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_does_not_say_is_as_its_loop_has_it() {
        let of_loop = (1.0, Some(2.0));
        assert_eq!(Stamps::default().or(of_loop), of_loop);
        assert_eq!(Stamps { timestamp: Some(1.5), next: NextStamp::Nothing }.or(of_loop), (1.5, None));
        assert_eq!(Stamps { timestamp: None, next: Some(3.0).into() }.or(of_loop), (1.0, Some(3.0)));
    }

    #[test]
    fn what_is_no_number_is_no_time() {
        assert_eq!(Stamps { timestamp: Some(1.5), next: NextStamp::At(2.0) }.impossible(), None);
        assert!(Stamps { timestamp: Some(f64::NAN), next: NextStamp::OfLoop }.impossible().unwrap().is_nan());
        let endless = Stamps { timestamp: None, next: NextStamp::At(f64::INFINITY) };
        assert_eq!(endless.impossible(), Some(f64::INFINITY));
    }
}
