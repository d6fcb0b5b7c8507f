//! Programs outside a run.

use std::collections::BTreeMap;

use xmml_core::instance::{Instance, Received};
use xmml_wire::data::Data;
use xmml_wire::error::Error;
use xmml_wire::message::Message;

use crate::support::{receive, send, Model, Run};

#[test]
fn outside_a_run_the_error_says_what_is_missing() {
    let run = Run::of(Model::new());
    let mut options = run.options("a");
    options.instance = None;
    assert!(matches!(Instance::join(options), Err(Error::NotInARun { missing: "XMML_INSTANCE" })));
}

#[test]
fn an_instance_alone_takes_its_inputs_and_records_its_outputs() {
    let spec = Model::new().submodel("b", "start:finit in:S out:Oi end:Of unused:S", 2).alone("b");
    let number = |value| Message { timestamp: 0.0, next_timestamp: None, data: Data::Int(value) };
    let inputs = BTreeMap::from([("start".to_owned(), vec![number(1)]), ("in".to_owned(), vec![number(2), number(3)])]);
    let me = Instance::alone(spec, inputs).unwrap();
    let mut runs = 0;
    while me.reuse().unwrap() {
        let mut sum = receive(&me, "start").unwrap();
        while me.next_step().unwrap().is_some() {
            send(&me, "out", sum);
            sum += receive(&me, "in").unwrap();
            assert!(matches!(me.receive("unused", None, None).unwrap(), Received::NotConnected));
        }
        send(&me, "end", sum);
        runs += 1;
    }
    me.leave().unwrap();
    assert_eq!(runs, 1);
    let outputs = me.outputs();
    assert_eq!(outputs["out"].iter().map(|message| message.timestamp).collect::<Vec<_>>(), [0.0, 1.0]);
    assert_eq!(outputs["end"], [Message { timestamp: 2.0, next_timestamp: None, data: Data::Int(6) }]);
}

#[test]
fn inputs_for_a_port_that_does_not_exist_are_an_error() {
    let spec = Model::new().submodel("b", "in:S", 2).alone("b");
    let error = Instance::alone(spec, BTreeMap::from([("inn".to_owned(), vec![])])).err().unwrap().to_string();
    assert!(error.contains("\"inn\"") && error.contains("in ports are in"), "{error}");
}
