//! The opening of a connection, without a connection.

use hmac::{Hmac, Mac};
use proptest::prelude::*;
use sha2::Sha256;
use xmml_wire::handshake::*;
use xmml_wire::relay_key::RelayKey;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// What is said of a proof that does not fit.
const WRONG: &str =
    "its proof is wrong: it does not know the secret of this run, or what the two ends said was changed on its way";

fn party(name: &str, nonce: u8) -> Party {
    Party {
        secret: SECRET.to_vec(),
        run: "canal-1".into(),
        name: name.into(),
        versions: (1, 1),
        nonce: [nonce; NONCE],
        private_key: [nonce; NONCE],
    }
}

fn pair(dialler: Party, listener: Party) -> (Dialler, Vec<u8>, Listener) {
    pair_for(dialler, listener, false)
}

fn pair_for(dialler: Party, listener: Party, is_protected: bool) -> (Dialler, Vec<u8>, Listener) {
    let peer = listener.name.clone();
    let (dialler, hello) = Dialler::new(dialler, Role::Data, &peer, is_protected).unwrap();
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

#[test]
fn nobody_speaks_with_the_coordinator_in_clear_over_a_network() {
    for (role, leaves_host, is_protected, is_taken) in [
        (Role::Control, true, false, false),
        (Role::Control, true, true, true),
        (Role::Control, false, false, true),
        (Role::Data, true, false, true), // a coupling may say so
    ] {
        let (dialler, hello) = Dialler::new(party("a", 1), role, "coordinator", is_protected).unwrap();
        let listener = Listener::new(party("coordinator", 2), &[role]).unwrap().leaving_host(leaves_host);
        let (_, theirs) = conclude(dialler, &hello, listener);
        match theirs {
            Step::Done { .. } => assert!(is_taken, "{role:?}"),
            Step::Refused { reason, .. } => {
                assert!(!is_taken, "{role:?}: {reason}");
                assert!(reason.to_string().contains("in clear over a network"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The frame that a dialler sends its proof in.
fn proof_frame(proof: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 24];
    frame[0] = PROOF as u8;
    frame[8] = 18;
    frame[9] = 1;
    frame.extend_from_slice(proof);
    frame
}

/// Runs a handshake to its end; what each side concluded.
fn conclude(mut dialler: Dialler, hello: &[u8], mut listener: Listener) -> (Option<Step>, Step) {
    match listener.feed(hello) {
        Step::Send(challenge) => match dialler.feed(&challenge) {
            Step::Done { send, established, rest, keys } => {
                let outcome = listener.feed(&send);
                (Some(Step::Done { send, established, rest, keys }), outcome)
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

/// The keys that both sides have after a handshake.
fn keys_of(dialler: Party, listener: Party) -> (SessionKeys, SessionKeys) {
    let (dialler, hello, listener) = pair_for(dialler, listener, true);
    match conclude(dialler, &hello, listener) {
        (Some(Step::Done { keys: Some(mine), .. }), Step::Done { keys: Some(theirs), .. }) => (mine, theirs),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_protected_connection_has_a_key_for_each_direction_that_both_sides_know() {
    let (mine, theirs) = keys_of(party("a", 1), party("b", 2));
    assert_eq!(mine.sending, theirs.receiving);
    assert_eq!(mine.receiving, theirs.sending);
    assert_ne!(mine.sending, mine.receiving);
}

#[test]
fn keys_are_those_of_one_connection_alone() {
    let usual = keys_of(party("a", 1), party("b", 2)).0;
    let another_pair_of_keys = Party { private_key: [9; 32], ..party("a", 1) };
    let another_nonce = Party { nonce: [9; NONCE], ..party("a", 1) };
    for other in [another_pair_of_keys, another_nonce] {
        let other = keys_of(other, party("b", 2)).0;
        assert_ne!(usual.sending, other.sending);
        assert_ne!(usual.receiving, other.receiving);
    }
    let with_another_secret = |name, nonce| Party { secret: b"another".to_vec(), ..party(name, nonce) };
    assert_ne!(usual.sending, keys_of(with_another_secret("a", 1), with_another_secret("b", 2)).0.sending);
}

#[test]
fn a_connection_that_need_not_be_protected_has_no_keys() {
    let (dialler, hello, listener) = pair(party("a", 1), party("b", 2));
    match conclude(dialler, &hello, listener) {
        (Some(Step::Done { keys: mine, .. }), Step::Done { keys: theirs, .. }) => {
            assert_eq!((mine, theirs), (None, None))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nobody_in_the_middle_can_take_the_protection_away_or_give_a_key_of_his_own() {
    const PROTECTION: usize = 24 + 5;
    const KEY: usize = 24 + 8 + NONCE;
    let without = |hello: &[u8]| {
        let mut changed = hello.to_vec();
        changed[PROTECTION] = 0;
        changed.drain(KEY..KEY + PUBLIC_KEY);
        changed[0] -= PUBLIC_KEY as u8;
        changed
    };
    let with_another_key = |hello: &[u8]| {
        let mut changed = hello.to_vec();
        changed[KEY..KEY + PUBLIC_KEY].copy_from_slice(&[5; PUBLIC_KEY]);
        changed
    };
    for change in [&without as &dyn Fn(&[u8]) -> Vec<u8>, &with_another_key] {
        let (mut dialler, hello, mut listener) = pair_for(party("a", 1), party("b", 2), true);
        let challenge = sent(listener.feed(&change(&hello)));
        assert_eq!(reason(dialler.feed(&challenge)), Refusal::Proof.to_string());
    }
    let (mut dialler, hello, mut listener) = pair_for(party("a", 1), party("b", 2), true);
    let mut challenge = sent(listener.feed(&hello));
    challenge[KEY..KEY + PUBLIC_KEY].copy_from_slice(&[5; PUBLIC_KEY]);
    assert_eq!(reason(dialler.feed(&challenge)), Refusal::Proof.to_string());
}

/// All public keys by which the common key is zero whatever the private key (the points of small order), without the highest bit,
/// of which X25519 takes no notice.
fn keys_that_anybody_knows() -> impl Iterator<Item = [u8; PUBLIC_KEY]> {
    let small = |last: u8| std::array::from_fn(|at| if at == 0 { last } else { 0 });
    let near_the_prime =
        |first: u8| std::array::from_fn(|at| [first, 0xff, 0x7f][usize::from(at > 0) + usize::from(at > 30)]);
    let of_order_8 = [
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ];
    let of_digits =
        |digits: &str| std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap());
    [0, 1].map(small).into_iter().chain([0xec, 0xed, 0xee].map(near_the_prime)).chain(of_order_8.map(of_digits))
}

#[test]
fn a_public_key_that_leads_to_a_key_that_anybody_knows_is_refused() {
    for known in keys_that_anybody_knows() {
        for highest_bit in [0, 0x80] {
            let (_, mut hello, mut listener) = pair_for(party("a", 1), party("b", 2), true);
            let key = 24 + 8 + NONCE;
            hello[key..key + PUBLIC_KEY].copy_from_slice(&known);
            hello[key + PUBLIC_KEY - 1] |= highest_bit;
            assert!(reason(listener.feed(&hello)).contains("anybody knows"), "{known:02x?}");
        }
    }
}

#[test]
fn what_an_earlier_connection_was_opened_with_opens_no_other() {
    for is_protected in [false, true] {
        let (mut dialler, hello, mut listener) = pair_for(party("a", 1), party("b", 2), is_protected);
        let challenge = sent(listener.feed(&hello));
        let Step::Done { send: proof, .. } = dialler.feed(&challenge) else { panic!("they have the same secret") };
        let mut later = Listener::new(party("b", 3), &[Role::Data]).unwrap();
        sent(later.feed(&hello));
        assert_eq!(reason(later.feed(&proof)), WRONG);
        let (mut later, _) = Dialler::new(party("a", 4), Role::Data, "b", is_protected).unwrap();
        assert_eq!(reason(later.feed(&challenge)), WRONG);
    }
}

#[test]
fn who_has_the_key_of_relays_alone_passes_for_no_instance() {
    let relay = Party { secret: RelayKey::of(SECRET).as_bytes().to_vec(), ..party("b", 2) };
    let (dialler, hello, listener) = pair(party("a", 1), relay);
    assert_eq!(reason(conclude(dialler, &hello, listener).0.unwrap()), WRONG);
    let (_, hello, mut listener) = pair(party("a", 1), party("b", 2));
    let challenge = sent(listener.feed(&hello));
    let mut mac = Hmac::<Sha256>::new_from_slice(RelayKey::of(SECRET).as_bytes()).unwrap();
    for part in [b"xmml handshake: dialler\0", &hello[..], &challenge[..challenge.len() - PROOF]] {
        mac.update(part);
    }
    assert_eq!(reason(listener.feed(&proof_frame(&mac.finalize().into_bytes()))), WRONG);
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
    assert_eq!(reason(mine.unwrap()), WRONG);
}

#[test]
fn a_listener_notices_a_dialler_without_the_secret() {
    let (_, hello, mut listener) = pair(party("a", 1), party("b", 2));
    let challenge = sent(listener.feed(&hello));
    let own_proof = &challenge[challenge.len() - PROOF..];
    assert_eq!(reason(listener.feed(&proof_frame(own_proof))), WRONG);
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
    let (dialler, hello) = Dialler::new(party("a", 1), Role::Data, "c", false).unwrap();
    let (mine, _) = conclude(dialler, &hello, Listener::new(party("b", 2), &[Role::Data]).unwrap());
    assert_eq!(reason(mine.unwrap()), "it refused: it looks for \"c\", this is b");
}

#[test]
fn a_role_that_is_not_served_is_refused() {
    let (dialler, hello) = Dialler::new(party("a", 1), Role::Control, "b", false).unwrap();
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
    assert!(Dialler::new(party("a", 1), Role::Data, &long, false).is_err());
    assert!(Listener::new(party(&long, 1), &[Role::Data]).is_err());
}

#[test]
fn three_names_of_the_greatest_length_still_fit() {
    let long = "x".repeat(MAX_NAME);
    let (mut one, mut other) = (party(&long, 1), party(&long, 2));
    one.run = long.clone();
    other.run = long;
    let (dialler, hello, listener) = pair_for(one, other, true);
    assert!(matches!(conclude(dialler, &hello, listener).1, Step::Done { .. }));
}

#[test]
fn a_party_does_not_print_its_secret() {
    assert_eq!(format!("{:?}", party("a", 1)), "Party(a of run canal-1)");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_single_bit_can_be_changed_on_the_way(which in 0..3, at: prop::sample::Index, bit in 0_u32..8, protects: bool) {
        let (mut dialler, mut hello, mut listener) = pair_for(party("a", 1), party("b", 2), protects);
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
