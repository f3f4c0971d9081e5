//! The machine: one graph of devices, switches, hosts and memories, and what a transfer between two of them occupies.
//!
//! Vertices are devices, memory tier instances, and switches (NICs, hosts and gateways pass things on and count as
//! such). An edge is a link. Each direction of a link is one **resource** with a capacity; a half-duplex link is one
//! resource for both; a link whose directions together are limited has a third. The resources of a transfer are those
//! of the links on its route; its latency is the sum over those links and over the switches between them, paid once,
//! before the transfer occupies them.
//!
//! ```text
//!  hbm ─ device ─ switch ─ device ─ hbm        one node (scale-up domain)
//!           ├──── host ─── memory (DRAM, CXL, NVMe)
//!           └─(nic)─ leaf ─ spine ─ leaf ─ …   fabric
//!                           └─ gateway ═══ gateway ─ …   sites
//! ```
//! Built machines compute routes by arithmetic on regular numbers; drawn ones search the graph. Names of
//! resources are made when asked for.
//!
//! Hazards: resources of links that nothing can load (both ends of a chain) exist too; `route` of a device to itself
//! is empty; the device memory's own bandwidth is part of the routes of copies, not of transfers between devices.

mod build;
mod builder;
mod built;
mod clos;
mod dragonfly;
mod drawing;
mod drawn;
mod fabric;
mod graph;
mod machine;
mod mesh;
pub mod place;
mod tiers;
mod torus;
mod wan;

pub use fabric::{MachineShape, ScaleOut, ScaleUpShape};
pub use graph::{MachineLink, MachineVertex};
pub use machine::{CopyDirection, Machine, Unreachable};
pub use mesh::Mesh;
pub use place::{Axis, Front, Layout};
