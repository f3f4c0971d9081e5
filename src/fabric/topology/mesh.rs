//! The axes of a machine by name.

use super::{Machine, ScaleUpShape};
use stepsim_core::ids::DeviceId;

/// The axes of a machine by name; the first varies fastest with the device's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh(pub Vec<(char, u32)>);

/// Names of axes, in order.
const NAMES: [char; 7] = ['X', 'Y', 'Z', 'W', 'V', 'T', 'S'];

impl Mesh {
    /// The machine's own axes: the axes of its torus, or the devices of a node; then the nodes.
    pub fn of(machine: &Machine) -> Mesh {
        let fabric = machine.fabric();
        let mut lengths = match &fabric.scale_up {
            ScaleUpShape::Torus { dims, .. } => dims.clone(),
            _ => vec![fabric.node_size],
        };
        if fabric.nodes > 1 {
            lengths.push(fabric.nodes);
        }
        Mesh(NAMES.into_iter().zip(lengths).collect())
    }
    /// Their names.
    pub fn axes(&self) -> Vec<char> {
        self.0.iter().map(|axis| axis.0).collect()
    }
    /// Devices of the mesh.
    pub fn size(&self) -> u32 {
        self.0.iter().map(|axis| axis.1).product()
    }
    /// The groups of devices that differ in these axes alone.
    pub fn groups(&self, axes: &[char]) -> Vec<Vec<DeviceId>> {
        let mut groups: Vec<Vec<DeviceId>> = Vec::new();
        let mut group_of = std::collections::BTreeMap::new();
        for device in 0..self.size() {
            let mut rest = device;
            let mut others = Vec::new();
            for (name, length) in &self.0 {
                if !axes.contains(name) {
                    others.push(rest % length);
                }
                rest /= length;
            }
            let group = *group_of.entry(others).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(DeviceId(device));
        }
        groups
    }
}
