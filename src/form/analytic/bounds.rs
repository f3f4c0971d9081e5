//! How many tokens a device must have, and how wide a model must be, for communication to hide behind arithmetic.
//!
//! C is the peak of a device, W the bytes a second that it gathers by the rule of [`stepsim_fabric::collective::bound`]
//! (never one direction of the narrowest link), α = C/W, b bytes of an element, B/N tokens of a device, D and F
//! widths of model and MLP.
//!
//! | kind | condition |
//! |---|---|
//! | data | B/N > b_g·α/2: all-reduce 2·b_g·P/W against backward 4(B/N)P/C |
//! | FSDP | forward b_w·α/2; backward (b_w + b_g)·α/4 |
//! | tensor, with sequence | Y < (2/b)·F/α, gated 1.5 times that |
//! | FSDP X × tensor Y | B/N > 4·α_X·α_Y/F if the two add, α_X·α_Y/F if both hide beside each other |
//! | pipeline | P_stage > b·D·C/(2·B_p2p); m ≥ (p−1)(1−e)/e for a bubble share e |
//! | expert | F_e > b·C·x/(3·B), x the share of rows that crosses B |
//! | context, ring | s/x > b·C/(2·B·G), G query heads for each of keys and values |
//! | sites | tokens of a site > C_site/W_site |
//!
//! Source: jax-ml scaling book, training chapter, for data, FSDP, tensor and mixed; the others by the same argument.

use stepsim_fabric::collective::{CollectiveError, Geometry, Op, bound};
use stepsim_fabric::topology::{Machine, Mesh};

/// Tokens a device for data parallelism: α tokens where gradients have 2 bytes.
pub fn data(alpha: f64, gradient_bytes: f64) -> f64 {
    gradient_bytes * alpha / 2.0
}
/// Tokens a device and micro-batch for FSDP: forward, and backward.
pub fn fsdp(alpha: f64, weight_bytes: f64, gradient_bytes: f64) -> [f64; 2] {
    [weight_bytes * alpha / 2.0, (weight_bytes + gradient_bytes) * alpha / 4.0]
}
/// Largest tensor-parallel degree of an MLP of width F.
pub fn tensor(alpha: f64, ffn: f64, gated: bool, bytes: f64) -> f64 {
    ffn / alpha * if gated { 1.5 } else { 1.0 } * 2.0 / bytes
}
/// Tokens a device for FSDP over one part of the axes and tensor parallelism over another: if their times add, and if
/// both hide beside each other.
pub fn mixed(alpha_fsdp: f64, alpha_tensor: f64, ffn: f64) -> [f64; 2] {
    let hidden = alpha_fsdp * alpha_tensor / ffn;
    [4.0 * hidden, hidden]
}
/// Parameters of a stage that hide the transfer between stages.
pub fn stage_parameters(peak: f64, rate: f64, hidden: f64, bytes: f64) -> f64 {
    bytes * hidden * peak / (2.0 * rate)
}
/// Micro-batches for a bubble of a share `e` of the step.
pub fn micro_batches(stages: f64, e: f64) -> f64 {
    (stages - 1.0) * (1.0 - e) / e
}
/// Width of gated experts that hides dispatch and combine, of whose rows a share crosses links of this rate.
pub fn expert_width(peak: f64, rate: f64, share: f64, bytes: f64) -> f64 {
    bytes * peak * share / (3.0 * rate)
}
/// Tokens of a rank that hide a step of ring attention over links of this rate.
pub fn ring_tokens(peak: f64, rate: f64, group: f64, bytes: f64) -> f64 {
    bytes * peak / (2.0 * rate * group)
}

/// The gather over one set of a machine's axes.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct AxesRate {
    /// Names of the axes: `X`, `XY`.
    pub axes: String,
    /// Devices of a group, in words.
    pub group: String,
    /// W in bytes a second, stages inside and between nodes at the same time.
    #[serde(rename = "gathered_bytes_per_s")]
    pub rate: f64,
    /// The same, one stage after the other; differs across nodes alone.
    #[serde(rename = "in_turn_bytes_per_s")]
    pub in_turn: f64,
    /// B: one direction of one device's link in the group, the slower kind.
    #[serde(rename = "link_bytes_per_s")]
    pub link: f64,
}

/// The rates of a machine's own axes: each axis that is longer than one, then the first two, three ... together.
///
/// # Errors
/// Two devices have no route between them.
pub fn axes(machine: &Machine) -> Result<Vec<AxesRate>, CollectiveError> {
    let mesh = Mesh::of(machine);
    let long: Vec<char> = mesh.0.iter().filter(|axis| axis.1 > 1).map(|axis| axis.0).collect();
    let single = long.iter().map(|axis| vec![*axis]);
    let together = (2..=long.len()).map(|n| long[..n].to_vec());
    single.chain(together).map(|axes| rate(machine, &mesh, &axes)).collect()
}

fn rate(machine: &Machine, mesh: &Mesh, axes: &[char]) -> Result<AxesRate, CollectiveError> {
    const BYTES: f64 = 1e9;
    let geometry = Geometry::of(machine, &mesh.groups(axes)[0])?;
    let time = bound(Op::AllGather, BYTES, &geometry).bandwidth_s;
    let (n, k) = (f64::from(geometry.per_node.max(1)), f64::from(geometry.nodes));
    let inside = (n - 1.0) / (n * geometry.intra.bandwidth());
    let across = (k - 1.0) / (k * n * geometry.inter.bandwidth());
    let in_turn = if geometry.nodes > 1 { 1.0 / (inside + across) } else { BYTES / time };
    Ok(AxesRate {
        axes: axes.iter().collect(),
        group: geometry.describe(),
        rate: BYTES / time,
        in_turn,
        link: if geometry.nodes > 1 { geometry.inter.bandwidth() } else { geometry.intra.bandwidth() },
    })
}
