//! Instances whose system gives them too little: they work, or say what is missing; they never hang.

mod support;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use support::{await_some, Model, Run, LIMIT};
use xmml_core::coordinator::Event;
use xmml_core::instance::{Instance, JoinOptions, Received, Stamps};
use xmml_wire::buffer::{Buffer, BufferPool};
use xmml_wire::data::Data;

fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: `limit` outlives the call.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// Leaves this process so many free descriptors. The limit bounds their numbers, not how many are open: those below the highest
/// open one that are free would count as well, so they are filled first.
fn limit_descriptors(free: u64) {
    let highest = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap())
        .max()
        .unwrap();
    loop {
        // SAFETY: duplicates a descriptor that is open.
        let filler = unsafe { libc::dup(libc::STDOUT_FILENO) };
        assert!(filler >= 0);
        if filler as u64 > highest {
            limit(libc::RLIMIT_NOFILE, filler as u64 + 1 + free);
            return;
        }
    }
}

/// Gives up the rights of the superuser, for whom some limits do not hold; files stay his.
fn be_no_superuser() {
    const VERSION_3: u32 = 0x2008_0522;
    let (head, rights) = ([VERSION_3, 0], [0u32; 6]);
    // SAFETY: the pointers are to a head and two sets of rights as the call has them in this version; both outlive it.
    let status = unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), rights.as_ptr()) };
    assert_eq!(status, 0);
}

/// The role of an instance that has few descriptors left for connections. (To join, it needs more for moments.)
const JOINED_WITH_FEW: &str = "few descriptors when it has joined";

/// The process with the limit: this program once more.
#[test]
#[ignore = "a role that other tests start"]
fn role() {
    let Ok(role) = std::env::var("XMML_TEST_ROLE") else { return };
    let number: u64 = std::env::var("XMML_TEST_NUMBER").unwrap().parse().unwrap();
    match role.as_str() {
        "few descriptors" => limit_descriptors(number),
        JOINED_WITH_FEW => {} // when it has joined
        "little memory" => limit(libc::RLIMIT_AS, address_space() + number),
        "no shared memory" => limit(libc::RLIMIT_FSIZE, number),
        "no locked memory" => {
            be_no_superuser();
            limit(libc::RLIMIT_MEMLOCK, number);
        }
        other => panic!("no such role: {other}"),
    }
    let outcome = work();
    match outcome {
        Ok(()) => println!("it works"),
        Err(error) => println!("the error: {error}"),
    }
    std::process::exit(0);
}

fn work() -> Result<(), String> {
    let options = JoinOptions { coordinator: None, instance: None, secret_file: None, language: "rust" };
    let me = Instance::join(options).map_err(|error| error.to_string())?;
    if std::env::var("XMML_TEST_ROLE").as_deref() == Ok(JOINED_WITH_FEW) {
        // What a wait needs is kept for the next one, which comes while connections are made.
        me.receive("never", None, Some(Duration::from_millis(1))).map_err(|error| error.to_string())?;
        limit_descriptors(std::env::var("XMML_TEST_NUMBER").unwrap().parse().unwrap());
        me.warn("limited");
    }
    me.reuse().map_err(|error| error.to_string())?;
    let payload = match std::env::var("XMML_TEST_ROLE").as_deref() {
        Ok("little memory") => Data::Bytes(pooled(LARGE)?),
        _ => Data::Int(1),
    };
    me.send("out", None, payload, Stamps::default()).map_err(|error| error.to_string())?;
    me.leave().map_err(|error| error.to_string())?;
    let methods = me.methods("out").map_err(|error| error.to_string())?.remove(0);
    println!("by {:?}, not by {:?}", methods.chosen, methods.refused);
    Ok(())
}

/// Bytes of a message that needs more memory than there may be.
const LARGE: usize = 64 << 20;

/// An array of a program that asks whether there is memory for it.
fn pooled(bytes: usize) -> Result<Buffer, String> {
    Ok(BufferPool::new().take(bytes).map_err(|none| none.to_string())?.freeze())
}

/// Bytes of address space that this process has.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
}

