//! Ranks of an instance that are threads of the test, and arrays that are spread over them. With MPI they are tested from C and Python.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use xmml_core::instance::{Instance, Received};
use xmml_core::parallel::decomposition::{Cut, Decomposition};
use xmml_core::team::Team;
use xmml_wire::data::{Array, Data, Order};

use crate::support::{Run, LIMIT};

/// Ranks that are threads, each with a channel to every other.
struct Threads {
    rank: u32,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

impl Team for Threads {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.to.len() as u32
    }

    fn give(&self, bytes: &[u8]) -> Result<(), String> {
        (1..self.to.len()).try_for_each(|rank| self.to[rank].send(bytes.to_vec())).map_err(|error| error.to_string())
    }

    fn take(&self, bytes: &mut [u8]) -> Result<(), String> {
        self.collect(0, bytes)
    }

    fn deliver(&self, bytes: &[u8]) -> Result<(), String> {
        self.to[0].send(bytes.to_vec()).map_err(|error| error.to_string())
    }

    fn collect(&self, from: u32, bytes: &mut [u8]) -> Result<(), String> {
        let sent = self.from[from as usize].lock().unwrap().recv_timeout(LIMIT);
        let sent = sent.map_err(|error| error.to_string())?;
        assert_eq!(sent.len(), bytes.len(), "the ranks do not agree on what they say");
        bytes.copy_from_slice(&sent);
        Ok(())
    }
}

fn team(size: u32) -> Vec<Threads> {
    let mut to: Vec<Vec<Sender<Vec<u8>>>> = (0..size).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<Mutex<Receiver<Vec<u8>>>>> = (0..size).map(|_| Vec::new()).collect();
    for outbox in &mut to {
        for inbox in &mut from {
            let (there, here) = channel();
            outbox.push(there);
            inbox.push(Mutex::new(here));
        }
    }
    to.into_iter().zip(from).zip(0..).map(|((to, from), rank)| Threads { rank, to, from }).collect()
}

/// Runs `body` on every rank of an instance, and returns what each returns.
pub fn ranks<R: Send + 'static>(
    run: &Arc<Run>,
    name: &'static str,
    size: u32,
    body: impl Fn(Instance) -> R + Send + Sync + Clone + 'static,
) -> thread::JoinHandle<Vec<R>> {
    let run = run.clone();
    thread::spawn(move || {
        let threads: Vec<_> = team(size)
            .into_iter()
            .map(|member| {
                let (run, body) = (run.clone(), body.clone());
                thread::spawn(move || body(Instance::join_team(run.options(name), Box::new(member)).unwrap()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub fn cut(list: &[(u32, u32)]) -> Decomposition {
    Decomposition { cuts: list.iter().map(|&(dimension, parts)| Cut { dimension, parts }).collect() }
}

pub fn member(name: &str, rank: u32) -> String {
    if rank == 0 {
        name.into()
    } else {
        format!("{name}#{rank}")
    }
}

/// The number of an element in the whole array, plus the step.
pub fn values(me: &Instance, port: &str, order: Order, step: u64) -> Array {
    let (block, whole) = me.block(port, None).unwrap();
    let mut elements = Vec::new();
    let (rows, columns) = (block.extent[0], block.extent[1]);
    let mut push = |i: u64, j: u64| {
        elements.push(((block.start[0] + i) * whole[1] + block.start[1] + j) as f64 + 1000.0 * step as f64);
    };
    match order {
        Order::RowMajor => (0..rows).for_each(|i| (0..columns).for_each(|j| push(i, j))),
        Order::ColumnMajor => (0..columns).for_each(|j| (0..rows).for_each(|i| push(i, j))),
    }
    Array { order, ..Array::from_slice(&block.extent, &elements).unwrap() }
}

pub fn array(received: Received) -> Array {
    match received {
        Received::Message(message) => array_of(message.data),
        other => panic!("no message: {other:?}"),
    }
}

pub fn array_of(data: Data) -> Array {
    match data {
        Data::Array(array) => array,
        other => panic!("no array: {other:?}"),
    }
}
