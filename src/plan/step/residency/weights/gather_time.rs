//! How long a gather of weights lasts, in closed form.

use super::super::PolicyInputs;
use crate::step::groups::Group;
use crate::step::unit::Unit;
use stepsim_fabric::collective::{CollectiveError, Op};

/// Closed form: seconds to gather this many bytes of a unit's weights for a forward or a backward pass. Its experts'
/// groups have a stream of their own, so that both gathers run at once.
pub(super) fn gather_time(
    given: &PolicyInputs<'_>,
    unit: &Unit,
    (dense, expert): (u64, u64),
    backward: bool,
) -> Result<f64, CollectiveError> {
    let time = |group, bytes: u64| {
        let bytes = bytes as f64;
        let pieces =
            given.shares.gathered_in(unit, matches!(group, Group::Experts(_)), bytes.round() as u64) as f64;
        Ok::<_, CollectiveError>(pieces * given.links.collective(group, Op::AllGather, bytes / pieces)?)
    };
    let [of_dense, of_experts] = given.shares.gather_groups(backward);
    Ok(time(of_dense, dense)?.max(time(of_experts, expert)?))
}
