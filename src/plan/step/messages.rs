//! The messages over the borders between stages: activations of the language model, and in front of it the output of
//! an encoder on stages of its own. Where layers behind a border attend to images, the image tokens cross it too,
//! whole on each rank, and their gradients come back where something in front of the language model is trained.

use super::unit::Unit;
use stepsim_core::ids::TransferId;
use stepsim_fabric::collective::{Lowering, Op, Transfer};
use stepsim_price::model::{ModuleShard, Shard};
use stepsim_schedule::Data;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{ModuleDevices, WorkloadSpec};

/// The transfers of one rank over the border behind a stage, either way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Border {
    /// Bytes of the activations, and of the gradients that come back.
    whole: [f64; 2],
    /// Tensor-parallel ranks that send a piece each; 1: each sends its own, whole.
    pieces: u64,
    /// Bytes that tensor-parallel ranks put together from what they receive, either way.
    gathered: [f64; 2],
    /// Messages of a micro-batch that a rank before the border has, and one behind it.
    fans: [u32; 2],
}

impl Border {
    /// Bytes of a message.
    pub fn message(&self, data: Data) -> f64 {
        self.whole[data as usize] / self.pieces as f64
    }
    /// The same as the program has it.
    pub(super) fn message_bytes(&self, data: Data) -> u64 {
        self.whole[data as usize].round() as u64 / self.pieces
    }
    /// Bytes that tensor-parallel ranks put together from their pieces; none where messages come whole.
    pub fn gathered(&self, data: Data) -> f64 {
        self.gathered[data as usize]
    }
    /// Messages of a micro-batch that pass one rank, one after the other: the most that a rank on either side has.
    pub fn in_turn(&self) -> u32 {
        self.fans[0].max(self.fans[1])
    }
    /// The same for the rank that sends, and the one that receives.
    pub(super) fn fans(&self, data: Data) -> [u32; 2] {
        let [before, behind] = self.fans;
        match data {
            Data::Activations => [before, behind],
            Data::Gradients => [behind, before],
        }
    }
    /// Between stages of one grid: each rank has one message, of activations and of the image tokens that layers
    /// behind read; gradients of either come back or not.
    fn inside(bytes: [f64; 2], pieces: u64, gradients: [bool; 2]) -> Border {
        let back = [0, 1].map(|of| if gradients[of] { bytes[of] } else { 0.0 });
        let whole = [bytes[0] + bytes[1], back[0] + back[1]];
        let gathered = if pieces > 1 { whole } else { [0.0; 2] };
        Border { whole, pieces, gathered, fans: [1; 2] }
    }
    /// Behind the activations of each micro-batch go a reference model's.
    fn twice_forward(mut self) -> Border {
        self.whole[0] *= 2.0;
        self.gathered[0] *= 2.0;
        self
    }
    /// Behind a module on devices of its own. Ranks of the language model have other tokens each, which they gather
    /// with their layers; tensor-parallel ranks of the module have the same, send a part each, and put together the
    /// parts of the gradients.
    fn apart(module: &ModuleShard<'_>, own: ModuleDevices, stage: u64, gradients: bool) -> Border {
        let [arriving, encoded] = module.bytes_apart();
        let fans = [stage / own.ranks().max(1), own.ranks() / stage.max(1)].map(|ranks| ranks.max(1) as u32);
        let message = arriving / f64::from(fans[1]);
        let trained = |bytes: f64| if gradients { bytes } else { 0.0 };
        let gathered = if own.tensor > 1 { trained(encoded) } else { 0.0 };
        Border { whole: [message, trained(message)], pieces: 1, gathered: [0.0, gathered], fans }
    }
}

/// The borders of a step with the transfers that carry their messages.
pub(super) struct Messages {
    borders: Vec<Border>,
    /// By border: of activations, and of gradients.
    transfers: Vec<[TransferId; 2]>,
    /// Between the first stage and the ranks that hold an encoder beside their stages.
    side: Option<(Border, [TransferId; 2])>,
}

