//! How long a checkpoint takes: bytes over links.

use stepsim_price::model::trained_parameters;
use stepsim_simulate::Inputs;
use stepsim_spec::SpecError;
use stepsim_spec::reliability::{Checkpoint, CheckpointMode};

/// Times of one checkpoint in seconds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct CheckpointTimes {
    /// Bytes of it over all devices, where they are known.
    pub bytes: Option<f64>,
    /// Steps stand still for so long.
    #[serde(rename = "stall_s")]
    pub stall: f64,
    /// From then on until one can restart from it.
    #[serde(rename = "safe_after_s")]
    pub safe_after: f64,
}

impl CheckpointTimes {
    /// The stall is the copy of a writer's share to its host; storage takes the longer of the whole at its own rate
    /// and a share at a writer's. Synchronous, steps wait for both. A step and a machine say what the file leaves
    /// open.
    ///
    /// # Errors
    /// Neither the file nor the inputs say how much is written, or how fast.
    pub fn new(of: &Checkpoint, devices: u32, inputs: Option<&Inputs>) -> Result<CheckpointTimes, SpecError> {
        let bytes = of.total_gb.map(|gb| gb * 1e9).or_else(|| inputs.map(|i| state_bytes(of, i)));
        if let (Some(stall), Some(safe_after)) = (of.stall_s, of.safe_after_s) {
            return Ok(CheckpointTimes { bytes, stall, safe_after });
        }
        let needed = |what: &str, with: &str| {
            SpecError::at(
                format!("checkpoint.{what}"),
                "the time of a checkpoint does not follow from what is given",
            )
            .allowed(format!("{with}, or checkpoint.stall_s and checkpoint.safe_after_s"))
        };
        let whole = bytes.ok_or_else(|| needed("total_GB", "a workload, checkpoint.total_GB"))?;
        let share = whole / f64::from(devices);
        let host = of.host_gbps.or_else(|| inputs.and_then(host_rate));
        let to_host = match host {
            Some(gbps) => share / (gbps * 1e9),
            None if of.stall_s.is_some() => 0.0,
            None => {
                return Err(needed("host_GBps", "checkpoint.host_GBps, a machine whose nodes have hosts"));
            }
        };
        let storage_gbps =
            of.storage_gbps.ok_or_else(|| needed("storage_GBps", "checkpoint.storage_GBps"))?;
        let to_storage = whole / (storage_gbps * 1e9);
        let (stall, safe_after) = match of.mode {
            CheckpointMode::Synchronous => (to_host + to_storage, 0.0),
            CheckpointMode::Asynchronous => (to_host, to_storage),
        };
        let (stall, safe_after) = (of.stall_s.unwrap_or(stall), of.safe_after_s.unwrap_or(safe_after));
        Ok(CheckpointTimes { bytes, stall, safe_after })
    }
}

/// Bytes of master weights and moments of what is trained; of the weights too where they are asked for or where there
/// is no master copy. Frozen weights stay where they came from.
fn state_bytes(of: &Checkpoint, inputs: &Inputs) -> f64 {
    let workload = &inputs.workload.value;
    let state = workload.bytes_per_parameter();
    let weights = if of.weights || state.master == 0.0 { state.weights } else { 0.0 };
    let trained = trained_parameters(&inputs.model, workload);
    trained as f64 * (state.optimizer() + weights)
}

/// The rate of one device's copies to its host while its neighbours do the same, in 10⁹ B/s.
fn host_rate(inputs: &Inputs) -> Option<f64> {
    let host = inputs.topology.value.node.as_ref()?.host.as_ref()?;
    Some(host.link.gbps * host.link.efficiency / f64::from(host.link_shared_by))
}
