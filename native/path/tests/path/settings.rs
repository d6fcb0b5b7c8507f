//! Settings that cannot be are refused at once, and nothing of them is taken.

use std::time::Duration;

use xmml_path::{LinkFigures, Path, Settings};
use xmml_wire::error::Error;

use crate::support::{identity, not_run, pair, streams};

fn refused(settings: &Settings) -> String {
    match settings.check() {
        Err(Error::Usage { problem }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_is_named_by_its_setting() {
    let queue = refused(&Settings { queue: 0, ..Settings::default() });
    assert!(queue.contains("queue") && !queue.contains("window"), "{queue}");
    let window = refused(&Settings { window: 7, ..Settings::default() });
    assert!(window.contains("a window of 7 bytes"), "{window}");
    for bandwidth in [0.0, -1e6, f64::NAN, f64::INFINITY] {
        let link = Some(LinkFigures { round_trip: Duration::from_millis(10), bandwidth });
        let problem = refused(&Settings { link, ..Settings::default() });
        assert!(problem.contains("bandwidth") && problem.contains("bytes per second"), "{problem}");
    }
    let patience = refused(&Settings { patience: Duration::MAX, ..Settings::default() });
    assert!(patience.contains("patience of ") && patience.contains("a hundred years"), "{patience}");
    let link = Some(LinkFigures { round_trip: Duration::ZERO, bandwidth: 1e6 });
    Settings { link, ..Settings::default() }.check().unwrap();
}

fn listed(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Takes the right to administer the network away from the calling thread.
fn become_unprivileged() {
    const VERSION_3: u32 = 0x2008_0522;
    const NET_ADMIN: u32 = 12;
    let header = [VERSION_3, 0];
    // Effective, permitted, inheritable; the lower 32 of each, then the upper.
    let mut sets = [0_u32; 6];
    // SAFETY: the kernel reads two words and writes six, as version 3 has it; nothing else shares them.
    let status = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) };
    assert_eq!(status, 0);
    sets[..3].iter_mut().for_each(|set| *set &= !(1 << NET_ADMIN));
    // SAFETY: the kernel reads two and six words; it changes the calling thread alone.
    let status = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    assert_eq!(status, 0);
}

#[test]
fn a_congestion_control_that_is_not_there_is_refused_and_one_that_is_allowed_is_taken() {
    let problem = refused(&Settings { congestion: Some("none".to_owned()), ..Settings::default() });
    assert!(problem.contains("there is no congestion control \"none\" here; there is "), "{problem}");
    for name in listed("tcp_allowed_congestion_control") {
        Settings { congestion: Some(name), ..Settings::default() }.check().unwrap();
    }
}

#[test]
fn a_congestion_control_that_only_administrators_may_choose_is_refused_to_others_at_once() {
    let allowed = listed("tcp_allowed_congestion_control");
    let available = listed("tcp_available_congestion_control");
    let Some(restricted) = available.into_iter().find(|name| !allowed.contains(name)) else {
        return not_run(
            "every congestion control of this machine is allowed to everybody: \
             sudo sysctl net.ipv4.tcp_allowed_congestion_control=reno",
        );
    };
    let (here, there) = pair(streams(2), Settings::default());
    let unprivileged = || {
        become_unprivileged();
        let chosen = Settings { congestion: Some(restricted.clone()), chunk: Some(48 << 10), ..here.settings() };
        let (chunk, before) = (here.stats().chunk, here.settings());
        for problem in [here.set(chosen.clone()).unwrap_err(), there.set(chosen.clone()).unwrap_err()] {
            let problem = problem.to_string();
            assert!(problem.contains(&format!("\"{restricted}\" is only for")), "{problem}");
            assert!(allowed.iter().all(|name| problem.contains(name)), "{problem}");
        }
        assert_eq!((here.stats().chunk, here.settings()), (chunk, before), "a part was taken");
        let dialled = Path::dial("127.0.0.1:9", &identity("here"), "there", chosen);
        assert!(matches!(dialled, Err(Error::Usage { .. })), "{dialled:?}");
    };
    std::thread::scope(|scope| scope.spawn(unprivileged).join().unwrap());
}
