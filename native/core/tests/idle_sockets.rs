//! What comes through shared memory is taken without a look at sockets, each of which would be a system call.

mod support;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use support::{receive, send, Model, Run};
use xmml_core::instance::Instance;

thread_local! {
    /// How often this thread has looked at a socket.
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// Stands before the one of the C library, for everything in this program.
///
/// # Safety
/// That of recv(2).
#[no_mangle]
unsafe extern "C" fn recv(socket: c_int, into: *mut c_void, length: usize, flags: c_int) -> isize {
    LOOKS.set(LOOKS.get() + 1);
    let nobody: *mut c_void = null_mut();
    // SAFETY: the same call with the same arguments; nobody asks for the address of the sender.
    unsafe { libc::syscall(libc::SYS_recvfrom, socket, into, length, flags, nobody, nobody) as isize }
}

fn looks_during(body: impl FnOnce()) -> usize {
    let before = LOOKS.get();
    body();
    LOOKS.get() - before
}

fn chosen(me: &Instance, port: &str) -> Option<String> {
    me.methods(port).unwrap()[0].chosen.clone()
}

#[test]
fn a_conduit_through_memory_beside_idle_sockets_costs_no_look_at_them() {
    const IDLE: usize = 10;
    let ports = |operator: &str| (0..IDLE).map(|port| format!(" idle{port}:{operator}")).collect::<String>();
    let mut model = Model::new()
        .submodel("a", &format!("busy:Oi{}", ports("Oi")), 1)
        .submodel("b", &format!("busy:S{}", ports("S")), 1)
        .with("a", |spec| spec.check_order = false)
        .with("b", |spec| spec.check_order = false)
        .couple_with("a.busy", "b.busy", |conduit| conduit.methods = vec!["shm".into()]);
    for port in 0..IDLE {
        model = model.couple_with(&format!("a.idle{port}"), &format!("b.idle{port}"), |conduit| {
            conduit.methods = vec![format!("tcp:buffer={}", 65_536 + 4096 * port)];
            // a connection each
        });
    }
    let run = Run::of(model);
    let (a, b) = (run.join("a"), run.join("b"));
    a.reuse().unwrap();
    b.reuse().unwrap();
    let taken = looks_during(|| {
        for port in 0..IDLE {
            send(&a, &format!("idle{port}"), 7);
            assert_eq!(receive(&b, &format!("idle{port}")), Some(7));
        }
    });
    assert!(taken >= IDLE, "{taken} looks at sockets: they are not counted");
    send(&a, "busy", -1);
    assert_eq!(receive(&b, "busy"), Some(-1));
    assert_eq!(chosen(&a, "busy").as_deref(), Some("shm"));
    let looks = looks_during(|| {
        for number in 0..100 {
            send(&a, "busy", number);
            assert_eq!(receive(&b, "busy"), Some(number));
        }
    });
    assert_eq!(looks, 0);
}

#[test]
fn a_port_that_is_reached_through_memory_and_sockets_is_satisfied_from_memory_first() {
    let open = |model: Model, name: &str, port: &str| {
        model.submodel(name, port, 1).with(name, |spec| spec.check_order = false)
    };
    let model =
        [("near", "out:Oi!"), ("far", "out:Oi!")].iter().fold(Model::new(), |m, (name, port)| open(m, name, port));
    let run = Run::of(open(model, "b", "in:S!"));
    let (near, far, b) = (run.join("near"), run.join("far"), run.join("b"));
    for me in [&near, &far, &b] {
        me.reuse().unwrap();
    }
    for (me, method) in [(&near, "shm"), (&far, "tcp")] {
        let handle = b.handle("in", 1, &[method.to_owned()]).unwrap();
        me.open("out", &handle).unwrap();
        send(me, "out", 1);
        assert_eq!(receive(&b, "in"), Some(1));
        assert_eq!(chosen(me, "out").as_deref(), Some(method));
    }
    let looks = looks_during(|| {
        for number in 0..100 {
            send(&near, "out", number); // it lies in memory when this returns
            assert_eq!(receive(&b, "in"), Some(number));
        }
    });
    assert_eq!(looks, 0);
    assert!(
        looks_during(|| assert!(!b.has_message("in", None).unwrap())) > 0,
        "who asks whether there is anything has all looked at"
    );
}
