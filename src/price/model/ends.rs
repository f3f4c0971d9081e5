//! The ends of the model: token embedding, and final norm with LM head and loss.

use super::KernelClass;
use super::blocks::{Block, LayerBuilder};
use super::item::{CommGroup, CommOp, CommPoint, Item, Kernel};
use super::layer::{LayerKind, LayerPlan};
use super::linear::{Linear, LinearSplit, products};
use super::shard::Shard;
use stepsim_spec::facts::facts;
use stepsim_spec::model::{ModelSpec, Positions};
use stepsim_spec::stack::FusedPart;
use stepsim_spec::workload::{Dtype, Fp8Gemm, KernelFusion};

impl LayerPlan {
    /// The token embedding, its table cut by rows of the vocabulary over tensor-parallel ranks.
    pub fn embedding(model: &ModelSpec, shard: &Shard) -> LayerPlan {
        let mut b = LayerBuilder::new(model, shard);
        b.parameters.dense = table(model, shard);
        if model.positions == Positions::Learned {
            b.parameters.dense += model.sequence * model.hidden;
        }
        lookup(&mut b);
        b.finish(LayerKind::Embedding)
    }

    /// A multi-token-prediction module: the stream and the embedding of the next token, each normalised, side by side
    /// through one projection; a layer like the last; the LM head once more (DeepSeek-V3, section 2.2). It shares the
    /// model's embedding and head: their tables are no parameters of the module; `holds_table` is true where the
    /// embedding is on another rank and this one holds a copy (Megatron-LM, language_module.py).
    pub fn prediction(model: &ModelSpec, shard: &Shard, holds_table: bool) -> LayerPlan {
        let layer = model.layer(model.layers.saturating_sub(1));
        let mut b = LayerBuilder::new(&layer, shard);
        b.parameters.dense += if holds_table { table(model, shard) } else { 0 };
        lookup(&mut b);
        b.norm("norm");
        b.norm("norm");
        let elements = 2 * shard.local_tokens() * model.hidden;
        let copy = |name| vec![shard.pass(KernelClass::Copy, name, elements, 2.0)];
        b.push(Block::of(copy("join with embedding"), copy("part gradients"), &[]));
        b.save_input("joined input", elements as f64 * shard.saved_input(Fp8Gemm::Projection), &[], &[]);
        let (h, gemm) = (model.hidden, Fp8Gemm::Projection);
        b.linear(Linear::new(products!("join projection"), 2 * h, h, LinearSplit::No, gemm));
        b.transformer(&layer);
        lm_head(&mut b);
        b.finish(LayerKind::Prediction)
    }

    /// Final norm, LM head and cross-entropy loss, the vocabulary cut over tensor-parallel ranks. Logits are kept in
    /// fp32 for the loss's gradient. A tied table is counted with the embedding; `holds_table` is true where this rank
    /// holds a copy of its own (the embedding is on another stage), which is not a parameter of the model.
    pub fn head(model: &ModelSpec, shard: &Shard, holds_table: bool) -> LayerPlan {
        let mut b = LayerBuilder::new(model, shard);
        lm_head(&mut b);
        let columns = model.vocabulary.div_ceil(shard.tensor);
        b.parameters.dense += if model.head_bias { columns } else { 0 };
        b.parameters.dense += if holds_table { columns * model.hidden } else { 0 };
        b.finish(LayerKind::Head)
    }
}

/// Parameters of a rank's part of the embedding table.
fn table(model: &ModelSpec, shard: &Shard) -> u64 {
    (model.vocabulary + model.extra_rows).div_ceil(shard.tensor) * model.hidden
}

/// Rows of the embedding table, and their gradients.
fn lookup(b: &mut LayerBuilder) {
    let (model, shard) = (b.model, b.shard);
    let t = shard.tokens();
    let elements = t * model.hidden;
    let moved = elements as f64 * shard.act();
    b.save_input("token ids", 8.0 * t as f64, &[], &[]);
    let local = (shard.local_tokens() * model.hidden) as f64;
    if model.dropout {
        b.save("dropout mask", local, &[], false);
    }
    let lookup = shard.stream_pass(KernelClass::Embedding, "embedding", elements, 2.0);
    // Reads the output gradient, reads and writes the rows of the table's gradient.
    let bytes = moved + 2.0 * elements as f64 * shard.gradient_bytes;
    let scatter = shard.elementwise(KernelClass::Embedding, "embedding weight gradient", elements, bytes);
    let (mut forward, mut backward) = (vec![lookup], Vec::new());
    if shard.tensor > 1 {
        let comm = |name, op| Item::Comm(CommPoint::new(name, CommGroup::Tensor, op, moved));
        if shard.sequence_parallel {
            forward.push(comm("reduce-scatter embedding", CommOp::ReduceScatter));
            backward.push(comm("all-gather embedding gradient", CommOp::AllGather));
        } else {
            forward.push(comm("all-reduce embedding", CommOp::AllReduce));
        }
    }
    if model.dropout {
        let bytes = local * (2.0 * shard.act() + 1.0);
        forward.push(shard.elementwise(KernelClass::Residual, "dropout", local as u64, bytes));
    }
    backward.push(scatter);
    if !shard.trained.weights() {
        backward.clear();
    }
    b.push(Block { forward, weight_grad: backward.clone(), backward, ..Block::default() });
}

