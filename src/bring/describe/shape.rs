//! The dimensions that a number of parameters suggests, where they are not all printed.

use super::columns::DescribedColumns;
use super::origin::ValueOrigin;
use stepsim_spec::names;

/// Words of a vocabulary that is not printed.
const VOCABULARY: f64 = 50_000.0;

/// Takes the number of parameters from the model's name (`GPT 6.2B`, `MPT-760m`) where no column has it, and tells
/// from it whether a printed MLP is plain or gated (column `mlp_by_parameters`), and whether the head shares the
/// table of a printed vocabulary (column `tables_by_parameters`: 1 or 2).
pub fn parameters(c: &mut DescribedColumns) {
    if let Some(billions) = names::billions(&c.text("model")).filter(|_| !c.has("params_b")) {
        c.fill("params_b", billions.into(), ValueOrigin::stated("the model's name"));
    }
    let (Some(all), Some(layers), Some(hidden), Some(ffn)) =
        (c.number("params_b"), c.number("layers"), c.number("hidden"), c.number("ffn"))
    else {
        return;
    };
    if c.has("experts") {
        return;
    }
    let shared = c.number("kv_heads").zip(c.number("heads")).map_or(1.0, |(kv, heads)| (kv / heads).min(1.0));
    let table = c.number("vocab").unwrap_or(VOCABULARY) * hidden;
    let with = |products: f64, tables: f64| {
        layers * (hidden * hidden * (2.0 + 2.0 * shared) + products * hidden * ffn) + tables * table
    };
    let off = |products: f64, tables: f64| (with(products, tables) / (1e9 * all)).ln().abs();
    let assumed = || ValueOrigin::assumed("the printed parameters and dimensions");
    let (plain, gated) = (off(2.0, 1.0), off(3.0, 1.0));
    if !c.has("gated_mlp") && plain.min(gated) < 0.08 {
        let kind = if plain < gated { "plain" } else { "gated" };
        c.fill("mlp_by_parameters", kind.into(), assumed());
    }
    let nearer = |tables| off(2.0, tables).min(off(3.0, tables));
    let (one, two) = (nearer(1.0), nearer(2.0));
    // Widths of heads of their own and biases are not counted: only what is near tells.
    if c.has("vocab") && one.min(two) < 0.01 && (one - two).abs() > 0.03 {
        c.fill("tables_by_parameters", if one < two { 1 } else { 2 }.into(), assumed());
    }
}

/// Layers and width of a model with nothing known but its number of parameters: 128 of width for each layer, as the
/// models of GPT-3's and Llama's tables from 1 to 175 billion have it (12·layers·hidden² parameters beside the table
/// of the vocabulary). Returns true if any were filled.
pub fn by_parameters(c: &mut DescribedColumns) -> bool {
    let Some(all) = c.number("params_b").filter(|_| !c.has("layers") && !c.has("hidden")) else {
        return false;
    };
    let experts = ["experts", "experts_per_token", "moe_ffn"].iter().any(|column| c.has(column));
    if experts || names::has_experts(&c.text("model")) {
        return false;
    }
    // Heads of 128 in whole groups of eight, or of the tensor-parallel degree.
    let group = c.degree("tp").max(8) as f64;
    let width = (1e9 * all * 128.0 / 12.0).cbrt();
    let heads =
        if width < 128.0 * group { (width / 128.0).ceil() } else { (width / 128.0 / group).round() * group };
    let hidden = 128.0 * heads;
    let table = c.number("vocab").unwrap_or(VOCABULARY) * hidden;
    let layers = ((1e9 * all - table) / (12.0 * hidden * hidden)).round().max(1.0);
    let why =
        "only the parameters are known: 128 of width for each layer, as in the tables of GPT-3 and Llama";
    let assumed = ValueOrigin::assumed(why);
    c.fill("layers", (layers as u64).into(), assumed.clone())
        & c.fill("hidden", (hidden as u64).into(), assumed)
}
