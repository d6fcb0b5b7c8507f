//! Several instances in one process: they share one I/O thread, which starts with the first, ends with the last, and survives a fork.

mod support;

use std::sync::Mutex;

use support::{await_that, receive, send, Model, Run};
use xmml_core::coordinator::Event;

/// Tests of this file look at the threads of the process, so one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn io_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == "xmml-io").count()
}

fn pair() -> Run {
    Run::of(Model::new().submodel("a", "out:Oi", 3).submodel("b", "in:S", 3).couple("a.out", "b.in"))
}

fn play(run: &Run) {
    let (a, b) = (run.join("a"), run.join("b"));
    await_that("one thread serves both", || io_threads() == 1); // it has its name a moment after it has begun
    assert!(a.reuse().unwrap() && b.reuse().unwrap());
    for value in 0..3 {
        send(&a, "out", value);
        assert_eq!(receive(&b, "in"), Some(value));
    }
    assert_eq!(a.methods("out").unwrap()[0].chosen.as_deref(), Some("inproc"));
    a.leave().unwrap();
    assert_eq!(io_threads(), 1, "b goes on");
    b.leave().unwrap();
}

#[test]
fn the_instances_of_a_process_share_one_thread_that_ends_with_the_last_and_starts_anew() {
    let _alone = ALONE.lock();
    for _ in 0..3 {
        play(&pair());
        await_that("the thread ends", || io_threads() == 0);
    }
}

#[test]
fn an_instance_that_fails_leaves_the_others_of_its_process_alone() {
    let _alone = ALONE.lock();
    let run = pair();
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    drop(b);
    run.event("b is lost", |event| matches!(event, Event::Lost { instance } if instance == "b"));
    run.coordinator.confirm("a", 7);
    run.event("a still answers", |event| matches!(event, Event::Confirmed { instance, .. } if instance == "a"));
}

#[test]
fn a_child_after_fork_has_a_thread_of_its_own_and_leaves_those_of_its_parent_alone() {
    let _alone = ALONE.lock();
    let run = pair();
    let a = run.join("a");
    a.reuse().unwrap();
    // SAFETY: the child uses nothing that another thread of the parent may hold, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let b = run.join("b");
        let right = b.reuse().unwrap() && (0..3).all(|value| receive(&b, "in") == Some(value));
        let left = b.leave().is_ok();
        drop(a);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(!(right && left))) };
    }
    for value in 0..3 {
        send(&a, "out", value);
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    let report = a.methods("out").unwrap().remove(0);
    let refusal = report.refused.iter().find(|refusal| refusal.method == "inproc").unwrap();
    assert!(refusal.reason.contains("different processes"), "{}", refusal.reason);
    a.leave().unwrap();
    run.event("a leaves", |event| matches!(event, Event::Left { instance, .. } if instance == "a"));
}
