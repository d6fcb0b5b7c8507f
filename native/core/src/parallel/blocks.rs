//! Blocks of an index space.

/// A box of indices: from `start`, `extent` of them, in each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// First index in each dimension.
    pub start: Vec<u64>,
    /// How many indices in each dimension.
    pub extent: Vec<u64>,
}

impl Block {
    /// All of an array.
    pub fn whole(shape: &[u64]) -> Block {
        Block { start: vec![0; shape.len()], extent: shape.to_vec() }
    }

    /// Number of elements; 1 for rank 0.
    pub fn len(&self) -> u64 {
        self.extent.iter().product()
    }

    /// Whether there is no element in it.
    pub fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }

    /// What two blocks of the same array have in common; it may be empty.
    pub fn overlap(&self, other: &Block) -> Block {
        let mut common = Block { start: Vec::new(), extent: Vec::new() };
        for axis in 0..self.start.len() {
            let start = self.start[axis].max(other.start[axis]);
            let end = (self.start[axis] + self.extent[axis]).min(other.start[axis] + other.extent[axis]);
            common.start.push(start);
            common.extent.push(end.saturating_sub(start));
        }
        common
    }

    /// Whether all of `inner` lies in this block.
    pub fn contains(&self, inner: &Block) -> bool {
        (0..self.start.len()).all(|axis| {
            inner.start[axis] >= self.start[axis]
                && inner.start[axis] + inner.extent[axis] <= self.start[axis] + self.extent[axis]
        })
    }

    /// Where `inner` begins, counted from the start of this block. `inner` must lie within it.
    pub fn offset_of(&self, inner: &Block) -> Vec<u64> {
        inner.start.iter().zip(&self.start).map(|(inner, own)| inner - own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: &[u64], extent: &[u64]) -> Block {
        Block { start: start.to_vec(), extent: extent.to_vec() }
    }

    #[test]
    fn blocks_overlap_where_they_do_in_every_dimension() {
        assert_eq!(block(&[0, 2], &[4, 4]).overlap(&block(&[3, 0], &[9, 3])), block(&[3, 2], &[1, 1]));
    }

    #[test]
    fn blocks_side_by_side_have_nothing_in_common() {
        assert!(block(&[0], &[4]).overlap(&block(&[4], &[4])).is_empty());
    }

    #[test]
    fn a_block_contains_what_lies_within_it_only() {
        let outer = block(&[2, 2], &[3, 3]);
        assert!(outer.contains(&block(&[2, 3], &[3, 2])));
        assert!(!outer.contains(&block(&[2, 3], &[3, 3])));
        assert_eq!(outer.offset_of(&block(&[2, 3], &[1, 1])), [0, 1]);
    }
}
