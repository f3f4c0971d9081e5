//! Measured kernels against their prices: rows of a JSON-lines file, each priced as the kernel that it times.
//!
//! A row names its device, its `op` and the sizes that the op goes by; columns that do not matter here are ignored:
//!
//! | `op` | sizes |
//! |---|---|
//! | `gemm` | `m`, `n`, `k`; `direction` `fwd`, `bwd (input grad)`, `bwd (weight grad)`; `accumulate`; `out_dtype` |
//! | `grouped_gemm` | the same, a group's, and `groups` |
//! | `attention` | `batch`, `seq`, `heads`, `kv_heads`, `head_dim`, `v_head_dim`, `causal`; `direction` `fwd`, `bwd` |
//! | `rms_norm`, `layer_norm`, `swiglu`, `residual_add`, `rope`, `quantize` … | `m` rows and `n` columns; `direction` |
//!
//! and gives its time as `time_ms`, or as `tflops` over the op's FLOPs. `sustained` says whether it ran in a long
//! series on a hot device, as in training, or in a short benchmark; only the first kind meets `cost.sustained`. A row
//! that cannot be priced is skipped, with the reason.
//!
//! Hazard: some sources need to be known to be read right (`sources`): what else their time holds, how they
//! write shapes, and which kind of run they are.

mod score;
mod sources;
mod written;

pub use score::{PriceErrors, PricedRow, Score, SkippedRows, score};
pub use sources::catalogue_name;

use serde::{Deserialize, Serialize};

use super::DeviceCost;
use crate::model::{Direction, Kernel, KernelClass, KernelShape, Scaling};
use sources::{MeasurementSource, source};
use stepsim_core::kernel_class::MatmulPass;
use stepsim_spec::kernel::{AttentionGeneration, Maker};
use stepsim_spec::workload::Dtype;

/// A measured row: the columns that a price goes by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredRow {
    /// A name for it.
    pub id: String,
    /// Who measured it.
    pub source: String,
    /// On which device, in the source's words.
    pub device: Option<String>,
    /// The kernel or collective that was timed.
    pub op: String,
    /// Format of the inputs, as `bf16`, `fp8`, `fp8 blockwise`, `mxfp8`, `nvfp4`.
    pub dtype: Option<String>,
    /// Format of the output.
    pub out_dtype: Option<String>,
    /// Rows.
    pub m: Option<u64>,
    /// Columns.
    pub n: Option<u64>,
    /// Length of the inner products.
    pub k: Option<u64>,
    /// Groups of a grouped GEMM.
    pub groups: Option<u64>,
    /// True if a GEMM adds to its output.
    pub accumulate: Option<bool>,
    /// Sequences; of a GEMM, products.
    pub batch: Option<u64>,
    /// Tokens of a sequence.
    pub seq: Option<u64>,
    /// Query heads.
    pub heads: Option<u64>,
    /// Key–value heads; default: as many.
    pub kv_heads: Option<u64>,
    /// Width of a head.
    pub head_dim: Option<u64>,
    /// Width of a value head; default: the same.
    pub v_head_dim: Option<u64>,
    /// True if blocks above the diagonal are skipped.
    pub causal: Option<bool>,
    /// Forward or which gradient.
    pub direction: Option<String>,
    /// Time in milliseconds.
    pub time_ms: Option<f64>,
    /// Rate in 10¹² FLOP/s, where no time is given.
    pub tflops: Option<f64>,
    /// Bytes that it moves, where they are known.
    pub bytes: Option<f64>,
    /// Bandwidth in 10⁹ B/s as the source counts bytes.
    pub bandwidth_gbps: Option<f64>,
    /// The software that ran.
    pub software: Option<String>,
    /// Anything else.
    pub notes: Option<String>,
    /// True if it ran in a long series on a hot device; default: as its source does.
    pub sustained: Option<bool>,
}

/// A row as kernels with what they took.
#[derive(Clone, Debug)]
pub struct RowKernels {
    /// The kernels that its time holds.
    pub kernels: Vec<Kernel>,
    /// Seconds.
    pub seconds: f64,
    /// True if the run was a long one.
    pub sustained: bool,
    /// True if it ran in a training step, where other kernels use the memory too.
    pub in_step: bool,
    /// Compute units that other kernels held.
    pub taken: u32,
    /// Who made its kernels.
    pub maker: Maker,
}

