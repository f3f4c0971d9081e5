//! A layer on one rank: blocks put together forward, and in reverse for backward.

use super::KernelClass;
use super::casts::{Operands, Prepared};
use super::item::{CommGroup, CommOp, CommPoint, Item, Kernel};
use super::mlp::Mlp;
use super::shard::Shard;
use crate::moe::Exchange;
use crate::spec::model::{Mixer, MlpKind, ModelSpec, Norm};
use crate::spec::recipe::CastRole;
use crate::spec::workload::{ExpertOverlap, Fp8Gemm, Granularity, RecomputeModule, RecomputeSpec};

/// What one layer does on one rank for one micro-batch.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerPlan {
    /// What kind of layer it is.
    pub kind: LayerKind,
    /// The forward pass.
    pub forward: Vec<Item>,
    /// The gradient of the layer's input.
    pub input_grad: Vec<Item>,
    /// The gradient of its weights; needs what `input_grad` left behind.
    pub weight_grad: Vec<Item>,
    /// Both gradients in one pass, as implementations without zero-bubble schedules order them.
    pub backward: Vec<Item>,
    /// What forward keeps for backward where nothing is recomputed.
    pub saved: Vec<Saved>,
    /// Bytes of the layer's input on this rank: what full recomputation keeps, and what a pipeline border sends.
    pub boundary_bytes: u64,
    /// Bytes of short-lived tensors while one of its kernels runs, at most: gathered inputs, outputs and their
    /// gradients.
    pub workspace_bytes: u64,
    /// Bytes held between input gradient and weight gradient: saved GEMM inputs and gradients of GEMM outputs.
    pub weight_grad_bytes: u64,
    /// Weights of the layer on this rank.
    pub parameters: Parameters,
    /// Its weight matrices on this rank, for optimizers that work on whole ones.
    pub matrices: Vec<super::muon::Held>,
    /// Kernels that cast its weights once a step.
    pub weight_casts: Vec<Item>,
    /// Kernels of `weight_grad` that belong to what lies between dispatch and combine; they come first.
    pub expert_weight_grads: u32,
    modules: Vec<(Vec<RecomputeModule>, Vec<Item>)>,
    /// Blocks that hold dispatch and combine.
    between: Option<(usize, usize)>,
}

/// Kinds of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LayerKind {
    /// Token embedding, before the first transformer layer.
    Embedding,
    /// A transformer layer with a dense MLP.
    Dense,
    /// A transformer layer with experts.
    Moe,
    /// A multi-token-prediction module: a layer like the last with an embedding before and a head behind.
    Prediction,
    /// Final norm, LM head and loss, after the last transformer layer.
    Head,
}

/// Weights of one layer on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Weights that every data-parallel and context-parallel rank has alike.
    pub dense: u64,
    /// Weights of experts: alike only among ranks that hold the same experts.
    pub expert: u64,
}

impl Parameters {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.dense + self.expert
    }
}

/// A tensor that forward keeps for backward.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// What it is.
    pub name: &'static str,
    /// Its size on this rank in bytes.
    pub bytes: f64,
    /// Which recomputation makes it again.
    pub by: SavedBy,
    /// Whether a weight gradient reads it (the rest is freed after the input gradient).
    pub for_weight_grad: bool,
}

/// Which recomputation makes a saved tensor again, beside that of the whole layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedBy(pub Vec<RecomputeModule>);

