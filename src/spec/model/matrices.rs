//! The weight matrices of a layer, as optimizers see them that work on whole matrices.

use super::{MlpKind, ModelSpec};

/// Equal weight matrices of one layer, uncut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Outputs.
    pub rows: u64,
    /// Inputs.
    pub columns: u64,
    /// How many.
    pub count: u64,
    /// The side that tensor parallelism cuts.
    pub cut: MatrixCut,
    /// True for routed experts, which expert parallelism spreads.
    pub expert: bool,
}

/// The side of a matrix that tensor parallelism cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixCut {
    /// Outputs.
    Rows,
    /// Inputs.
    Columns,
    /// Neither.
    Neither,
}

/// A product of sizes, saturated: sizes in wrong files have no bounds.
fn times(a: u64, b: u64) -> u64 {
    a.saturating_mul(b)
}

impl ModelSpec {
    /// The matrices of a layer, of the model as that layer sees it ([`ModelSpec::layer`]): queries, keys and values
    /// apart, gate and up apart, each expert by itself, the router. Empty projections are left out; of mixers other
    /// than attention nothing is known.
    pub fn matrices(&self) -> Vec<Matrix> {
        let h = self.hidden;
        let mut all = Vec::new();
        let mut add = |rows, columns, count, cut, expert| {
            all.push(Matrix { rows, columns, count, cut, expert });
        };
        if self.mixer.is_attention() {
            match &self.mla {
                None => {
                    let d = self.head_size();
                    let gates = if self.attention.output_gate { 2 } else { 1 };
                    add(times(d, self.heads).saturating_mul(gates), h, 1, MatrixCut::Rows, false);
                    add(times(d, self.kv_heads()), h, 2, MatrixCut::Rows, false);
                    add(h, times(d, self.heads), 1, MatrixCut::Columns, false);
                }
                Some(mla) => {
                    let queries = times(self.heads, self.qk_head_size());
                    match mla.q_lora_rank {
                        Some(rank) => {
                            add(rank, h, 1, MatrixCut::Neither, false);
                            add(queries, rank, 1, MatrixCut::Rows, false);
                        }
                        None => add(queries, h, 1, MatrixCut::Rows, false),
                    }
                    let up = times(self.heads, mla.qk_nope_head_size.saturating_add(mla.v_head_size));
                    add(
                        mla.kv_lora_rank.saturating_add(mla.qk_rope_head_size),
                        h,
                        1,
                        MatrixCut::Neither,
                        false,
                    );
                    add(up, mla.kv_lora_rank, 1, MatrixCut::Rows, false);
                    add(h, times(self.heads, mla.v_head_size), 1, MatrixCut::Columns, false);
                }
            }
        }
        let inputs = if self.gated_mlp { 2 } else { 1 };
        match &self.moe {
            Some(moe) => {
                let (ffn, width) = (moe.ffn.unwrap_or(self.ffn), moe.width(self));
                add(ffn, width, times(inputs, moe.experts), MatrixCut::Rows, true);
                add(width, ffn, moe.experts, MatrixCut::Columns, true);
                add(moe.experts, h, 1, MatrixCut::Neither, false);
                let shared = moe.shared_width(self);
                add(shared, h, inputs, MatrixCut::Rows, false);
                add(h, shared, 1, MatrixCut::Columns, false);
            }
            None if self.mlp == MlpKind::None => {}
            None => {
                add(self.ffn, h, inputs, MatrixCut::Rows, false);
                add(h, self.ffn, 1, MatrixCut::Columns, false);
            }
        }
        all.retain(|m| m.rows > 0 && m.columns > 0 && m.count > 0);
        all
    }

    /// Elements of the matrices of all layers, rows and columns of each added up, and elements of embedding tables
    /// and LM head.
    pub fn matrix_elements(&self) -> MatrixElements {
        let mut sum = MatrixElements {
            tables: self.vocabulary as f64 * self.hidden as f64,
            ..MatrixElements::default()
        };
        if !self.tied_embeddings {
            sum.tables *= 2.0;
        }
        for (layer, layers) in self.layer_counts() {
            for m in layer.matrices() {
                let n = layers as f64 * m.count as f64;
                sum.elements += n * m.rows as f64 * m.columns as f64;
                sum.sides += n * m.rows.saturating_add(m.columns) as f64;
            }
        }
        sum
    }
}

/// How large the matrices of a model are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MatrixElements {
    /// Elements of the matrices of all layers.
    pub elements: f64,
    /// Their rows and columns, added up.
    pub sides: f64,
    /// Elements of embedding tables and LM head.
    pub tables: f64,
}