impl RowKernels {
    /// Seconds that its kernels are priced at.
    pub fn priced(&self, device: &DeviceCost, cost: &dyn super::Cost) -> f64 {
        let device = device.clone().with_maker(self.maker);
        let device = match (self.sustained, self.in_step) {
            (false, _) => device.cool(),
            (true, false) => device.alone(),
            (true, true) => device,
        };
        self.kernels.iter().map(|k| cost.time_with_units_taken(k, &device, self.taken).s()).sum()
    }
}

impl MeasuredRow {
    /// The row as kernels.
    ///
    /// # Errors
    /// Why it cannot be priced.
    pub fn read(&self) -> Result<RowKernels, String> {
        let source = source(&self.source);
        if let Some(why) = self.unfit() {
            return Err(why.into());
        }
        let kernels = match self.op.as_str() {
            "gemm" => self.gemm(&source)?,
            "grouped_gemm" => vec![self.grouped(&source)?],
            "attention" => self.attention_beside()?,
            _ => vec![self.memory_bound()?],
        };
        let seconds = match (self.time_ms, self.tflops) {
            (Some(ms), _) if ms > 0.0 => ms * 1e-3,
            (_, Some(rate)) if rate > 0.0 => self.counted_flops(&kernels[0], &source) / (rate * 1e12),
            _ => return Err("neither a time nor a rate".into()),
        };
        let sustained = self.sustained.unwrap_or(source.sustained);
        let (taken, in_step) = (source.taken, source.in_step);
        Ok(RowKernels { kernels, seconds, sustained, in_step, taken, maker: self.maker() })
    }

