//! Places of ranks: rank order as a permutation of the parallel axes, and the device that each rank drives.
//!
//! A layout with order `[tp, cp, dp, pp]` numbers ranks so that the first axis varies fastest: rank = tp + TP (cp + CP
//! (dp + DP pp)). Ranks drive devices in order unless a map says otherwise.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use stepsim_core::declare::named;
use stepsim_core::ids::{DeviceId, RankId};
use stepsim_spec::SpecError;
use stepsim_spec::number::MAX_COUNT;

named! {
    /// An axis of parallelism.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
    )]
    #[serde(rename_all = "lowercase")]
    pub enum Axis {
        /// Tensor parallelism.
        Tp = "tp",
        /// Context parallelism.
        Cp = "cp",
        /// Expert parallelism, where it has ranks of its own.
        Ep = "ep",
        /// Data parallelism.
        Dp = "dp",
        /// Pipeline parallelism.
        Pp = "pp",
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A pipeline rank in front of all others with its own degrees. Its ranks are numbered behind the grid's, tensor
/// fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Front {
    /// Tensor-parallel degree.
    pub tensor: u32,
    /// Data-parallel degree.
    pub data: u32,
}

impl Front {
    /// Number of its ranks.
    pub fn ranks(self) -> u32 {
        self.tensor * self.data
    }
    /// Place on an axis of its rank number `i`.
    fn coordinate(self, i: u32, axis: Axis) -> u32 {
        match axis {
            Axis::Tp => i % self.tensor,
            Axis::Dp => i / self.tensor,
            Axis::Cp | Axis::Ep | Axis::Pp => 0,
        }
    }
}

/// The place of each rank on the parallel axes, and its device.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    order: [Axis; 5],
    /// Of the grid, without the front; by [`Axis`], not by order.
    sizes: [u32; 5],
    /// Ranks that differ by one on an axis differ by this, by [`Axis`].
    strides: [u32; 5],
    /// The pipeline rank in front of the grid, where there is one.
    front: Option<Front>,
    /// Device of each rank; `None`: the same number.
    devices: Option<Vec<DeviceId>>,
}

