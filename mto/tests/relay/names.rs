//! Name servers that take their time hold up nobody but the link whose host they are asked for.

use std::net::ToSocketAddrs;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use xmml_wire::methods::relay::Relay as Method;
use xmml_wire::methods::Method as _;

use crate::support::flow::Flow;
use crate::support::{await_that, party, Site, RUN, SECRET};

#[test]
fn a_name_that_is_not_found_for_long_holds_up_no_stream_and_is_dialled_when_it_is() {
    let (b, c) = (Site::start("b", &[]), Site::start("c", &[]));
    let (answer, answered) = channel();
    let answered = Mutex::new(answered);
    let links = [b.address.clone(), "far.example:40001".to_owned()];
    let a = Site::start_with("a", "127.0.0.1:0", &links, &[(RUN, SECRET)], |relay| {
        let look_up = move |name: &str| {
            assert_eq!(name, "far.example:40001");
            answered.lock().unwrap().recv().map_err(|_| "the test is over".to_owned())?
        };
        relay.look_up_with(Arc::new(look_up)).unwrap();
    });
    a.await_way_to("b");
    await_that("a name is looked up", || a.status().not_linked.iter().any(|link| link.reason.contains("name server")));
    let listener = b.listener("there");
    let (x, y) = a.pipe_to("b", "there", &*listener);
    for _ in 0..100 {
        x.send(b"there");
        assert_eq!(y.receive(5), b"there");
        y.send(b"back");
        assert_eq!(x.receive(4), b"back");
    }
    // Each would have to wait for the name server otherwise, which answers only now.
    answer.send(Err("no such host".to_owned())).unwrap();
    await_that("it is told why", || a.status().not_linked.iter().any(|link| link.reason == "no such host"));
    answer.send(Ok(vec![c.address.parse().unwrap()])).unwrap();
    a.await_way_to("c");
    assert!(a.logged().contains("a link cannot be dialled") && a.status().not_linked.is_empty());
}

#[test]
fn a_relay_is_dialled_by_the_name_of_its_host() {
    let b = Site::start("b", &[]);
    let port = b.address.rsplit_once(':').unwrap().1;
    let a = Site::start_at("a", "127.0.0.1:0", &[format!("localhost:{port}")], &[(RUN, SECRET)]);
    a.await_way_to("b");
    // It is found again when the link was lost.
    let address = b.address.clone();
    b.kill();
    await_that("the link is lost", || a.status().runs[RUN].sites.len() == 1);
    let b = Site::start_at("b", &address, &[], &[(RUN, SECRET)]);
    a.await_way_to("b");
    drop(b);
}

#[test]
fn a_relay_listens_at_every_address_of_a_host_that_this_machine_has() {
    // An address for documentation, which no machine has; then two that every machine has.
    let host = ["192.0.2.1:0", "127.0.0.1:0", "127.0.0.2:0"].map(|address| address.parse().unwrap());
    let mut bound = None;
    let a = Site::start_with("a", "127.0.0.1:0", &[], &[(RUN, SECRET)], |relay| {
        bound = Some(relay.listen_at_all(&host).unwrap());
        assert!(relay.listen_at_all(&host[..1]).is_err() && relay.listen_at_all(&[]).is_err());
    });
    let port = bound.unwrap().port();
    for address in [format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}")] {
        assert!(a.status().listen.contains(&address), "{:?}", a.status().listen);
        let listener = Method.listen(Some(&format!("{address}/a")), &party(&address)).unwrap();
        await_that("it is registered", || {
            assert!(listener.accept().unwrap().is_none());
            a.status().runs[RUN].names.contains(&address)
        });
    }
}

#[test]
fn an_instance_reaches_its_relay_at_any_address_of_its_host() {
    // Many machines have two of this name, ::1 and 127.0.0.1. Nobody is there at the first.
    let last = "localhost:0".to_socket_addrs().unwrap().last().unwrap();
    let mut a = Site::start_at("a", &last.to_string(), &[], &[(RUN, SECRET)]);
    let port = a.address.rsplit_once(':').unwrap().1;
    a.address = format!("localhost:{port}");
    Flow::at(&a).counted();
}
