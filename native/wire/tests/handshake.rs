//! The opening of a connection, without a connection.

use proptest::prelude::*;
use xmml_wire::handshake::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn party(name: &str, nonce: u8) -> Party {
    Party { secret: SECRET.to_vec(), run: "canal-1".into(), name: name.into(), versions: (1, 1), nonce: [nonce; NONCE] }
}

fn pair(dialler: Party, listener: Party) -> (Dialler, Vec<u8>, Listener) {
    let peer = listener.name.clone();
    let (dialler, hello) = Dialler::new(dialler, Role::Data, &peer).unwrap();
    (dialler, hello, Listener::new(listener, &[Role::Data]).unwrap())
}

fn sent(step: Step) -> Vec<u8> {
    match step {
        Step::Send(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

fn reason(step: Step) -> String {
    match step {
        Step::Refused { reason, .. } => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Runs a handshake to its end; what each side concluded.
fn conclude(mut dialler: Dialler, hello: &[u8], mut listener: Listener) -> (Option<Step>, Step) {
    match listener.feed(hello) {
        Step::Send(challenge) => match dialler.feed(&challenge) {
            Step::Done { send, established, rest } => {
                let outcome = listener.feed(&send);
                (Some(Step::Done { send, established, rest }), outcome)
            }
            other => (Some(other), Step::More),
        },
        Step::Refused { send, reason } => (Some(dialler.feed(&send)), Step::Refused { send, reason }),
        other => (None, other),
    }
}

#[test]
fn two_sides_with_the_same_secret_agree() {
    let (dialler, hello, listener) = pair(party("a", 1), party("c[3]", 2));
    match conclude(dialler, &hello, listener) {
        (Some(Step::Done { established: mine, .. }), Step::Done { established: theirs, .. }) => {
            assert_eq!(mine, Established { version: 1, role: Role::Data, peer: "c[3]".into() });
            assert_eq!(theirs, Established { version: 1, role: Role::Data, peer: "a".into() });
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_may_come_one_at_a_time_and_the_rest_is_handed_on() {
    let (mut dialler, hello, mut listener) = pair(party("a", 1), party("b", 2));
    let mut challenge = Vec::new();
    for byte in &hello {
        match listener.feed(std::slice::from_ref(byte)) {
            Step::More => {}
            step => challenge = sent(step),
        }
    }
    let mut proof = Vec::new();
    for byte in &challenge {
        match dialler.feed(std::slice::from_ref(byte)) {
            Step::More => {}
            Step::Done { send, .. } => proof = send,
            other => panic!("{other:?}"),
        }
    }
    proof.extend_from_slice(b"first frame");
    match listener.feed(&proof) {
        Step::Done { rest, .. } => assert_eq!(rest, b"first frame"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_highest_common_version_is_chosen() {
    let mut newer = party("b", 2);
    newer.versions = (1, 4);
    let mut dialling = party("a", 1);
    dialling.versions = (1, 3);
    let (dialler, hello, listener) = pair(dialling, newer);
    match conclude(dialler, &hello, listener) {
        (_, Step::Done { established, .. }) => assert_eq!(established.version, 3),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_says_the_versions_of_both_sides_to_both() {
    let mut newer = party("b", 2);
    newer.versions = (3, 5);
    let (dialler, hello, listener) = pair(party("a", 1), newer);
    let (mine, theirs) = conclude(dialler, &hello, listener);
    assert_eq!(
        reason(mine.unwrap()),
        "it speaks versions 3 to 5 of the protocol, this side 1 to 1; use the same release of xmml on both"
    );
    assert_eq!(
        reason(theirs),
        "it speaks versions 1 to 1 of the protocol, this side 3 to 5; use the same release of xmml on both"
    );
}

#[test]
fn a_dialler_notices_a_listener_without_the_secret() {
    let mut impostor = party("b", 2);
    impostor.secret = b"another".to_vec();
    let (dialler, hello, listener) = pair(party("a", 1), impostor);
    let (mine, _) = conclude(dialler, &hello, listener);
    assert_eq!(reason(mine.unwrap()), "its proof is wrong: it does not know the secret of this run");
}

#[test]
fn a_listener_notices_a_dialler_without_the_secret() {
    let (_, hello, mut listener) = pair(party("a", 1), party("b", 2));
    let challenge = sent(listener.feed(&hello));
    let mut proof = challenge[challenge.len() - PROOF..].to_vec();
    let mut frame = vec![0; 24];
    frame[0] = PROOF as u8;
    frame[8] = 18;
    frame[9] = 1;
    frame.append(&mut proof); // reflects the listener's own proof
    assert_eq!(reason(listener.feed(&frame)), "its proof is wrong: it does not know the secret of this run");
}

#[test]
fn proofs_hold_on_one_channel_only() {
    let meet = |near: Option<Channel>, far: Option<Channel>| {
        let (mut dialler, hello, mut listener) = pair(party("a", 1), party("b", 2));
        dialler.bind(near);
        listener.bind(far);
        conclude(dialler, &hello, listener)
    };
    assert!(matches!(meet(Some([1; 32]), Some([1; 32])), (Some(Step::Done { .. }), Step::Done { .. })));
    for (near, far) in [(Some([1; 32]), Some([2; 32])), (Some([1; 32]), None), (None, Some([1; 32]))] {
        let (noticed, _) = meet(near, far);
        assert_eq!(reason(noticed.unwrap()), Refusal::Proof.to_string());
        // And the other way about: a dialler that believes a proof on another channel is not believed itself.
        let (mut dialler, hello, mut listener) = pair(party("a", 1), party("b", 2));
        dialler.bind(near);
        listener.bind(near);
        let challenge = sent(listener.feed(&hello));
        let Step::Done { send: proof, .. } = dialler.feed(&challenge) else { panic!("the channel is the same") };
        listener.bind(far);
        assert_eq!(reason(listener.feed(&proof)), Refusal::Proof.to_string());
    }
}

#[test]
fn a_dialler_of_another_run_learns_nothing_about_this_one() {
    let mut stranger = party("a", 1);
    stranger.run = "other".into();
    let (dialler, hello, listener) = pair(stranger, party("b", 2));
    let (mine, theirs) = conclude(dialler, &hello, listener);
    assert_eq!(reason(mine.unwrap()), "it refused: this is another run");
    assert_eq!(reason(theirs), "it belongs to another run, \"other\"");
}

#[test]
fn one_who_dialled_the_wrong_instance_is_told() {
    let (dialler, hello) = Dialler::new(party("a", 1), Role::Data, "c").unwrap();
    let (mine, _) = conclude(dialler, &hello, Listener::new(party("b", 2), &[Role::Data]).unwrap());
    assert_eq!(reason(mine.unwrap()), "it refused: it looks for \"c\", this is b");
}

#[test]
fn a_role_that_is_not_served_is_refused() {
    let (dialler, hello) = Dialler::new(party("a", 1), Role::Control, "b").unwrap();
    let (mine, _) = conclude(dialler, &hello, Listener::new(party("b", 2), &[Role::Data]).unwrap());
    assert_eq!(reason(mine.unwrap()), "it refused: b takes no control connections");
}

#[test]
fn more_than_a_kibibyte_before_the_proof_is_refused() {
    let (_, hello, mut listener) = pair(party("a", 1), party("b", 2));
    let mut long = hello.clone();
    long[0..8].copy_from_slice(&2000_u64.to_le_bytes());
    assert!(reason(listener.feed(&long)).contains("2000 bytes; at most 1000 are allowed"));

    let (_, mut hello, mut listener) = pair(party("a", 1), party("b", 2));
    hello.extend_from_slice(&[0; 100]);
    assert!(reason(listener.feed(&hello)).contains("goes on before it is challenged"));
}

#[test]
fn names_that_are_too_long_are_refused_where_they_are_given() {
    let long = "x".repeat(MAX_NAME + 1);
    assert!(Dialler::new(party("a", 1), Role::Data, &long).is_err());
    assert!(Listener::new(party(&long, 1), &[Role::Data]).is_err());
}

#[test]
fn three_names_of_the_greatest_length_still_fit() {
    let long = "x".repeat(MAX_NAME);
    let (mut one, mut other) = (party(&long, 1), party(&long, 2));
    one.run = long.clone();
    other.run = long;
    let (dialler, hello, listener) = pair(one, other);
    assert!(matches!(conclude(dialler, &hello, listener).1, Step::Done { .. }));
}

#[test]
fn a_party_does_not_print_its_secret() {
    assert_eq!(format!("{:?}", party("a", 1)), "Party(a of run canal-1)");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_single_bit_can_be_changed_on_the_way(which in 0..3, at: prop::sample::Index, bit in 0_u32..8) {
        let (mut dialler, mut hello, mut listener) = pair(party("a", 1), party("b", 2));
        let flip = |bytes: &mut Vec<u8>| { let at = at.index(bytes.len()); bytes[at] ^= 1_u8 << bit; };
        if which == 0 { flip(&mut hello); }
        let Step::Send(mut challenge) = listener.feed(&hello) else { return Ok(()) };
        if which == 1 { flip(&mut challenge); }
        let Step::Done { send: mut proof, .. } = dialler.feed(&challenge) else { return Ok(()) };
        if which == 2 { flip(&mut proof); }
        let opened = matches!(listener.feed(&proof), Step::Done { .. });
        prop_assert!(!opened);
    }

    #[test]
    fn strangers_never_get_in_and_never_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..1200)) {
        let (mut dialler, _, mut listener) = pair(party("a", 1), party("b", 2));
        let opened = matches!(listener.feed(&bytes), Step::Done { .. } | Step::Send(_));
        prop_assert!(!opened);
        let opened = matches!(dialler.feed(&bytes), Step::Done { .. });
        prop_assert!(!opened);
    }
}
