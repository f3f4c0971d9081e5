//! The registry: all algorithms, a line each.

use super::Op;
use super::algorithm::Algorithm;
use super::geometry::Geometry;
use super::rail::Rail;

/// All algorithms, in the order in which ties between closed forms are broken.
pub static ALGORITHMS: &[&dyn Algorithm] = &[
    &super::point_to_point::SendReceive,
    &super::direct::OneShot,
    &super::direct::TwoShot,
    &super::ring::Ring,
    &super::shift::Shift,
    &super::nvls::Nvls,
    &super::torus::TorusRings { split: false },
    &super::torus::TorusRings { split: true },
    &super::hierarchical::Hierarchical,
    &super::sites::ThreeLevel,
    &super::rail::Rail,
    &super::two_stage::TwoStageExchange,
    &super::pat::Pat,
    &super::doubling::HalvingDoubling,
    &super::doubling::RecursiveDoubling,
    &super::tree::Tree,
];

/// The choice that a library has: all that the group can run. Where other rails are reached over the network the
/// library has no PXN, and hops inside a node are for who asks for them.
pub(super) fn offered(op: Op, g: &Geometry) -> impl Iterator<Item = &'static dyn Algorithm> {
    let without_pxn = g.other_rails.is_some();
    let can = ALGORITHMS.iter().copied().filter(move |a| a.supports(op, g).is_ok());
    can.filter(move |a| !(without_pxn && a.name() == Rail.name()))
}

/// The algorithm of a name or alias; underscores count as hyphens, and an op at its end (`ring-all-reduce`) says
/// nothing new.
pub fn algorithm(name: &str) -> Option<&'static dyn Algorithm> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let find =
        |name: &str| ALGORITHMS.iter().copied().find(|a| a.name() == name || a.aliases().contains(&name));
    let without_op = |op: &Op| find(name.strip_suffix(op.name())?.strip_suffix('-')?);
    find(&name).or_else(|| Op::ALL.iter().find_map(without_op))
}
