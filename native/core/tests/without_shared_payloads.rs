//! A process that may not make large shared memory still sends large payloads: through the ring of the connection, piece by piece.
//! (A test program of its own, because the limit holds for the whole process.)

mod support;

use support::{receive_any, Model, Run};
use xmml_core::instance::Stamps;
use xmml_wire::buffer::Buffer;
use xmml_wire::data::Data;

#[test]
fn large_payloads_pass_the_ring_when_nothing_can_be_lent() {
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to `limit`.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    let run = Run::of(Model::by("shm").submodel("a", "out:Oi", 3).submodel("b", "in:S", 3).couple("a.out", "b.in"));
    let bytes: Vec<u8> = (0..(8 << 20) + 5).map(|at: u64| (at.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let me = run.join("a");
            me.reuse().unwrap();
            for _ in 0..3 {
                me.send("out", None, Data::Bytes(Buffer::copy_of(&bytes)), Stamps::default()).unwrap();
            }
            me.leave().unwrap();
        });
        let me = run.join("b");
        me.reuse().unwrap();
        for _ in 0..3 {
            let message = receive_any(&me, "in").unwrap();
            assert!(matches!(&message.data, Data::Bytes(got) if **got == *bytes));
        }
        me.leave().unwrap();
    });
}
