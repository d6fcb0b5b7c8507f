//! Filters over the index space of an array.

use xmml_wire::buffer::BufferMut;
use xmml_wire::data::{Array, Data, Order};
use xmml_wire::message::Message;

use super::{numeric, Filter, Problem};

/// The means of neighbours along the first axis; integers become float64.
pub struct LinearInterpolation;

impl Filter for LinearInterpolation {
    fn outputs(&self, n: u64) -> u64 {
        n
    }

    fn apply(&mut self, message: Message, out: &mut Vec<Message>) -> Result<(), Problem> {
        let Data::Array(array) = &message.data else {
            return Err(format!("needs an array, but the message holds {}", message.data.describe()));
        };
        let points = array.shape.first().copied().unwrap_or(0);
        if points == 0 {
            return Err(format!(
                "needs an array with at least one value along its first axis, but the message holds {}",
                message.data.describe()
            ));
        }
        let low = Data::Array(along_first(array, 0));
        let high = Data::Array(along_first(array, 1));
        out.push(Message { data: numeric::mean(&[low, high])?, ..message });
        Ok(())
    }
}

/// All but one of the planes of the first axis, beginning at `start` (0 or 1).
fn along_first(array: &Array, start: usize) -> Array {
    let points = array.shape[0] as usize;
    let size = array.dtype.size();
    let (runs, run) = match array.order {
        Order::RowMajor => (1, array.data.len()),
        Order::ColumnMajor => (array.data.len() / (points * size), points * size),
    };
    let plane = run / points;
    let kept = run - plane;
    let mut data = BufferMut::take(runs * kept);
    if kept > 0 {
        for (target, source) in data.chunks_exact_mut(kept).zip(array.data.chunks_exact(run)) {
            target.copy_from_slice(&source[start * plane..start * plane + kept]);
        }
    }
    let mut shape = array.shape.clone();
    shape[0] -= 1;
    Array { dtype: array.dtype, order: array.order, shape, data: data.freeze() }
}