impl LayerPlan {
    /// What is recomputed before this layer's backward under a policy, in order.
    ///
    /// Full recomputation repeats the whole forward, collectives included, as a checkpointed function does; with
    /// `every_layers` above 1 the planner repeats the layers since the last kept input.
    pub fn recompute(&self, policy: &RecomputeSpec) -> Vec<Item> {
        if policy.granularity == Granularity::Full && self.is_transformer() {
            return self.forward.clone();
        }
        let repeated = self.repeated_modules(policy);
        let hit = |m: &Vec<RecomputeModule>| m.iter().any(|x| repeated.contains(x));
        self.modules.iter().filter(|(m, _)| hit(m)).flat_map(|(_, items)| items.clone()).collect()
    }
    /// What is recomputed before this layer's backward under a policy, module by module: for the part before the
    /// dispatch (and behind the combine), and for that of the experts.
    pub fn recompute_parts(&self, policy: &RecomputeSpec) -> (Vec<Item>, Vec<Item>) {
        let repeated = self.repeated_modules(policy);
        let hit = |m: &Vec<RecomputeModule>| m.iter().any(|x| repeated.contains(x));
        let (mut rest, mut experts) = (Vec::new(), Vec::new());
        for (block, (modules, items)) in self.modules.iter().enumerate() {
            let between = self.between.is_some_and(|(first, last)| (first..=last).contains(&block));
            if hit(modules) {
                if between { &mut experts } else { &mut rest }.extend(items.iter().cloned());
            }
        }
        (rest, experts)
    }
    /// Bytes kept from forward to backward under a policy.
    pub fn saved_bytes(&self, policy: &RecomputeSpec) -> u64 {
        if policy.granularity == Granularity::Full && self.is_transformer() {
            return self.boundary_bytes;
        }
        let repeated = self.repeated_modules(policy);
        let kept = self.saved.iter().filter(|s| !s.by.0.iter().any(|m| repeated.contains(m)));
        kept.map(|s| s.bytes).sum::<f64>().round() as u64
    }
    /// Bytes kept from forward to backward where nothing is recomputed; also what lives while the layer is recomputed
    /// in full.
    pub fn all_saved_bytes(&self) -> u64 {
        self.saved.iter().map(|s| s.bytes).sum::<f64>().round() as u64
    }
    /// FLOPs on matrix units of a list.
    pub fn flops(items: &[Item]) -> f64 {
        items.iter().filter_map(Item::kernel).map(|k| k.flops).sum()
    }

    /// The parts that a policy repeats one by one.
    fn repeated_modules(&self, policy: &RecomputeSpec) -> Vec<RecomputeModule> {
        match policy.granularity {
            Granularity::None | Granularity::Full => Vec::new(),
            Granularity::Selective => vec![RecomputeModule::AttentionCore],
            Granularity::Modules => policy.modules.clone(),
        }
    }
    /// Whether it is a transformer layer of the model.
    pub fn is_transformer(&self) -> bool {
        matches!(self.kind, LayerKind::Dense | LayerKind::Moe)
    }

    /// A layer, of the model as that layer sees it ([`ModelSpec::layer`]).
    pub fn transformer(layer: &ModelSpec, shard: &Shard) -> LayerPlan {
        let mut blocks = Blocks::new(layer, shard);
        blocks.transformer(layer);
        let kind = if layer.moe.is_some() { LayerKind::Moe } else { LayerKind::Dense };
        LayerPlan { matrices: super::muon::held(layer, shard), ..blocks.finish(kind) }
    }
}

impl Blocks<'_> {
    /// Adds a transformer layer.
    pub(super) fn transformer(&mut self, layer: &ModelSpec) {
        let blocks = self;
        let (mixes, has_mlp) = (layer.mixer != Mixer::None, layer.mlp != MlpKind::None);
        // Norms beyond one before each part stand behind the parts.
        let parts = u64::from(mixes) + u64::from(has_mlp);
        let norms_behind = layer.norms() > parts;
        let behind = |blocks: &mut Blocks| {
            if norms_behind {
                blocks.norm("norm");
            }
        };
        if mixes {
            blocks.norm("norm");
            match layer.mixer {
                Mixer::Attention => super::attention::add(blocks),
                _ => super::scan::add(blocks),
            }
            behind(blocks);
        }
        if mixes && has_mlp && !layer.parallel_block {
            blocks.residual("residual");
        }
        if has_mlp {
            if !(mixes && layer.parallel_block) {
                blocks.norm("norm");
            }
            match &layer.moe {
                Some(moe) => super::moe::add(blocks, moe),
                None => {
                    let modules = &[RecomputeModule::Mlp];
                    let mlp =
                        Mlp { name: "mlp", ffn: layer.ffn, gemm: Fp8Gemm::Mlp, modules, own_input: true };
                    mlp.add(blocks);
                }
            }
            behind(blocks);
        }
        blocks.residual("residual");
    }
}

/// One step of a layer with its backward; blocks are undone in reverse.
#[derive(Default)]
pub(super) struct Block {
    pub(super) forward: Vec<Item>,
    pub(super) input_grad: Vec<Item>,
    pub(super) weight_grad: Vec<Item>,
    pub(super) backward: Vec<Item>,
    pub(super) modules: Vec<RecomputeModule>,
}

