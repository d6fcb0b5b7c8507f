//! The conformance suite over every method that needs nobody in between. (That over `relay` is in mto/tests.)

mod support;

fn methods() -> [&'static str; 6] {
    ["inproc", "shm", "checked shm", "unix", "tcp", "protected tcp"]
}

include!("suites/conformance.rs");
