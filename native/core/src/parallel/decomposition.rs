//! Which block of an array each rank holds.
//!
//! Dimension d of extent n, cut into p parts: part k goes from floor(k n / p) to floor((k + 1) n / p). So the parts differ by at most
//! one element, and where two sides cut a dimension at the same fraction (p = 4 and p = 2 have the middle in common) they cut it at the
//! same index, whatever the extent. That is why it is known before any message which pairs of ranks can have elements in common
//! ([`Decomposition::meets`]): the conduits are made for these pairs only.
//!
//! Ranks are numbered through the cuts as they are written, the last one fastest: with `block(x:4,y:2)` rank 1 is the second in y,
//! as `MPI_Cart_create` numbers a grid of 4 x 2.

use serde::{Deserialize, Serialize};

use super::blocks::Block;

/// More parts than any machine has ranks; keeps products of parts and extents within 128 bits.
pub const MOST_PARTS: u32 = 1 << 30;

/// Arrays have fewer dimensions than this.
const MOST_DIMENSIONS: u32 = 64;

/// One dimension that is cut into parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Which dimension of the array, from 0.
    pub dimension: u32,
    /// Into how many parts.
    pub parts: u32,
}

/// How an array is spread over ranks: `block(x:4,y:2)`. Without cuts it is whole on one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decomposition {
    /// The dimensions that are cut, each once; ranks are numbered through them, the last one fastest.
    pub cuts: Vec<Cut>,
}

impl Decomposition {
    /// All of the array on one rank.
    pub fn whole() -> Decomposition {
        Decomposition::default()
    }

    /// Reads `block(x:4,y:2)` (or only `x:4,y:2`). Dimensions are named by the scales in space, in their order, or numbered from 0.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &str, names: &[&str]) -> Result<Decomposition, String> {
        let inner = text.trim();
        let inner = match inner.strip_prefix("block") {
            Some(rest) => rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')),
            None => Some(inner),
        };
        let wrong = || format!("\"{text}\" is no decomposition; write for example block(x:4,y:2)");
        let mut decomposition = Decomposition::default();
        for cut in inner.ok_or_else(wrong)?.split(',') {
            let (dimension, parts) = cut.split_once(':').ok_or_else(wrong)?;
            let (dimension, parts) = (dimension.trim(), parts.trim());
            let number = names.iter().position(|name| *name == dimension);
            let number = number.or_else(|| dimension.parse().ok()).ok_or_else(|| {
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                format!("there is no dimension \"{dimension}\"; the spacescales of the model are {known} (or number it from 0)")
            })?;
            let parts = parts.parse().map_err(|_| wrong())?;
            decomposition.cuts.push(Cut { dimension: u32::try_from(number).map_err(|_| wrong())?, parts });
        }
        decomposition.check()?;
        Ok(decomposition)
    }

    /// Checks that every dimension is cut once, into at least one part.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn check(&self) -> Result<(), String> {
        let mut ranks: u64 = 1;
        for (place, cut) in self.cuts.iter().enumerate() {
            if self.cuts[..place].iter().any(|other| other.dimension == cut.dimension) {
                return Err(format!("dimension {} is cut twice", cut.dimension));
            }
            if cut.dimension >= MOST_DIMENSIONS {
                return Err(format!("dimension {} is more than an array can have", cut.dimension));
            }
            if cut.parts == 0 {
                return Err(format!("dimension {} is cut into no parts", cut.dimension));
            }
            ranks = ranks.saturating_mul(u64::from(cut.parts));
        }
        match ranks <= u64::from(MOST_PARTS) {
            true => Ok(()),
            false => Err(format!("{ranks} parts are too many")),
        }
    }

    /// How many ranks hold a part.
    pub fn ranks(&self) -> u32 {
        self.cuts.iter().map(|cut| cut.parts).product()
    }

    /// How many dimensions an array must have at least.
    pub fn dimensions(&self) -> usize {
        self.cuts.iter().map(|cut| cut.dimension as usize + 1).max().unwrap_or(0)
    }

    /// Into how many parts a dimension is cut, and which of them is the rank's.
    pub fn part_of(&self, dimension: usize, rank: u32) -> (u32, u32) {
        let mut rest = rank;
        for cut in self.cuts.iter().rev() {
            if cut.dimension as usize == dimension {
                return (cut.parts, rest % cut.parts);
            }
            rest /= cut.parts;
        }
        (1, 0)
    }

    /// The block of a rank in an array of this shape, which has at least [`Decomposition::dimensions`] dimensions.
    pub fn block(&self, rank: u32, shape: &[u64]) -> Block {
        let mut block = Block::whole(shape);
        for (dimension, &extent) in shape.iter().enumerate() {
            let (parts, part) = self.part_of(dimension, rank);
            let start = bound(extent, parts, part);
            block.start[dimension] = start;
            block.extent[dimension] = bound(extent, parts, part + 1) - start;
        }
        block
    }

    /// Whether a rank of this side and one of the other can have elements in common, for any shape of the array.
    pub fn meets(&self, rank: u32, other: &Decomposition, other_rank: u32) -> bool {
        (0..self.dimensions().max(other.dimensions())).all(|dimension| {
            let (parts, part) = self.part_of(dimension, rank);
            let (other_parts, other_part) = other.part_of(dimension, other_rank);
            // Of [part, part + 1) / parts and [other_part, other_part + 1) / other_parts, each begins before the other ends.
            let (parts, other_parts) = (u64::from(parts), u64::from(other_parts));
            let (part, other_part) = (u64::from(part), u64::from(other_part));
            part * other_parts < (other_part + 1) * parts && other_part * parts < (part + 1) * other_parts
        })
    }

    /// The pairs of a sending and a receiving rank that can have elements in common.
    pub fn pairs(&self, receiver: &Decomposition) -> Vec<(u32, u32)> {
        (0..self.ranks())
            .flat_map(|from| (0..receiver.ranks()).map(move |to| (from, to)))
            .filter(|&(from, to)| self.meets(from, receiver, to))
            .collect()
    }
}

