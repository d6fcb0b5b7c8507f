//! Programs that ask again and again instead of waiting.

use std::time::Duration;

use xmml_path::{Lane, Settings};

use crate::support::{await_while_moving, pair, payload, streams};

/// Who asks does not drive the path, and must not keep the thread from it that does.
#[test]
fn messages_pass_while_a_program_asks_again_and_again_whether_they_have_arrived() {
    let (here, there) = pair(streams(2), Settings::default());
    let ticket = here.post(Lane::Bulk, payload(1, 20 << 20)).unwrap();
    let passed = || here.stats().bytes_out;
    await_while_moving("it arrives", passed, || {
        assert_eq!(there.receive(Lane::Control, Some(Duration::ZERO)).unwrap(), None);
        here.wait_arrived(ticket, Some(Duration::ZERO)).unwrap().then_some(())
    });
}
