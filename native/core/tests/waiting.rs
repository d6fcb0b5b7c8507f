//! A receiver that waits leaves the processor to others, whatever carries the message. One test, so that this process does nothing else.

mod support;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use support::{receive, send, Model, Run};

/// How long the receiver waits.
const WAIT: Duration = Duration::from_secs(1);

/// What a wait may take: a look again and again before the sleep takes 4 ms at most.
const MOST: Duration = Duration::from_millis(50);

/// What the process may take meanwhile, with the other instance, its I/O thread and the coordinator.
const MOST_OF_ALL: Duration = Duration::from_millis(200);

/// The processor time that has been used, by a clock of the kernel.
fn used(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time into what is ours.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_blocked_receiver_uses_nearly_no_processor() {
    for method in ["inproc", "shm", "unix", "tcp"] {
        let model = Model::by(method).submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in");
        let run = Run::of(model.with("a", |spec| spec.check_order = false).with("b", |spec| spec.check_order = false));
        let (waits, begun) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let begun = begun;
                let me = run.join("a");
                me.reuse().unwrap();
                send(&me, "out", 1);
                if begun.recv().is_ok() {
                    std::thread::sleep(WAIT); // what is measured
                    send(&me, "out", 2);
                }
                me.leave().unwrap();
            });
            let waits = waits;
            let me = run.join("b");
            me.reuse().unwrap();
            assert_eq!(receive(&me, "in"), Some(1));
            assert_eq!(me.methods("in").unwrap()[0].chosen.as_deref(), Some(method));
            let clocks = [libc::CLOCK_THREAD_CPUTIME_ID, libc::CLOCK_PROCESS_CPUTIME_ID];
            let before = clocks.map(used);
            let began = Instant::now();
            waits.send(()).unwrap();
            assert_eq!(receive(&me, "in"), Some(2));
            assert!(began.elapsed() >= WAIT);
            let [thread, process] = [0, 1].map(|which| used(clocks[which]) - before[which]);
            assert!(thread < MOST, "{method}: the receiver used {thread:?} while it waited for {:?}", began.elapsed());
            assert!(process < MOST_OF_ALL, "{method}: the process used {process:?} while it waited");
            me.leave().unwrap();
        });
    }
}