impl Messages {
    pub fn new(borders: Vec<Border>, side: Option<Border>, lowering: &mut Lowering<'_>) -> Messages {
        let mut transfer = |border: &Border, data| {
            lowering.transfer(Transfer::new(Op::SendRecv, border.message_bytes(data)))
        };
        let mut of =
            |border: &Border| [Data::Activations, Data::Gradients].map(|data| transfer(border, data));
        let transfers = borders.iter().map(&mut of).collect();
        let side = side.map(|border| (border, of(&border)));
        Messages { borders, transfers, side }
    }
    /// The transfer of a message over the border behind a stage, and its bytes.
    pub fn of(&self, stage: u32, data: Data) -> (TransferId, u64) {
        let border = stage as usize;
        (self.transfers[border][data as usize], self.borders[border].message_bytes(data))
    }
    /// The same between the first stage and a rank that encodes its images.
    pub fn of_side(&self, data: Data) -> Option<(TransferId, u64)> {
        self.side.map(|(border, transfers)| (transfers[data as usize], border.message_bytes(data)))
    }
    /// How many messages of a micro-batch a sending and a receiving rank have.
    pub fn fans(&self, stage: u32, data: Data) -> [u32; 2] {
        self.borders[stage as usize].fans(data)
    }
    /// Bytes that are gathered of a message over the border behind a stage, where it comes in pieces.
    pub fn gathered(&self, stage: u32, data: Data) -> Option<u64> {
        let bytes = self.borders[stage as usize].gathered(data).round() as u64;
        (bytes > 0).then_some(bytes)
    }
    /// Each transfer once.
    pub fn transfers(&self) -> Vec<TransferId> {
        let mut all: Vec<TransferId> =
            self.transfers.iter().chain(self.side.iter().map(|side| &side.1)).flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The border behind each stage but the last. Messages have room for the micro-batch with most images; no gradients go
/// to stages that train nothing.
pub fn borders(
    workload: &WorkloadSpec,
    model: &ModelSpec,
    shard: &Shard,
    stages: &[Vec<Unit>],
) -> Vec<Border> {
    let stages = &stages[..stages.len() - workload.side_ranks()];
    let own = workload.module_stages() as usize;
    let module = staged(workload, model, shard);
    let cut = workload.parallelism.pipeline.scatter_gather;
    let pieces = |alike: u64| if cut { alike } else { 1 };
    let data = workload.parallelism.data.unwrap_or(1);
    let stage = workload.parallelism.tensor * workload.parallelism.context.size * data;
    let trained = |units: &Vec<Unit>| units.iter().any(|u| u.plan.has_backward());
    let beside = workload.side_ranks() > 0 && workload.trains_modules();
    let first_trained = if beside { Some(0) } else { stages.iter().position(trained) };
    let images_behind = |behind: usize| {
        let units = stages.iter().skip(behind + 1).flatten();
        units.map(|unit| unit.plan.image_bytes).max().unwrap_or(0) as f64
    };
    let border = |behind: usize| {
        let gradients = first_trained.is_some_and(|first| first <= behind);
        if let (Some(module), Some(own), 0) = (&module, workload.module_devices(), behind) {
            return Border::apart(module, own, stage, gradients);
        }
        let (bytes, alike) = match &module {
            Some(module) if behind < own => (module.bytes_behind(behind, own), module.alike()),
            _ => (shard.boundary_bytes(model), if shard.sequence_parallel { 1 } else { shard.tensor }),
        };
        let images = if behind < own { 0.0 } else { images_behind(behind) };
        let border =
            Border::inside([bytes, images], pieces(alike), [gradients, gradients && shard.image_gradients]);
        if workload.training.reference { border.twice_forward() } else { border }
    };
    (0..stages.len().saturating_sub(1)).map(border).collect()
}

/// The border between the first stage and each rank that encodes its images, where ranks hold a module beside their
/// stages.
pub fn side_border(workload: &WorkloadSpec, model: &ModelSpec) -> Option<Border> {
    let module = workload.module_in_bubbles(model)?;
    let bytes = ModuleShard::new(workload, model, module, None).bytes_behind(0, 1);
    Some(Border::inside([bytes, 0.0], 1, [module.is_trained(); 2]))
}

/// The module that has stages of its own.
fn staged<'m>(workload: &'m WorkloadSpec, model: &'m ModelSpec, shard: &Shard) -> Option<ModuleShard<'m>> {
    let used = workload.used_modules(model);
    let (number, module) = used.into_iter().enumerate().find(|(_, m)| m.usage.own_stages().is_some())?;
    let images = shard.images.as_ref().and_then(|all| all.get(number).copied());
    Some(ModuleShard::new(workload, model, module, images))
}