/// A layer under construction.
pub(super) struct Blocks<'a> {
    pub(super) model: &'a ModelSpec,
    pub(super) shard: &'a Shard,
    pub(super) parameters: Parameters,
    pub(super) weight_casts: Vec<Item>,
    blocks: Vec<Block>,
    saved: Vec<Saved>,
    gradients: f64,
    widest: f64,
}

/// How a linear layer meets tensor parallelism.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// Output columns are cut: the input is gathered (or its gradient summed).
    Columns,
    /// Inner products are cut: the output is summed.
    Rows,
    /// The same as `Rows`, but another layer's communication sums the output too.
    RowsUnsummed,
    /// The same as `Columns`, on an input that another layer has gathered.
    ColumnsGathered,
    /// Not cut: the same weights on all ranks, each on its own tokens.
    No,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(model: &'a ModelSpec, shard: &'a Shard) -> Self {
        Blocks {
            model,
            shard,
            parameters: Parameters::default(),
            weight_casts: Vec::new(),
            blocks: Vec::new(),
            saved: Vec::new(),
            gradients: 0.0,
            widest: 0.0,
        }
    }
    pub(super) fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }
    /// Notes a tensor kept for backward.
    pub(super) fn save(
        &mut self,
        name: &'static str,
        bytes: f64,
        by: &[RecomputeModule],
        for_weight_grad: bool,
    ) {
        self.saved.push(Saved { name, bytes, by: SavedBy(by.to_vec()), for_weight_grad });
    }
    /// Notes a GEMM's input and output, in bytes, for the workspace, and the gradient of its output as a delayed
    /// weight gradient reads it.
    pub(super) fn note_gemm(&mut self, input: f64, output: f64, gradient: f64) {
        self.gradients += gradient;
        self.widest = self.widest.max(input + output);
    }

    /// A normalisation of the residual stream: input kept; its output is kept by the GEMM that reads it.
    pub(super) fn norm(&mut self, name: &'static str) {
        let (m, s) = (self.model, self.shard);
        let elements = s.local_tokens() * m.hidden;
        let (e, act) = (elements as f64, s.act());
        self.save("norm input", e * act, &[], false);
        self.parameters.dense += super::parameters::norm(m, m.hidden);
        let forward = Kernel::elementwise(KernelClass::Norm, name, elements, 2.0 * e * act, s.compute);
        let pass =
            |class, name, bytes| Item::Kernel(Kernel::elementwise(class, name, elements, bytes, s.compute));
        let of_norm = match m.norm {
            Norm::Rms => KernelClass::NormBackward,
            Norm::Layer | Norm::LayerNoBias | Norm::Plain => KernelClass::LayerNormBackward,
        };
        let backward = if s.fuses_gradients() {
            // Reads input, gradient and the gradient that came through the residual; writes their sum.
            vec![pass(of_norm, "norm backward", 4.0 * e * act)]
        } else {
            vec![
                pass(of_norm, "norm backward", 3.0 * e * act),
                pass(KernelClass::Reduction, "norm weight gradient", 2.0 * e * act),
                pass(KernelClass::Residual, "add gradients", 3.0 * e * act),
            ]
        };
        self.push(Block {
            forward: vec![Item::Kernel(forward)],
            input_grad: backward.clone(),
            backward,
            modules: vec![RecomputeModule::Norm],
            ..Block::default()
        });
    }
    /// The gradient of a tensor that `branches` layers read: their gradients added up.
    pub(super) fn sum_of_branches(&mut self, branches: u64) {
        let s = self.shard;
        let elements = s.local_tokens() * self.model.hidden;
        let bytes = 3.0 * elements as f64 * s.act();
        let sum = Kernel::elementwise(KernelClass::Residual, "add gradients", elements, bytes, s.compute);
        let sums: Vec<Item> = (1..branches).map(|_| Item::Kernel(sum)).collect();
        self.push(Block { input_grad: sums.clone(), backward: sums, ..Block::default() });
    }
    /// Dropout and the addition to the residual stream, fused.
    pub(super) fn residual(&mut self, name: &'static str) {
        let (m, s) = (self.model, self.shard);
        let elements = s.local_tokens() * m.hidden;
        let (e, act) = (elements as f64, s.act());
        let mask = if m.dropout { e } else { 0.0 };
        let pass = |name, bytes| {
            Item::Kernel(Kernel::elementwise(KernelClass::Residual, name, elements, bytes, s.compute))
        };
        let forward = if m.dropout && !s.fuses_chains() {
            vec![pass("dropout", 2.0 * e * act + mask), pass(name, 3.0 * e * act)]
        } else {
            vec![pass(name, 3.0 * e * act + mask)]
        };
        let mut block = Block { forward, ..Block::default() };
        if m.dropout {
            self.save("dropout mask", mask, &[], false);
            let back = Kernel::elementwise(
                KernelClass::Residual,
                "dropout backward",
                elements,
                2.0 * e * act + mask,
                s.compute,
            );
            block.input_grad = vec![Item::Kernel(back)];
            block.backward = block.input_grad.clone();
        }
        self.push(block);
    }
    /// A linear layer of `inputs`×`outputs` weights on this rank, with its tensor-parallel communication.
    pub(super) fn linear(&mut self, l: Linear) {
        let s = self.shard;
        let tokens = if l.cut == Cut::No { s.local_tokens() } else { s.tokens() };
        let (inputs, outputs) = (l.inputs, l.outputs);
        let t = tokens as f64;
        let dtype = s.gemm_dtype(l.gemm);
        let scaling = s.scaling(dtype);
        let forward = Kernel::gemm(l.name, tokens, outputs, inputs, 1, dtype, s.act()).scaled(scaling);
        let input_grad = Kernel::gemm(l.grad_names[0], tokens, inputs, outputs, 1, dtype, s.act())
            .of(KernelClass::GemmInputGrad)
            .scaled(scaling);
        let wdtype = s.weight_gradient_dtype(l.gemm);
        let weight_grad = if s.fuses_accumulation() {
            Kernel::weight_gradient(l.grad_names[1], outputs, inputs, tokens, wdtype, s.gradient_bytes)
        } else {
            Kernel::gemm(l.grad_names[1], outputs, inputs, tokens, 1, wdtype, s.act())
                .of(KernelClass::GemmWeightGrad)
        }
        .scaled(s.scaling(wdtype));
        self.parameters.dense += inputs * outputs + if l.biases { outputs } else { 0 };
        let output = t * outputs as f64;
        self.note_gemm(t * inputs as f64 * s.act(), output * s.act(), output * wdtype.bytes());
        let prepared = self.prepare(&l, tokens);
        let gathered = t * inputs as f64;
        let (f, i, w, b) = match l.cut {
            Cut::Columns if s.tensor > 1 => self.columns(forward, input_grad, weight_grad, gathered, l.gemm),
            Cut::Rows if s.tensor > 1 => {
                self.rows(forward, input_grad, weight_grad, t * outputs as f64, l.gemm)
            }
            Cut::ColumnsGathered if s.sequence_parallel => {
                // The sum of the input gradient is that of the layer which gathered; the saved shard is gathered
                // anew for this weight gradient.
                let (_, _, w, b) = self.columns(forward, input_grad, weight_grad, gathered, l.gemm);
                let b =
                    b.into_iter().filter(|i| i.comm().is_none_or(|c| c.op == CommOp::AllGather)).collect();
                (vec![Item::Kernel(forward)], vec![Item::Kernel(input_grad)], w, b)
            }
            _ => (
                vec![Item::Kernel(forward)],
                vec![Item::Kernel(input_grad)],
                vec![Item::Kernel(weight_grad)],
                vec![Item::Kernel(input_grad), Item::Kernel(weight_grad)],
            ),
        };
        let (sums, bias) = self.unfused_gradients(&l, tokens);
        let behind = |items: Passed, name: &str, more: &[&Passed]| -> Passed {
            let made = |i: &Item| i.kernel().is_some_and(|k| k.name == name);
            let more = more.iter().flat_map(|items| items.iter().cloned());
            items
                .into_iter()
                .flat_map(
                    |i| if made(&i) { std::iter::once(i).chain(more.clone()).collect() } else { vec![i] },
                )
                .collect()
        };
        let [input, weight] = l.grad_names;
        let modules = l.modules.to_vec();
        let input_grad = behind(i, input, &[&bias]);
        let weight_grad = behind(w, weight, &[&sums]);
        let backward = behind(b, weight, &[&sums, &bias]);
        let after = |prepared: &[&Passed], items: Passed| -> Passed {
            prepared.iter().flat_map(|p| p.iter().cloned()).chain(items).collect()
        };
        self.weight_casts.extend(prepared.per_step);
        self.push(Block {
            forward: after(&[&prepared.forward], f),
            input_grad: after(&[&prepared.input_grad], input_grad),
            backward: after(&[&prepared.input_grad, &prepared.weight_grad], backward),
            weight_grad: after(&[&prepared.weight_grad], weight_grad),
            modules,
        });
    }
    /// What casts the operands of a linear layer.
    fn prepare(&self, l: &Linear, tokens: u64) -> Prepared {
        let s = self.shard;
        let share = |width: u64, cut: bool| {
            let cut = cut && s.sequence_parallel && s.tensor > 1;
            [width * if cut { s.local_tokens() } else { tokens }, width * tokens]
        };
        let columns = matches!(l.cut, Cut::Columns | Cut::ColumnsGathered);
        let rows = matches!(l.cut, Cut::Rows | Cut::RowsUnsummed);
        let of = Operands {
            input: share(l.inputs, columns),
            gradient: share(l.outputs, rows),
            weights: l.inputs * l.outputs,
            groups: 1,
            grouped: false,
        };
        let cut = |operand: [u64; 2]| operand[0] < operand[1];
        let input = if cut(of.input) { CastRole::InputGathered } else { super::casts::input_role(l.name) };
        let gradient =
            if cut(of.gradient) { CastRole::OutputGradientGathered } else { CastRole::OutputGradient };
        s.casts(l.gemm, [input, gradient], &of)
    }
    /// What follows a weight gradient that is not added up where it is made: its sum with the gradients of the
    /// micro-batches before; and the sum over tokens for the bias, which is not put off where weight gradients are
    /// (the zero-bubble authors' store of delayed work takes products alone).
    fn unfused_gradients(&self, l: &Linear, tokens: u64) -> (Passed, Passed) {
        let s = self.shard;
        if s.fuses_gradients() {
            return (Vec::new(), Vec::new());
        }
        let weights = l.inputs * l.outputs;
        let bytes = weights as f64 * (s.act() + 2.0 * s.gradient_bytes);
        let sums =
            Kernel::elementwise(KernelClass::Accumulate, "accumulate gradient", weights, bytes, s.compute);
        let elements = tokens * l.outputs;
        let bias = Kernel::elementwise(
            KernelClass::Reduction,
            "bias gradient",
            elements,
            elements as f64 * s.act(),
            s.compute,
        );
        let only = |kernel: Kernel, when: bool| when.then_some(Item::Kernel(kernel)).into_iter().collect();
        (only(sums, !s.fuses_accumulation()), only(bias, l.biases))
    }
    /// Column-cut: gather the input before; sum its gradient after, beside the weight gradient.
    fn columns(
        &self,
        forward: Kernel,
        input_grad: Kernel,
        weight_grad: Kernel,
        gathered: f64,
        gemm: Fp8Gemm,
    ) -> Passes {
        let s = self.shard;
        let (fwd, igrad, wgrad) =
            (Item::Kernel(forward), Item::Kernel(input_grad), Item::Kernel(weight_grad));
        let tensor = |name, op, bytes| CommPoint::new(name, CommGroup::Tensor, op, bytes);
        let gather = tensor("all-gather input", CommOp::AllGather, gathered * s.gathered_input(gemm));
        if s.sequence_parallel {
            let again = CommPoint { name: "all-gather saved input", ..gather };
            let scatter = tensor("reduce-scatter input gradient", CommOp::ReduceScatter, gathered * s.act());
            (
                vec![Item::Comm(gather), fwd],
                vec![igrad.clone(), Item::Comm(scatter)],
                vec![Item::Comm(again), wgrad.clone()],
                vec![Item::Comm(again.behind(1)), igrad, Item::Comm(scatter.behind(1)), wgrad],
            )
        } else {
            let sum = tensor("all-reduce input gradient", CommOp::AllReduce, gathered * s.act());
            (
                vec![fwd],
                vec![igrad.clone(), Item::Comm(sum)],
                vec![wgrad.clone()],
                vec![igrad, Item::Comm(sum.behind(1)), wgrad],
            )
        }
    }
    /// Row-cut: sum the output after; gather its gradient before.
    fn rows(
        &self,
        forward: Kernel,
        input_grad: Kernel,
        weight_grad: Kernel,
        output: f64,
        gemm: Fp8Gemm,
    ) -> Passes {
        let s = self.shard;
        let (fwd, igrad, wgrad) =
            (Item::Kernel(forward), Item::Kernel(input_grad), Item::Kernel(weight_grad));
        let tensor = |name, op, bytes| Item::Comm(CommPoint::new(name, CommGroup::Tensor, op, bytes));
        if s.sequence_parallel {
            let scatter = tensor("reduce-scatter output", CommOp::ReduceScatter, output * s.act());
            let gathered = output * s.gathered_gradient(gemm);
            let gather = tensor("all-gather output gradient", CommOp::AllGather, gathered);
            (
                vec![fwd, scatter],
                vec![gather.clone(), igrad.clone()],
                vec![wgrad.clone()],
                vec![gather, igrad, wgrad],
            )
        } else {
            let sum = tensor("all-reduce output", CommOp::AllReduce, output * s.act());
            (vec![fwd, sum], vec![igrad.clone()], vec![wgrad.clone()], vec![igrad, wgrad])
        }
    }

    pub(super) fn finish(self, kind: LayerKind) -> LayerPlan {
        let collect = |pick: fn(&Block) -> &Vec<Item>, reverse: bool| -> Vec<Item> {
            let mut order: Vec<&Block> = self.blocks.iter().collect();
            if reverse {
                order.reverse();
            }
            order.into_iter().flat_map(|b| pick(b).clone()).collect()
        };
        let beside_shared = |items: Vec<Item>| match self.shard.expert_overlap {
            ExpertOverlap::SharedExpert => super::moe::beside_shared(items),
            _ => items,
        };
        let for_weight_grad: f64 = self.saved.iter().filter(|s| s.for_weight_grad).map(|s| s.bytes).sum();
        let holds = |wanted: Exchange| {
            let is = |i: &Item| i.comm().is_some_and(|c| c.exchange == Some(wanted));
            self.blocks.iter().position(|b| b.forward.iter().any(is))
        };
        let between = holds(Exchange::Dispatch).zip(holds(Exchange::Combine));
        let kernels = |blocks: &[Block]| {
            blocks.iter().flat_map(|b| &b.weight_grad).filter(|i| i.kernel().is_some()).count() as u32
        };
        LayerPlan {
            matrices: Vec::new(),
            expert_weight_grads: between.map_or(0, |(first, _)| kernels(&self.blocks[first..])),
            between,
            kind,
            forward: beside_shared(collect(|b| &b.forward, false)),
            input_grad: beside_shared(collect(|b| &b.input_grad, true)),
            weight_grad: gather_ahead(collect(|b| &b.weight_grad, true)),
            backward: beside_shared(collect(|b| &b.backward, true)),
            boundary_bytes: self.shard.boundary_bytes(self.model).round() as u64,
            workspace_bytes: self.widest.round() as u64,
            weight_grad_bytes: (for_weight_grad + self.gradients).round() as u64,
            parameters: self.parameters,
            weight_casts: self.weight_casts,
            saved: self.saved,
            modules: self.blocks.into_iter().map(|b| (b.modules, b.forward)).collect(),
        }
    }
}

/// Lists of one block: forward, input gradient, weight gradient, fused backward.
pub(super) type Passes = (Passed, Passed, Passed, Passed);
type Passed = Vec<Item>;

/// A linear layer on one rank.
pub(super) struct Linear {
    pub(super) name: &'static str,
    /// Names of the input-gradient and weight-gradient kernels.
    pub(super) grad_names: [&'static str; 2],
    /// Input width on this rank.
    pub(super) inputs: u64,
    /// Output width on this rank.
    pub(super) outputs: u64,
    pub(super) cut: Cut,
    pub(super) biases: bool,
    pub(super) gemm: Fp8Gemm,
    pub(super) modules: &'static [RecomputeModule],
}

/// Issues every all-gather of a weight-gradient list one kernel earlier, so that it hides behind that kernel.
fn gather_ahead(mut items: Vec<Item>) -> Vec<Item> {
    for i in 1..items.len() {
        let after_kernel = items[i - 1].kernel().is_some();
        if let Item::Comm(c) = &mut items[i]
            && after_kernel
        {
            c.hidden_behind += 1;
            items.swap(i - 1, i);
        }
    }
    items
}