    fn says(&self, word: &str) -> bool {
        let has = |text: &Option<String>| text.as_ref().is_some_and(|t| t.to_lowercase().contains(word));
        has(&self.software) || has(&self.notes)
    }
    /// Rows that time something else than one kernel.
    fn unfit(&self) -> Option<&'static str> {
        if self.direction.as_deref() == Some("fwd+bwd") {
            return Some("both directions in one time");
        }
        if self.says("window") {
            return Some("a sliding window");
        }
        let many_kernels = self.says("huggingface") || self.says("torch, liger") && self.op == "swiglu";
        let cross_entropy = self.op == "cross_entropy";
        (many_kernels || cross_entropy).then_some("several kernels in one time")
    }
    fn size(&self, name: &str, value: Option<u64>) -> Result<u64, String> {
        value.filter(|v| (1..1 << 40).contains(v)).ok_or_else(|| format!("no `{name}`"))
    }
    fn mnk(&self) -> Result<(u64, u64, u64), String> {
        Ok((self.size("m", self.m)?, self.size("n", self.n)?, self.size("k", self.k)?))
    }
    fn format(&self) -> Result<(Dtype, Scaling), String> {
        let name = self.dtype.as_deref().unwrap_or("bf16");
        Ok(match name {
            "bf16" => (Dtype::Bf16, Scaling::Tensor),
            "fp16" => (Dtype::Fp16, Scaling::Tensor),
            "fp32" => (Dtype::Fp32, Scaling::Tensor),
            "tf32" => (Dtype::Tf32, Scaling::Tensor),
            "fp8" | "fp8 e4m3" | "fp8 (current scaling)" | "fp8 (delayed scaling)" => {
                (Dtype::Fp8, Scaling::Tensor)
            }
            "fp8 blockwise" => (Dtype::Fp8, Scaling::Block),
            "mxfp8" => (Dtype::Fp8, Scaling::Mx),
            "nvfp4" => (Dtype::Fp4, Scaling::Nv),
            _ => return Err(format!("unknown format `{name}`")),
        })
    }
    /// The pass that the GEMM belongs to, one of three.
    fn pass(&self) -> MatmulPass {
        let direction = self.direction.as_deref().unwrap_or("fwd");
        match direction {
            "bwd (weight grad)" | "bwd_grad_w" => MatmulPass::WeightGrad,
            "bwd (input grad)" | "bwd_grad_act" => MatmulPass::InputGrad,
            _ => MatmulPass::Forward,
        }
    }
    fn backward(&self) -> bool {
        self.direction.as_deref().is_some_and(|d| d.starts_with("bwd"))
    }

    /// A GEMM, and the conversion of its input where the time holds it.
    fn gemm(&self, source: &MeasurementSource) -> Result<Vec<Kernel>, String> {
        let (m, n, k) = self.mnk()?;
        let (dtype, scaling) = self.format()?;
        let out = if self.out_dtype.as_deref() == Some("fp32") { 4.0 } else { 2.0 };
        let class = match self.pass() {
            MatmulPass::Forward => KernelClass::Gemm,
            MatmulPass::InputGrad => KernelClass::GemmInputGrad,
            MatmulPass::WeightGrad => KernelClass::GemmWeightGrad,
        };
        let gemm = if self.accumulate == Some(true) {
            Kernel::weight_gradient("gemm", m, n, k, dtype, out)
        } else {
            Kernel::gemm("gemm", m, n, k, self.batch.unwrap_or(1).max(1), dtype, out)
        };
        let mut kernels = vec![gemm.of(class).scaled(scaling)];
        if dtype.bytes() < 2.0 && (self.says("quantisation of both") || self.says("activation quantisation"))
        {
            let operands: &[u64] = if self.says("both") { &[m * k, k * n] } else { &[m * k] };
            for &elements in operands {
                let e = elements as f64;
                let pass = |class, bytes| Kernel::elementwise(class, "cast", elements, bytes, Dtype::Bf16);
                let one_scale = self.dtype.as_deref() == Some("fp8") && source.dynamic_scales;
                if one_scale || self.dtype.as_deref() == Some("fp8 (current scaling)") {
                    kernels.push(pass(KernelClass::Amax, 2.0 * e));
                }
                kernels.push(pass(KernelClass::Cast, e * (2.0 + dtype.bytes())));
            }
        }
        Ok(kernels)
    }
    fn grouped(&self, source: &MeasurementSource) -> Result<Kernel, String> {
        let (m, n, k) = self.mnk()?;
        let groups = self.size("groups", self.groups)?;
        let (dtype, scaling) = self.format()?;
        let (class, (m, n, k)) = match (self.pass(), source.forward_shapes) {
            (MatmulPass::Forward, _) => (KernelClass::GroupedGemm, (m, n, k)),
            (MatmulPass::InputGrad, true) => (KernelClass::GroupedGemmInputGrad, (m, k, n)),
            (MatmulPass::InputGrad, false) => (KernelClass::GroupedGemmInputGrad, (m, n, k)),
            (MatmulPass::WeightGrad, true) => (KernelClass::GroupedGemmWeightGrad, (n, k, m)),
            (MatmulPass::WeightGrad, false) => (KernelClass::GroupedGemmWeightGrad, (m, n, k)),
        };
        let accumulate = class == KernelClass::GroupedGemmWeightGrad && self.accumulate != Some(false);
        let (g, mf, nf, kf) = (groups as f64, m as f64, n as f64, k as f64);
        let output = if accumulate { 8.0 } else { 2.0 };
        Ok(Kernel {
            name: "grouped gemm",
            class,
            shape: KernelShape::GroupedGemm { groups, m, n, k, accumulate },
            flops: 2.0 * g * mf * nf * kf,
            bytes: g * ((mf * kf + kf * nf) * dtype.bytes() + mf * nf * output),
            dtype,
            scaling,
            tuned: false,
        })
    }
    /// Attention, and what a serving engine does in the same call: a rotary embedding, and keys and values put into
    /// the cache, both in one pass over queries, keys and values in 16 bits.
    fn attention_beside(&self) -> Result<Vec<Kernel>, String> {
        let attention = self.attention()?;
        let KernelShape::Attention { batch, queries, heads, kv_heads, qk_size, .. } = attention.shape else {
            return Ok(vec![attention]);
        };
        if !self.says("rope") {
            return Ok(vec![attention]);
        }
        let elements = batch * queries * (heads + 2 * kv_heads) * qk_size;
        let bytes = elements as f64 * (2.0 + attention.dtype.bytes());
        let rotary = Kernel::elementwise(KernelClass::Rotary, "rotary", elements, bytes, Dtype::Bf16);
        Ok(vec![attention, rotary])
    }
    fn attention(&self) -> Result<Kernel, String> {
        let (batch, s) = (self.size("batch", self.batch)?, self.size("seq", self.seq)?);
        let (heads, qk) = (self.size("heads", self.heads)?, self.size("head_dim", self.head_dim)?);
        let (kv_heads, v) = (self.kv_heads.unwrap_or(heads), self.v_head_dim.unwrap_or(qk));
        let causal = self.causal.ok_or("no `causal`")?;
        let (dtype, scaling) = self.format()?;
        let backward = self.backward();
        let (class, direction, products, passes) = if backward {
            (KernelClass::AttentionBackward, Direction::Backward, 5.0, 2.0)
        } else {
            (KernelClass::AttentionForward, Direction::Forward, 2.0, 1.0)
        };
        let pairs = (batch * heads) as f64 * (s as f64).powi(2) * if causal { 0.5 } else { 1.0 };
        let shape = KernelShape::Attention {
            batch,
            queries: s,
            keys: s,
            key_rows: s,
            heads,
            kv_heads,
            qk_size: qk,
            v_size: v,
            causal,
            direction,
            generation: self.generation(),
        };
        Ok(Kernel {
            name: "attention",
            class,
            shape,
            flops: products * pairs * (qk + v) as f64,
            bytes: passes * (batch * s * (heads + kv_heads) * (qk + v)) as f64 * dtype.bytes(),
            dtype,
            scaling,
            tuned: false,
        })
    }
    fn generation(&self) -> Option<AttentionGeneration> {
        let software = self.software.as_deref().unwrap_or("").to_lowercase();
        let known = [
            ("triton", AttentionGeneration::Compiled),
            ("tilelang", AttentionGeneration::Flash3),
            ("fa2", AttentionGeneration::Flash2),
            ("flash-attn 2", AttentionGeneration::Flash2),
            ("flashattention-2", AttentionGeneration::Flash2),
            ("fa3", AttentionGeneration::Flash3),
            ("flashattention-3", AttentionGeneration::Flash3),
            ("flash_a", AttentionGeneration::Flash3),
            ("flashattention-4", AttentionGeneration::Cudnn),
            ("cudnn", AttentionGeneration::Cudnn),
        ];
        known.iter().find(|(word, _)| software.contains(word)).map(|&(_, g)| g)
    }
    /// FLOPs as the source's rate counts them.
    fn counted_flops(&self, kernel: &Kernel, source: &MeasurementSource) -> f64 {
        let full =
            source.masked_counted && matches!(kernel.shape, KernelShape::Attention { causal: true, .. });
        kernel.flops * if full { 2.0 } else { 1.0 }
    }

    fn memory_bound(&self) -> Result<Kernel, String> {
        let op = if self.op == "optimizer" { self.optimizer() } else { &self.op };
        let (class, moves) = KernelClass::of_measured(op, self.backward())
            .ok_or_else(|| format!("`{op}` is no kernel of a class"))?;
        let elements = match (self.m, self.n, self.seq) {
            (Some(m), Some(n), _) => self.size("m", Some(m))?.saturating_mul(self.size("n", Some(n))?),
            (None, Some(n), None) => self.size("n", Some(n))?,
            (_, _, Some(s)) => {
                let heads = self.size("heads", self.heads)? + self.kv_heads.unwrap_or(0);
                self.batch.unwrap_or(1) * s * heads * self.size("head_dim", self.head_dim)?
            }
            _ => return Err("no `m` and `n`".into()),
        };
        // Where the source prints what it counted, it knows better what the kernel moves.
        let counts = class != KernelClass::Unpermute; // What was counted of it is what it reads alone.
        let counted =
            self.time_ms.filter(|_| counts).zip(self.bandwidth_gbps).map(|(ms, rate)| ms * 1e-3 * rate * 1e9);
        let dtype = self.format()?.0;
        let bytes = self.bytes.or(counted).unwrap_or(moves.moved(elements as f64, dtype.bytes()));
        Ok(Kernel::elementwise(class, "kernel", elements, bytes, dtype))
    }
    /// The optimizer that a row times, in the table's words.
    fn optimizer(&self) -> &'static str {
        if self.says("foreach") || self.says("for-each") {
            "optimizer, for-each"
        } else if self.says("before the change") || self.says("multi-tensor") {
            "optimizer, multi-tensor"
        } else {
            "optimizer"
        }
    }
    /// True if PyTorch launched it by itself, op by op.
    pub fn is_eager(&self) -> bool {
        self.maker() == Maker::Eager
    }
    fn maker(&self) -> Maker {
        let software = self.software.as_deref().unwrap_or("").to_lowercase();
        let has = |words: &[&str]| words.iter().any(|w| software.contains(w));
        if has(&["compile", "megatron", "vllm-era", "inductor", "trtllm"]) {
            Maker::Compiled
        } else if has(&["pytorch", "torch,", "eager"]) && !software.contains("fused") {
            Maker::Eager
        } else {
            Maker::Tuned
        }
    }
}