/// Norm, LM head and loss; the table is not counted.
fn lm_head(b: &mut LayerBuilder) {
    let (model, shard) = (b.model, b.shard);
    b.norm("final norm");
    let t = shard.tokens();
    let columns = model.vocabulary.div_ceil(shard.tensor);
    let input = shard.kept_tokens() as f64 * model.hidden as f64 * shard.saved_input(Fp8Gemm::LmHead);
    b.save_input("LM head input", input, &[], &[]);
    let before = b.parameters.dense;
    b.output_share = if keeps_output(shard) { 0.0 } else { 1.0 / shard.loss.tiles as f64 };
    b.linear(Linear {
        biases: model.biases,
        ..Linear::new(products!("lm head"), model.hidden, columns, LinearSplit::Columns, Fp8Gemm::LmHead)
    });
    b.output_share = 1.0;
    b.parameters.dense = before;
    loss(b, t, columns);
}

/// True if the logits that are kept are the product's output itself.
fn keeps_output(shard: &Shard) -> bool {
    shard.loss.tiles == 1 && shard.loss.logits.bytes() <= shard.act()
}

/// Bytes for a logit that the loss holds at its peak beside those that are saved.
fn loss_workspace(shard: &Shard) -> f64 {
    let library = shard.has_kernel_of(FusedPart::Loss);
    match shard.fusion {
        // Hugging Face: beside the log-softmax that is saved, or the gradient that a library's kernel writes over the
        // shifted logits, the logits as the loss casts them, shifted ones, and the product's while the loss is called.
        _ if shard.copies_logits || shard.logits_stay => {
            let copies = if library { 1.0 } else { 2.0 };
            copies * shard.loss.logits.bytes() + if shard.logits_stay { shard.act() } else { 0.0 }
        }
        _ if library => 0.0,
        // torchtitan: PyTorch's cross_entropy backward, beside the log-softmax that is saved: nll_loss's gradient,
        // filled with zeros, and log_softmax's, both as wide as the logits and in fp32.
        KernelFusion::Compiled => 8.0,
        KernelFusion::None if shard.eager.contains(&FusedPart::Loss) => 8.0,
        // One kernel, which writes the gradient over the logits; so do many eager stacks (llm-foundry takes
        // flash-attn's).
        KernelFusion::Full | KernelFusion::None => 0.0,
        // Megatron-LM, megatron/core/tensor_parallel/cross_entropy.py: the 16-bit logits and their fp32 copy; the
        // exponential is written over that copy less its maximum, and saved. nanotron (tensor_parallel/functional.py)
        // subtracts the maximum out of place: 4 bytes more while it does, which are not in here.
        KernelFusion::Partial | KernelFusion::PartialAccumulating => 6.0,
    }
}

/// Bytes that the loss moves for a logit, forward and backward.
fn loss_bytes(shard: &Shard) -> [f64; 2] {
    let (narrow, wide) = (shard.act(), 4.0);
    match shard.fusion {
        // Hugging Face casts to fp32, and until 2025 copied all tokens but the last; backward the copy was put into
        // zeros; and cast back.
        _ if shard.copies_logits || shard.logits_stay => {
            let [ahead, back] = match shard.has_kernel_of(FusedPart::Loss) {
                true => [2.0 * wide, 2.0 * wide],
                false => *facts().cross_entropy,
            };
            let [copy, copy_back] = if shard.copies_logits { [2.0 * wide, 3.0 * wide] } else { [0.0; 2] };
            [narrow + wide + copy + ahead, back + copy_back + wide + narrow]
        }
        // The largest and the sum of exponentials; then the gradient is written over the logits.
        _ if shard.has_kernel_of(FusedPart::Loss) => [2.0 * narrow, 2.0 * narrow],
        KernelFusion::Full => [narrow + wide; 2],
        // Megatron-LM: cast, maximum, shift, exponential, sum and quotient; then product and cast back.
        KernelFusion::Partial | KernelFusion::PartialAccumulating => {
            [2.0 * narrow + 9.0 * wide, 3.0 * wide + narrow]
        }
        // PyTorch: cast, log-softmax; then the target's gradient, the softmax's, and a cast back.
        KernelFusion::Compiled | KernelFusion::None => [narrow + 3.0 * wide, 5.0 * wide + narrow],
    }
}

/// Where logits are tiled, each part is multiplied and summed again before its gradient; else they are kept. A kernel
/// of its own makes the gradient of each part at once and multiplies nothing again (Liger-Kernel,
/// ops/fused_linear_cross_entropy.py).
///
/// Cross-entropy: the largest logit, the target's logit and the sum of exponentials are summed over the vocabulary's
/// ranks (three all-reduces of one fp32 a token, here as one).
fn loss(b: &mut LayerBuilder, tokens: u64, columns: u64) {
    let s = b.shard;
    let logits = tokens as f64 * columns as f64;
    let kept = s.loss.logits.bytes() * logits;
    let tiled = s.loss.tiles > 1;
    if tiled {
        b.works_in((kept + loss_workspace(s) * logits) / s.loss.tiles as f64);
    } else {
        b.save("logits", kept, &[], false);
        b.works_in(loss_workspace(s) * logits);
    }
    let elements = logits as u64;
    let kernel = |name, bytes| {
        s.made(
            FusedPart::Loss,
            Item::Kernel(Kernel::elementwise(KernelClass::Loss, name, elements, bytes, Dtype::Fp32)),
        )
    };
    let [of_loss, of_gradient] = loss_bytes(s).map(|bytes| bytes * logits);
    let mut forward = vec![kernel("loss", of_loss)];
    if s.tensor > 1 {
        let bytes = 3.0 * 4.0 * tokens as f64;
        let sum = CommPoint::new("all-reduce loss", CommGroup::Tensor, CommOp::AllReduce, bytes);
        forward.push(Item::Comm(sum));
    }
    let kept_gradient = s.has_kernel_of(FusedPart::Loss);
    let again = if tiled && !kept_gradient { [b.last_forward(), &forward].concat() } else { Vec::new() };
    let backward = [again, vec![kernel("loss backward", of_gradient)]].concat();
    b.push(Block::of(forward, backward, &[]));
}
