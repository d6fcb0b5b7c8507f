//! Instances whose system gives them too little: they work, or say what is missing; they never hang.

mod support;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{falls_back_in_time, Model, Run};
use xmml_core::buffer::{Buffer, BufferPool};
use xmml_core::data::Data;
use xmml_core::instance::{Instance, JoinOptions, Received};

/// How long a role may take.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// The process with the limit: this program once more.
#[test]
#[ignore = "a role that other tests start"]
fn role() {
    let Ok(role) = std::env::var("XMML_TEST_ROLE") else { return };
    let number: u64 = std::env::var("XMML_TEST_NUMBER").unwrap().parse().unwrap();
    match role.as_str() {
        "few descriptors" => limit_descriptors(number),
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
    me.reuse().map_err(|error| error.to_string())?;
    let payload = match std::env::var("XMML_TEST_ROLE").as_deref() {
        Ok("little memory") => Data::Bytes(pooled(LARGE)?),
        _ => Data::Int(1),
    };
    me.send("out", None, payload, None, None).map_err(|error| error.to_string())?;
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
    outcome_of(method, role, number).0
}

/// What a process with this limit has to say, and how long it took from its start until its first message was there, if that came.
fn outcome_of(method: &str, role: &str, number: u64) -> (String, Option<Duration>) {
    let model = if method.is_empty() { Model::new() } else { Model::by(method) };
    let run = Run::of(model.submodel("a", "out:Oi", 1).submodel("b", "in:S", 1).couple("a.out", "b.in"));
    let b = run.join("b");
    let options = run.options("a");
    let began = Instant::now();
    let mut child = Command::new(std::env::current_exe().unwrap())
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
    b.reuse().unwrap();
    let until = Instant::now() + PATIENCE;
    let mut first = None;
    while child.try_wait().unwrap().is_none() {
        // Whatever the sender does, the receiver is there for it.
        if let Ok(Received::Message(_)) = b.receive("in", None, Some(Duration::from_millis(20))) {
            first.get_or_insert_with(|| began.elapsed());
        }
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("{method}, {role}, {number}: it hangs");
        }
    }
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    (format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)), first)
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
fn where_no_shared_memory_may_be_made_an_instance_soon_takes_the_next_method_and_says_why() {
    falls_back_in_time(|| {
        let (said, first) = outcome_of("", "no shared memory", 4096);
        assert!(said.contains("it works") && said.contains("by Some(\"unix\")"), "{said}");
        assert!(said.contains("ulimit -f"), "{said}");
        first.expect("a message came")
    });
}

#[test]
fn with_one_descriptor_too_few_an_instance_soon_takes_the_next_method() {
    falls_back_in_time(|| {
        // With one of these numbers an instance on a busy machine once could not begin at all, and said so. What takes another method counts.
        let outcomes = (0..16).rev().map(|free| outcome_of("", "few descriptors", free));
        let mut others = outcomes.filter(|(said, _)| !said.contains("by Some(\"shm\")"));
        let (said, first) = others.find(|(said, _)| !said.contains("ulimit -n") || said.contains("it works")).unwrap();
        assert!(said.contains("by Some(\"unix\")") && said.contains("Too many open files"), "{said}");
        first.expect("a message came")
    });
}

#[test]
fn no_memory_need_be_locked() {
    let said = said("", "no locked memory", 0);
    assert!(said.contains("it works") && said.contains("by Some(\"shm\")"), "{said}");
}