/// What a process with this limit has to say; by any method if none is named.
fn said(method: &str, role: &str, number: u64) -> String {
    let model = if method.is_empty() { Model::new() } else { Model::by(method) };
    let model = model.submodel("a", "out:Oi never:S", 1).submodel("b", "in:S", 1).submodel("nobody", "never:Oi", 1);
    let model = model.couple("a.out", "b.in").couple("nobody.never", "a.never");
    let run = Run::of(model.with("a", |spec| spec.check_order = false));
    let options = run.options("a");
    let mut command = Command::new(std::env::current_exe().unwrap());
    if method.is_empty() {
        // Attempts by one method are not given up before the next one is tried: that would take so long.
        command.env("XMML_CONNECT_LIMIT_S", "3600");
    }
    let mut child = command
        .args(["--ignored", "--exact", "role", "--nocapture"])
        .env("XMML_TEST_ROLE", role)
        .env("XMML_TEST_NUMBER", number.to_string())
        .env("XMML_INSTANCE", "a")
        .env("XMML_COORDINATOR", options.coordinator.unwrap())
        .env("XMML_SECRET_FILE", options.secret_file.unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if role == JOINED_WITH_FEW {
        run.event("a is limited", |event| matches!(event, Event::Warning { text, .. } if text == "limited"));
    }
    let b = run.join("b");
    b.reuse().unwrap();
    // Whatever the sender does, the receiver is there for it.
    let mut came = 0;
    let mut take = |limit| came += u64::from(matches!(b.receive("in", None, Some(limit)), Ok(Received::Message(_))));
    await_some(&format!("the end of {role:?}, {number}, by {method:?}"), || {
        take(Duration::from_millis(5));
        child.try_wait().unwrap()
    });
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if said.contains("it works") {
        take(LIMIT); // it may have come last
        assert_eq!(came, 1, "MESSAGES WRONG: {said}");
    }
    said
}

#[test]
fn with_few_descriptors_an_instance_works_or_says_which_limit_to_raise() {
    for method in ["unix", "tcp"] {
        let mut worked = false;
        for free in [0, 1, 64] {
            let said = said(method, "few descriptors", free);
            worked = said.contains("it works");
            assert!(worked || said.contains("ulimit -n"), "{method}, {free} free descriptors: {said}");
        }
        assert!(worked, "{method}: 64 descriptors are enough");
    }
}

#[test]
fn with_little_memory_an_instance_works_or_says_which_limit_to_raise() {
    for method in ["shm", "unix", "tcp"] {
        let mut worked = false;
        for more in [1 << 20, 24 << 20, 96 << 20, 512 << 20] {
            let said = said(method, "little memory", more);
            worked = said.contains("it works");
            // Where not even a few bytes are left, the system or the language's own runtime says so.
            let words = ["ulimit -v", "memory allocation of", "Cannot allocate memory"];
            let is_told = words.iter().any(|words| said.contains(words));
            assert!(worked || is_told, "{method}, {more} bytes more: {said}");
        }
        assert!(worked, "{method}: 512 MiB are enough");
    }
}

#[test]
fn where_no_shared_memory_may_be_made_an_instance_takes_the_next_method_and_says_why() {
    let said = said("", "no shared memory", 4096);
    assert!(said.contains("it works") && said.contains("by Some(\"unix\")"), "{said}");
    assert!(said.contains("ulimit -f"), "{said}");
}

#[test]
fn with_one_descriptor_too_few_an_instance_takes_the_next_method() {
    let mut outcomes = (0..16).rev().map(|free| said("", JOINED_WITH_FEW, free));
    let said = outcomes.find(|said| !said.contains("by Some(\"shm\")")).unwrap();
    // Of an ordinary user, Linux counts the descriptors on their way between all processes against the same limit.
    let is_told = ["Too many open files", "Too many references"].iter().any(|words| said.contains(words));
    assert!(said.contains("by Some(\"unix\")") && is_told && said.contains("ulimit -n"), "{said}");
}

#[test]
fn no_memory_need_be_locked() {
    let said = said("", "no locked memory", 0);
    assert!(said.contains("it works") && said.contains("by Some(\"shm\")"), "{said}");
}
