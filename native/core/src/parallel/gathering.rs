//! Puts the blocks of all ranks of a program together on rank 0.

use serde::{Deserialize, Serialize};

use xmml_wire::buffer::BufferMut;
use xmml_wire::data::{Array, Dtype, Order};
use xmml_wire::error::{Error, Result};

use crate::team::{self, Team};

use super::copying::{copy_block, Place};
use super::decomposition::Decomposition;

/// What a rank has when the blocks have been gathered.
pub enum Gathered {
    /// Rank 0: the whole array.
    Whole(Array),
    /// The others: their block is with rank 0.
    Delivered,
}

/// What a rank says of its block.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Offered {
    dtype: u8,
    column_major: bool,
    shape: Vec<u64>,
}

/// Gathers the blocks of an array on rank 0, in its memory order there. The decomposition says how the ranks lie to each other; the extents
/// of their blocks need not be those that [`Decomposition::block`] would give them, as long as they make a grid.
///
/// # Errors
/// On every rank: the blocks do not fit together.
pub fn gathered(team: &dyn Team, block: Array, decomposition: &Decomposition) -> Result<Gathered> {
    let own = Offered {
        dtype: block.dtype as u8,
        column_major: block.order == Order::ColumnMajor,
        shape: block.shape.to_vec(),
    };
    if team.rank() > 0 {
        team::deliver_value(team, &own)?;
        team::share::<()>(team, None)?;
        if !block.is_empty() {
            team.deliver(&block.data).map_err(unreachable_rank)?;
        }
        return Ok(Gathered::Delivered);
    }
    let mut offered = vec![own];
    for rank in 1..team.size() {
        offered.push(team::collect_value(team, rank)?);
    }
    let grid = Grid::of(&offered, decomposition).map_err(|problem| Error::Usage { problem });
    let (grid, outcome) = match grid {
        Ok(grid) => (Some(grid), Ok(())),
        Err(error) => (None, Err(error)),
    };
    team::share(team, Some(outcome))?;
    let Some(grid) = grid else { return Ok(Gathered::Delivered) };
    let element = block.dtype.size();
    let bytes = xmml_wire::data::array_bytes(block.dtype, &grid.whole).unwrap_or_default();
    let mut target = BufferMut::take(bytes as usize);
    for (rank, theirs) in offered.iter().enumerate() {
        let count: u64 = theirs.shape.iter().product();
        let start = &grid.starts[rank];
        if count == 0 {
            continue;
        }
        let from_start = vec![0; theirs.shape.len()];
        let order = if theirs.column_major { Order::ColumnMajor } else { Order::RowMajor };
        let from = Place { shape: &theirs.shape, order, start: &from_start };
        let to = Place { shape: &grid.whole, order: block.order, start };
        if rank == 0 {
            copy_block(&block.data, from, &mut target, to, &theirs.shape, element);
        } else {
            let mut part = BufferMut::take(count as usize * element);
            team.collect(rank as u32, &mut part).map_err(unreachable_rank)?;
            copy_block(&part, from, &mut target, to, &theirs.shape, element);
        }
    }
    Ok(Gathered::Whole(Array {
        dtype: block.dtype,
        order: block.order,
        shape: grid.whole.into(),
        data: target.freeze(),
    }))
}

fn unreachable_rank(cause: String) -> Error {
    Error::Io { action: "gather the blocks of all ranks".into(), cause }
}

/// How blocks lie to each other.
#[derive(Debug)]
struct Grid {
    whole: Vec<u64>,
    /// Where the block of each rank begins.
    starts: Vec<Vec<u64>>,
}

impl Grid {
    fn of(offered: &[Offered], decomposition: &Decomposition) -> std::result::Result<Grid, String> {
        decomposition.check()?;
        let ranks = offered.len();
        if decomposition.ranks() as usize != ranks {
            return Err(format!("a decomposition over {} ranks, but {ranks} joined together", decomposition.ranks()));
        }
        let rank = offered[0].shape.len();
        if decomposition.dimensions() > rank {
            return Err(format!("a decomposition of {} dimensions of an array of {rank}", decomposition.dimensions()));
        }
        let name = |code: u8| Dtype::from_code(code).map_or("?", Dtype::name);
        if let Some(other) = offered.iter().position(|each| each.dtype != offered[0].dtype || each.shape.len() != rank)
        {
            return Err(format!(
                "rank 0 has a block of {} with {rank} dimensions, but rank {other} one of {} with {}",
                name(offered[0].dtype),
                name(offered[other].dtype),
                offered[other].shape.len()
            ));
        }
        let mut grid = Grid { whole: Vec::new(), starts: vec![Vec::new(); ranks] };
        for axis in 0..rank {
            let places: Vec<(u32, u32)> = (0..ranks).map(|rank| decomposition.part_of(axis, rank as u32)).collect();
            let mut extents: Vec<Option<u64>> = vec![None; places[0].0 as usize];
            for (rank, (_, part)) in places.iter().enumerate() {
                let own = offered[rank].shape[axis];
                match extents[*part as usize].replace(own) {
                    Some(other) if other != own => {
                        return Err(format!(
                            "the block of rank {rank} has {own} elements in dimension {axis}, that of another rank beside it {other}"
                        ));
                    }
                    _ => {}
                }
            }
            let mut begins = vec![0_u64];
            for extent in &extents {
                let next = begins.last().copied().unwrap_or(0).checked_add(extent.unwrap_or(0));
                begins.push(next.ok_or("the whole array would be too large")?);
            }
            for (rank, (_, part)) in places.iter().enumerate() {
                grid.starts[rank].push(begins[*part as usize]);
            }
            grid.whole.push(begins.last().copied().unwrap_or(0));
        }
        let dtype = Dtype::from_code(offered[0].dtype).ok_or("an unknown type")?;
        match xmml_wire::data::array_bytes(dtype, &grid.whole) {
            Some(_) => Ok(grid),
            None => Err("the whole array would be too large".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::decomposition::Cut;

    fn offered(shapes: &[&[u64]]) -> Vec<Offered> {
        shapes.iter().map(|shape| Offered { dtype: 10, column_major: false, shape: shape.to_vec() }).collect()
    }

    fn two_by_two() -> Decomposition {
        Decomposition { cuts: vec![Cut { dimension: 0, parts: 2 }, Cut { dimension: 1, parts: 2 }] }
    }

    #[test]
    fn blocks_of_unequal_size_make_a_grid() {
        let grid = Grid::of(&offered(&[&[3, 1], &[3, 5], &[2, 1], &[2, 5]]), &two_by_two()).unwrap();
        assert_eq!(grid.whole, [5, 6]);
        assert_eq!(grid.starts, [[0, 0], [0, 1], [3, 0], [3, 1]]);
    }

    #[test]
    fn blocks_that_do_not_meet_at_their_edges_are_refused() {
        let problem = Grid::of(&offered(&[&[3, 1], &[3, 5], &[2, 2], &[2, 5]]), &two_by_two()).unwrap_err();
        assert!(problem.contains("dimension 1"), "{problem}");
    }

    #[test]
    fn another_number_of_ranks_or_dimensions_is_refused() {
        assert!(Grid::of(&offered(&[&[3, 1], &[3, 5]]), &two_by_two()).is_err());
        assert!(Grid::of(&offered(&[&[3], &[3], &[3], &[3]]), &two_by_two()).is_err());
    }
}