/// The index at which a part of a dimension begins.
fn bound(extent: u64, parts: u32, part: u32) -> u64 {
    // The quotient is at most `extent`, since a part is at most `parts`.
    (u128::from(extent) * u128::from(part) / u128::from(parts.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cuts(list: &[(u32, u32)]) -> Decomposition {
        Decomposition { cuts: list.iter().map(|&(dimension, parts)| Cut { dimension, parts }).collect() }
    }

    #[test]
    fn ranks_go_through_the_cuts_with_the_last_one_fastest() {
        let blocks: Vec<_> = (0..4).map(|rank| cuts(&[(0, 2), (1, 2)]).block(rank, &[4, 6]).start).collect();
        assert_eq!(blocks, [[0, 0], [0, 3], [2, 0], [2, 3]]);
        let turned: Vec<_> = (0..4).map(|rank| cuts(&[(1, 2), (0, 2)]).block(rank, &[4, 6]).start).collect();
        assert_eq!(turned, [[0, 0], [2, 0], [0, 3], [2, 3]]);
    }

    #[test]
    fn a_dimension_that_is_not_cut_is_whole_on_every_rank() {
        let block = cuts(&[(1, 3)]).block(1, &[5, 9, 2]);
        assert_eq!((block.start, block.extent), (vec![0, 3, 0], vec![5, 3, 2]));
    }

    #[test]
    fn more_parts_than_elements_leave_some_ranks_nothing() {
        let extents: Vec<_> = (0..4).map(|rank| cuts(&[(0, 4)]).block(rank, &[2]).extent[0]).collect();
        assert_eq!(extents, [0, 1, 0, 1]);
    }

    #[test]
    fn a_dimension_cut_twice_or_into_nothing_is_refused() {
        assert!(cuts(&[(0, 2), (0, 2)]).check().is_err());
        assert!(cuts(&[(0, 0)]).check().is_err());
        assert!(cuts(&[(0, 1 << 20), (1, 1 << 20)]).check().is_err());
        assert!(cuts(&[(0, 4), (2, 3)]).check().is_ok());
    }

    #[test]
    fn a_decomposition_is_read_by_names_or_numbers() {
        assert_eq!(Decomposition::parse("block(x:4, y:2)", &["x", "y"]), Ok(cuts(&[(0, 4), (1, 2)])));
        assert_eq!(Decomposition::parse(" y:3 ", &["x", "y"]), Ok(cuts(&[(1, 3)])));
        assert_eq!(Decomposition::parse("block(2:5)", &[]), Ok(cuts(&[(2, 5)])));
        for wrong in [
            "",
            "block",
            "block()",
            "block(x)",
            "block(z:2)",
            "block(x:-1)",
            "block(x:0)",
            "cyclic(x:2)",
            "block(x:2,0:2)",
        ] {
            assert!(Decomposition::parse(wrong, &["x", "y"]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn halves_and_quarters_meet_where_they_have_the_same_bounds() {
        let pairs = cuts(&[(0, 2)]).pairs(&cuts(&[(0, 4)]));
        assert_eq!(pairs, [(0, 0), (0, 1), (1, 2), (1, 3)]);
    }

    fn decomposition() -> impl Strategy<Value = Decomposition> {
        (1_u32..7, 1_u32..7, 1_u32..7, any::<bool>()).prop_map(|(x, y, z, turned)| match turned {
            false => cuts(&[(0, x), (1, y), (2, z)]),
            true => cuts(&[(2, z), (0, x)]),
        })
    }

    proptest! {
        #[test]
        fn the_blocks_of_all_ranks_cover_every_element_once(side in decomposition(), shape in prop::collection::vec(0_u64..20, 3)) {
            let mut times = vec![0; shape.iter().product::<u64>() as usize];
            for rank in 0..side.ranks() {
                let block = side.block(rank, &shape);
                for i in 0..block.extent[0] {
                    for j in 0..block.extent[1] {
                        for k in 0..block.extent[2] {
                            let index = ((block.start[0] + i) * shape[1] + block.start[1] + j) * shape[2] + block.start[2] + k;
                            times[index as usize] += 1;
                        }
                    }
                }
            }
            prop_assert!(times.iter().all(|&times| times == 1));
        }

        #[test]
        fn ranks_that_do_not_meet_have_nothing_in_common(
            sender in decomposition(), receiver in decomposition(), shape in prop::collection::vec(0_u64..50, 3)
        ) {
            for from in 0..sender.ranks() {
                for to in 0..receiver.ranks() {
                    let common = sender.block(from, &shape).overlap(&receiver.block(to, &shape));
                    prop_assert!(common.is_empty() || sender.meets(from, &receiver, to));
                }
            }
        }

        #[test]
        fn every_rank_meets_another(sender in decomposition(), receiver in decomposition()) {
            for rank in 0..receiver.ranks() {
                prop_assert!((0..sender.ranks()).any(|from| sender.meets(from, &receiver, rank)));
            }
        }
    }
}
