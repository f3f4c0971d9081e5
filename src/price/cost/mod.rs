//! How long a kernel takes on a device, at four levels of detail behind one trait.
//!
//! * [`Constant`]: FLOPs over a fixed fraction of peak, or bytes over achievable bandwidth, whichever is longer.
//! * [`SizeCurve`]: the fractions depend on the size in steps, as Calculon's do.
//! * [`TileWave`] (default): the output is cut into tiles, tiles run in waves over the compute units, each tile pays
//!   for filling its pipeline, and a roofline bounds it from below. For one tile shape t_m × t_n, with U units:
//!   ```text
//!   tiles = batch · ⌈m/t_m⌉ · ⌈n/t_n⌉        waves = tiles/U, a partly filled last one counted by `last_wave`
//!   math  = waves · 2·t_m·t_n·(k + fill_k) / (fraction · peak / U)         the best of all tile shapes and k-splits
//!   math += exposed_sums · bytes of the sums / bandwidth    where the result is added to what is there
//!   time  = max(math, memory) + exposed · min(math, memory) + floor
//!   time  ≥ FLOPs / (sustained · fraction · peak)            power: where a short run is faster than a long one
//!   ```
//! * [`GemmTable`]: measured shapes; between them the tile-wave time is corrected by the nearest ones.
//!
//! Fused attention and kernels that memory bounds have forms of their own (`attention.rs`, `memory_bound.rs`).
//!
//! All levels read the one description of a device ([`DeviceCost`]): catalogue figures and the `cost` object of the
//! device file. The structure (tiles, fill, last wave, floors) is one for all devices, fitted to short runs of A100,
//! H100, H200 and B200 together; per device only rates differ. `stepsim kernels --score` prints what is left as
//! error.
//!
//! Hazards:
//! * Rates of short runs and of training differ: an H100 keeps about 1,600 of its 1,830 MHz under load, a B200 runs
//!   large GEMMs at 0.72 of peak when cool and at 0.5 in a long series, while kernels that reach less keep their rate.
//!   Device files give the rate of a short run and `sustained`, the most of it that stays; steps are priced with both,
//!   rows of short benchmarks without ([`DeviceCost::cool`]).
//! * The clock goes by the mix of a step's kernels ([`KernelMix`]): where few are products, it stays.
//! * A power cap lowers the clock of products by their part of the power ([`UnderCap`], `spec::power`); what memory
//!   bounds keeps its time.
//! * Devices of one kind are not equal, and a step waits for the slowest of all it has ([`DeviceCost::slowest_of`]).
//! * Units that a collective takes are gone for the whole kernel: [`Cost::time_with_units_taken`] is for kernels that
//!   run beside it from start to end; the engine stretches the overlapped part only.

mod attention;
mod clock;
mod constant;
mod curve;
mod device;
pub mod measured;
mod memory_bound;
mod price;
mod slowest;
mod table;
mod tile_wave;
mod under_cap;

pub use clock::KernelMix;
pub use constant::Constant;
pub use curve::SizeCurve;
pub use device::DeviceCost;
pub use price::Cost;
pub use table::GemmTable;
pub use tile_wave::TileWave;
pub use under_cap::UnderCap;

use stepsim_spec::workload::{ComputeFidelity, FidelitySpec};

/// The level that a workload asks for, under the device's power cap.
pub fn level(fidelity: &FidelitySpec) -> Box<dyn Cost> {
    match fidelity.compute {
        ComputeFidelity::Constant => Box::new(UnderCap(Constant { fraction: fidelity.constant_fraction })),
        ComputeFidelity::Calculon => Box::new(UnderCap(SizeCurve)),
        ComputeFidelity::TileWave => Box::new(UnderCap(TileWave)),
        ComputeFidelity::Table => Box::new(UnderCap(GemmTable)),
    }
}
