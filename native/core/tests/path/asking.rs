//! Programs that ask again and again instead of waiting.

use std::time::{Duration, Instant};

use crate::support::{pair, payload, streams};
use xmml_core::path::{Lane, Settings};

/// Who asks does not drive the path, and must not keep the thread from it that does.
#[test]
fn messages_pass_while_a_program_asks_every_millisecond_whether_they_have_arrived() {
    let (here, there) = pair(streams(2), Settings::default());
    let ticket = here.post(Lane::Bulk, payload(1, 20 << 20)).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !here.wait_arrived(ticket, Some(Duration::ZERO)).unwrap() {
        assert!(Instant::now() < until, "{} bytes have passed", here.stats().bytes_out);
        assert_eq!(there.receive(Lane::Control, Some(Duration::ZERO)).unwrap(), None);
        std::thread::sleep(Duration::from_millis(1));
    }
}