impl Layout {
    /// A layout of the given axis sizes. Axes that `order` leaves out follow in the default order; axes that `sizes`
    /// leaves out have size one.
    ///
    /// # Errors
    /// An axis stands twice, a size is zero, or the product exceeds 2²⁰.
    pub fn new(order: &[Axis], sizes: &[(Axis, u32)]) -> Result<Layout, SpecError> {
        let mut whole = Vec::with_capacity(5);
        for axis in order {
            if whole.contains(axis) {
                return Err(SpecError::at("order", format!("`{axis}` stands twice"))
                    .allowed("each of tp, cp, ep, dp, pp at most once, fastest first"));
            }
            whole.push(*axis);
        }
        whole.extend(Axis::ALL.into_iter().filter(|axis| !order.contains(axis)));
        let mut by_axis = [1_u32; 5];
        for (axis, size) in sizes {
            if *size == 0 {
                return Err(SpecError::at(axis.name(), "0 is not allowed").allowed("a whole number from 1"));
            }
            by_axis[*axis as usize] = *size;
        }
        let (mut strides, mut stride) = ([1_u32; 5], 1_u64);
        for axis in &whole {
            strides[*axis as usize] = stride as u32;
            stride *= u64::from(by_axis[*axis as usize]);
            if stride > MAX_COUNT {
                let problem = format!("the parallel degrees multiply to {stride} or more");
                return Err(SpecError::at(axis.name(), problem).allowed(format!("at most {MAX_COUNT} ranks")));
            }
        }
        let order = [whole[0], whole[1], whole[2], whole[3], whole[4]];
        Ok(Layout { order, sizes: by_axis, strides, front: None, devices: None })
    }
    /// The same layout with a pipeline rank in front of it.
    pub fn with_front(self, front: Option<Front>) -> Layout {
        Layout { front, ..self }
    }
    /// The same layout with rank `i` on device `devices[i]`.
    ///
    /// # Errors
    /// Not one entry for each rank, a device twice, or one that the machine of `machine_devices` devices lacks.
    pub fn with_devices(mut self, devices: Vec<DeviceId>, machine_devices: u32) -> Result<Layout, SpecError> {
        if devices.len() != self.ranks() as usize {
            let problem = format!("{} entries for {} ranks", devices.len(), self.ranks());
            return Err(SpecError::at("rank_map", problem).allowed("one device for each rank, in rank order"));
        }
        let mut taken = vec![false; machine_devices as usize];
        for (rank, device) in devices.iter().enumerate() {
            let at = format!("rank_map[{rank}]");
            match taken.get_mut(device.index()) {
                None => {
                    return Err(SpecError::at(at, format!("{} is not allowed", device.0))
                        .allowed(format!("0 to {}", machine_devices.saturating_sub(1))));
                }
                Some(true) => {
                    return Err(SpecError::at(at, format!("device {} has a rank already", device.0)));
                }
                Some(free) => *free = true,
            }
        }
        self.devices = Some(devices);
        Ok(self)
    }
    /// A rank map: a JSON list of device numbers in rank order.
    ///
    /// # Errors
    /// It is not such a list.
    pub fn rank_map(list: &Value) -> Result<Vec<DeviceId>, SpecError> {
        let list: Vec<u32> = Vec::deserialize(list).map_err(|e| {
            SpecError::at("rank_map", e.to_string())
                .allowed("a JSON list of device numbers in rank order")
                .hint("[0, 4, 1, 5]")
        })?;
        Ok(list.into_iter().map(DeviceId).collect())
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.grid() + self.front.map_or(0, Front::ranks)
    }
    /// Number of ranks without the front.
    fn grid(&self) -> u32 {
        self.sizes.iter().product()
    }
    /// Pipeline ranks in front of the grid: 0 or 1.
    fn fronts(&self) -> u32 {
        u32::from(self.front.is_some())
    }
    /// Degrees of a pipeline rank: tensor, context, data.
    fn degrees(&self, pipeline_rank: u32) -> [u32; 3] {
        match self.front.filter(|_| pipeline_rank == 0) {
            Some(front) => [front.tensor, 1, front.data],
            None => [Axis::Tp, Axis::Cp, Axis::Dp].map(|axis| self.size(axis)),
        }
    }
    /// How many ranks a pipeline rank has.
    pub fn stage_size(&self, pipeline_rank: u32) -> u32 {
        self.degrees(pipeline_rank).iter().product()
    }
    /// Rank number `i` of a pipeline rank: data slowest, then context, then tensor.
    pub fn in_stage(&self, pipeline_rank: u32, i: u32) -> RankId {
        let [tensor, context, _] = self.degrees(pipeline_rank);
        self.rank([i % tensor, i / tensor % context, 0, i / tensor / context, pipeline_rank])
    }
    /// The index of a rank within its pipeline rank.
    pub fn place_in_stage(&self, rank: RankId) -> u32 {
        let [tp, cp, _, dp, pp] = self.coords(rank);
        let [tensor, context, _] = self.degrees(pp);
        tp + tensor * (cp + context * dp)
    }
    /// The ranks of a pipeline rank in this order.
    pub fn stage(&self, pipeline_rank: u32) -> Vec<RankId> {
        (0..self.stage_size(pipeline_rank)).map(|i| self.in_stage(pipeline_rank, i)).collect()
    }
    /// The axes, fastest first.
    pub fn order(&self) -> [Axis; 5] {
        self.order
    }
    /// Size of an axis; the pipeline's counts the front.
    pub fn size(&self, axis: Axis) -> u32 {
        self.sizes[axis as usize] + if axis == Axis::Pp { self.fronts() } else { 0 }
    }
    /// How far apart the ranks of neighbours on an axis are.
    pub fn stride(&self, axis: Axis) -> u32 {
        self.strides[axis as usize]
    }
    /// Place of a rank on an axis.
    pub fn coordinate(&self, rank: RankId, axis: Axis) -> u32 {
        match (self.front, rank.0.checked_sub(self.grid())) {
            (Some(front), Some(i)) => front.coordinate(i, axis),
            _ => self.place(rank, axis) + if axis == Axis::Pp { self.fronts() } else { 0 },
        }
    }
    /// Place of a rank on an axis of the grid.
    fn place(&self, rank: RankId, axis: Axis) -> u32 {
        rank.0 / self.stride(axis) % self.sizes[axis as usize]
    }
    /// Place of a rank on all axes, indexed by [`Axis`].
    pub fn coords(&self, rank: RankId) -> [u32; 5] {
        Axis::ALL.map(|axis| self.coordinate(rank, axis))
    }
    /// The rank at a place, indexed by [`Axis`].
    pub fn rank(&self, coords: [u32; 5]) -> RankId {
        let mut coords = coords;
        let pipeline = &mut coords[Axis::Pp as usize];
        match (self.front, pipeline.checked_sub(self.fronts())) {
            (Some(front), None) => {
                return RankId(
                    self.grid() + coords[Axis::Tp as usize] + front.tensor * coords[Axis::Dp as usize],
                );
            }
            (_, place) => *pipeline = place.unwrap_or(0),
        }
        RankId(Axis::ALL.iter().map(|axis| coords[*axis as usize] * self.stride(*axis)).sum())
    }
    /// The ranks of the grid that differ from `rank`, which is one of them, on the given axes only, in the order of
    /// the layout.
    pub fn group(&self, rank: RankId, axes: &[Axis]) -> Vec<RankId> {
        let origin = axes.iter().fold(rank.0, |r, axis| r - self.place(rank, *axis) * self.stride(*axis));
        let mut ranks = vec![RankId(origin)];
        for axis in self.order.iter().rev().filter(|axis| axes.contains(axis)) {
            // Slower axes first, so that each pass over a faster one keeps rank order.
            ranks = ranks
                .iter()
                .flat_map(|r| {
                    (0..self.sizes[*axis as usize]).map(move |i| RankId(r.0 + i * self.stride(*axis)))
                })
                .collect();
        }
        ranks
    }
    /// The device of a rank.
    pub fn device(&self, rank: RankId) -> DeviceId {
        self.devices.as_ref().map_or(DeviceId(rank.0), |devices| devices[rank.index()])
    }
}
