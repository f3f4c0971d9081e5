//! The paths of a communicator in steps: the sender and the receiver of each message of a pattern.

use super::error::CollectiveError;
use super::lowering::Lowering;
use super::pattern::Pattern;
use super::probe::measure;
use stepsim_core::ids::{DeviceId, TransferId};

/// A route of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteEnds {
    /// The pattern.
    pub pattern: Pattern,
    /// Whose bytes they are.
    pub from: DeviceId,
    /// Who gets them; of sums and copies in a switch, the same device.
    pub to: DeviceId,
}

impl Lowering<'_> {
    /// For each path of a communicator that was lowered in steps among `devices`, the route that it is; the first,
    /// which crosses nothing, is none. Empty for channels and lone ranks.
    ///
    /// # Errors
    /// As [`Lowering::comm`].
    pub fn sent(
        &self,
        profile: u32,
        transfer: TransferId,
        devices: &[DeviceId],
    ) -> Result<Vec<Option<RouteEnds>>, CollectiveError> {
        let Some(plan) = self.plan_of(profile, transfer) else { return Ok(Vec::new()) };
        let layout = measure(self.net, &self.fabric, devices).map_err(CollectiveError::NotConnected)?;
        let mut sent = vec![None];
        for &pattern in &plan.patterns {
            pattern.routes(&plan.geometry, &mut |route, _| {
                let at = |position: u32| layout.devices[position as usize];
                sent.push(Some(RouteEnds { pattern, from: at(route.sender()), to: at(route.receiver()) }));
            });
        }
        Ok(sent)
    }
}
