//! How long it takes to copy a matrix of 804 KiB into the other memory order, against a plain copy of it, and a block out of it.
//!
//!     cargo run --release -p xmml-core --example block_copy

use std::time::Instant;

use xmml_core::parallel::copying::{copy_block, Place};
use xmml_wire::data::Order;

const ROWS: u64 = 268;
const COLUMNS: u64 = 384;
const ROUNDS: usize = 200;

fn median_us(mut body: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            body();
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn main() {
    let shape = [ROWS, COLUMNS];
    let source: Vec<u8> = (0..ROWS * COLUMNS * 8).map(|i| i as u8).collect();
    let mut target = vec![0; source.len()];
    let place = |order| Place { shape: &shape, order, start: &[0, 0] };
    let plain = median_us(|| target.copy_from_slice(&source));
    println!("plain copy of {} KiB: {plain:.1} us", source.len() / 1024);
    for (from, to) in [(Order::RowMajor, Order::ColumnMajor), (Order::ColumnMajor, Order::RowMajor)] {
        let time = median_us(|| copy_block(&source, place(from), &mut target, place(to), &shape, 8));
        println!("{from:?} to {to:?}: {time:.1} us, {:.2} times the plain copy", time / plain);
    }
    let extent = [ROWS / 2, COLUMNS / 2];
    let mut block = vec![0; (extent[0] * extent[1] * 8) as usize];
    let to = Place { shape: &extent, order: Order::RowMajor, start: &[0, 0] };
    let time = median_us(|| copy_block(&source, place(Order::RowMajor), &mut block, to, &extent, 8));
    println!("a quarter as a block: {time:.1} us, {:.2} times the plain copy of as much", time / (plain / 4.0));
}
