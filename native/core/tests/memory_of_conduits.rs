//! What a conduit takes of memory: its two ends, what the coordinator knows of it, and what is left of its first message.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{receive, send, Model, Run};

/// Most bytes for one more conduit between two instances of a process, with the coordinator in it too.
const MOST_BYTES: usize = 4000;

/// Counts what is allocated now.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all is left to the system's allocator; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller promises what the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Bytes that are allocated when so many conduits from `a` to `b` have carried a message each.
fn with_conduits(count: usize) -> usize {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let ports = |place: &str| (0..count).map(|port| format!("port{port}:{place} ")).collect::<String>();
    let model = Model::new().submodel("a", &ports("Oi"), 2).submodel("b", &ports("S"), 2);
    let couple = |model: Model, port| model.couple(&format!("a.port{port}"), &format!("b.port{port}"));
    let run = Run::of((0..count).fold(model, couple));
    let (a, b) = (run.join("a"), run.join("b"));
    assert!(a.reuse().unwrap() && b.reuse().unwrap());
    for port in 0..count {
        send(&a, &format!("port{port}"), 1);
    }
    for port in 0..count {
        assert_eq!(receive(&b, &format!("port{port}")), Some(1));
    }
    assert_eq!(a.methods("port0").unwrap()[0].chosen.as_deref(), Some("inproc"));
    ALLOCATED.load(Ordering::Relaxed).saturating_sub(before)
}

#[test]
fn a_conduit_within_a_process_is_small() {
    with_conduits(10); // what is made once in a process
    let (few, many) = (with_conduits(100), with_conduits(500));
    let each = many.saturating_sub(few) / 400;
    println!("{each} bytes for each conduit");
    assert!(each < MOST_BYTES, "{each} bytes for each conduit");
}
