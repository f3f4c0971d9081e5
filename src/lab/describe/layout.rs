//! Degrees and batch of a row, made to fit each other where its source does not print them all.

use serde_json::Value;

use super::columns::Columns;
use super::origin::Origin;

/// How a step is cut, whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Tensor, pipeline, context and data-parallel degrees.
    pub tensor: u64,
    /// Ranks of a pipeline.
    pub pipeline: u64,
    /// Context-parallel degree.
    pub context: u64,
    /// Replicas.
    pub data: u64,
    /// Sequences of a micro-batch.
    pub micro_batch: u64,
    /// Sequences of a step, a multiple of `data` × `micro_batch`.
    pub global: u64,
    /// Sequences of the step that was measured.
    pub printed: f64,
}

/// The layout of a row. What is put right is noted in the columns.
///
/// # Errors
/// The degrees cannot fill the devices, or a batch is missing.
pub fn layout(c: &mut Columns) -> Result<Layout, String> {
    let devices = c.needs("n_devices")?;
    let (tensor, pipeline, mut context) = (c.degree("tp"), c.degree("pp"), c.degree("cp"));
    let replica = tensor * pipeline * context;
    if !devices.is_multiple_of(replica) {
        return Err(format!(
            "{devices} devices are no multiple of tp {tensor} × pp {pipeline} × cp {context}"
        ));
    }
    let mut data = devices / replica;
    if let Some(printed) = c.count("dp").filter(|printed| *printed != data) {
        // A Ulysses or context degree may be left out of the product; more replicas than sequences there cannot be.
        let missing = data.checked_div(printed).filter(|k| *k > 1 && data.is_multiple_of(printed));
        match (missing, c.count("gbs_seqs")) {
            (Some(k), Some(batch)) if batch < data || !batch.is_multiple_of(data) => {
                context *= k;
                data = printed;
                c.assume("cp", context.into(), "the printed degrees do not multiply to the devices, and the batch has too few sequences for more replicas");
            }
            _ => c.assume("dp", data.into(), "the printed degrees do not multiply to the devices"),
        }
    }
    let (micro_batch, global, printed) = batch(c, data)?;
    Ok(Layout { tensor, pipeline, context, data, micro_batch, global, printed })
}

/// Sequences of a micro-batch, of a step, and of the step as it is printed.
fn batch(c: &mut Columns, data: u64) -> Result<(u64, u64, f64), String> {
    let wanted = c.number("gbs_seqs").ok_or("no gbs_seqs")?;
    if wanted < data as f64 * 0.75 {
        return Err(format!("{wanted} sequences for {data} replicas"));
    }
    let each = (wanted / data as f64).round().max(1.0) as u64;
    let micro = c.count("mbs_seqs").unwrap_or(1).clamp(1, each);
    let micro = (1..=micro).rev().find(|m| each.is_multiple_of(*m)).unwrap_or(1);
    if Some(micro) != c.count("mbs_seqs") {
        c.assume("mbs_seqs", micro.into(), "a micro-batch that divides what a replica has");
    }
    let global = data * each;
    // What is printed twice has been understood where it says the same.
    if c.amount_is("grad_accum", each / micro) {
        c.heed("grad_accum");
    }
    if c.number("seq").is_some_and(|seq| c.amount_is("gbs_tokens", (wanted * seq) as u64)) {
        c.heed("gbs_tokens");
    }
    if global as f64 != wanted {
        c.assume(
            "gbs_seqs",
            global.into(),
            "a whole number of sequences for each replica; times are scaled back",
        );
    }
    Ok((micro, global, wanted))
}

/// Layers of each stage as the column `pp_layout` says: `ends-less` (first and last stage have one less), or
/// Megatron's notation (`Et*4|(t*4|)*14tmL`). `None`: as even as can be.
///
/// # Errors
/// The notation cannot be read, or does not make so many layers and stages.
pub fn split(text: &str, layers: u64, stages: u64) -> Result<Option<Vec<u64>>, String> {
    let split = match text {
        "" | "even" => return Ok(None),
        "ends-less" => {
            if !(layers + 2).is_multiple_of(stages) {
                return Err(format!("{layers} layers do not make {stages} stages with one less at the ends"));
            }
            let each = (layers + 2) / stages;
            (0..stages).map(|s| each - u64::from(s == 0) - u64::from(s + 1 == stages)).collect()
        }
        _ => megatron_split(text)?,
    };
    if split.iter().sum::<u64>() != layers || split.len() as u64 != stages {
        return Ok(None);
    }
    Ok(Some(split))
}

/// `t` is a layer; `E` embedding, `m` prediction of a second token and `L` loss count nothing (both of the latter stand
/// behind the last layers); `|` ends a stage, `x*n` and `(…)*n` repeat.
fn megatron_split(text: &str) -> Result<Vec<u64>, String> {
    let wrong = || format!("pp_layout {text:?} cannot be read");
    let mut flat = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (unit, after) = if c == '(' {
            let (inner, after) = rest[1..].split_once(')').ok_or_else(wrong)?;
            (inner, after)
        } else {
            rest.split_at(c.len_utf8())
        };
        let (times, after) = match after.strip_prefix('*') {
            Some(count) => {
                let digits = count.len() - count.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                (count[..digits].parse::<usize>().map_err(|_| wrong())?, &count[digits..])
            }
            None => (1, after),
        };
        if times > 10_000 || flat.len() > 100_000 {
            return Err(wrong());
        }
        flat += &unit.repeat(times);
        rest = after;
    }
    // A group may repeat units that carry counts of their own.
    if flat.contains(['*', '(', ')']) {
        return megatron_split(&flat);
    }
    if !flat.chars().all(|c| "EtmL|".contains(c)) {
        return Err(wrong());
    }
    Ok(flat.split('|').map(|stage| stage.chars().filter(|c| *c == 't').count() as u64).collect())
}

/// `layer_split` of the workload, if there is one. Layers that do not fill the stages, but do with two more, leave room
/// for embedding and loss at the ends.
///
/// # Errors
/// As [`split`].
pub fn layer_split(c: &mut Columns, layers: u64, stages: u64) -> Result<Option<Value>, String> {
    if !layers.is_multiple_of(stages) && (layers + 2).is_multiple_of(stages) {
        let why = "the layers do not fill the stages, with one less at both ends they do";
        c.fill("pp_layout", "ends-less".into(), Origin::assumed(why));
    }
    if c.text("pp_layout") == "by-cost" {
        return Ok(Some(Value::from(split_by_cost(layers, stages, head_in_layers(c)))));
    }
    Ok(split(&c.text("pp_layout"), layers, stages)?.map(Value::from))
}

/// Weights of the LM head over those of a layer, which is how much longer it takes.
fn head_in_layers(c: &Columns) -> f64 {
    let width = |name: &str| c.number(name).unwrap_or(0.0);
    let (hidden, ffn) = (width("hidden"), width("ffn"));
    let shared = c.number("kv_heads").zip(c.number("heads")).map_or(1.0, |(kv, heads)| kv / heads.max(1.0));
    let products = if c.get("gated_mlp").as_bool() == Some(false) { 2.0 } else { 3.0 };
    let layer = hidden * hidden * (2.0 + 2.0 * shared) + products * hidden * ffn;
    if layer > 0.0 { width("vocab") * hidden / layer } else { 0.0 }
}

/// nanotron's split (`models/base.py`, `build_model`): blocks go to a stage until the cost up to there passes its share,
/// the LM head counting as a block; each stage has one layer at least.
fn split_by_cost(layers: u64, stages: u64, head: f64) -> Vec<u64> {
    let share = (layers as f64 + head) / stages as f64;
    let (mut split, mut stage) = (vec![0; stages as usize], 0);
    for layer in 1..=layers {
        split[stage] += 1;
        let left = stages as usize - 1 - stage;
        let passed = layer as f64 > share * (stage + 1) as f64;
        if left > 0 && (passed || layers - layer == left as u64) {
            stage += 1;
        }
    }
    split
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn columns(value: Value) -> Columns {
        Columns::new(value.as_object().unwrap())
    }

    #[test]
    fn stages_in_the_notation_of_megatron() {
        let v3 = split("Et*4|(t*4|)*14tmL", 61, 16).unwrap().unwrap();
        assert_eq!((v3[0], v3[14], v3[15]), (4, 4, 1));
        let deep = split("Et*8|(t*8|)*6t*5mL", 61, 8).unwrap().unwrap();
        assert_eq!(deep, [8, 8, 8, 8, 8, 8, 8, 5]);
        let alone = split("Et|(tt|)*30mL", 61, 32).unwrap().unwrap();
        assert_eq!((alone[0], alone[30], alone[31]), (1, 2, 0), "prediction and loss alone");
        assert_eq!(split("ends-less", 30, 8).unwrap().unwrap(), [3, 4, 4, 4, 4, 4, 4, 3]);
        assert_eq!(split_by_cost(16, 2, 4.0), [11, 5], "20 blocks' worth, the head with the last");
        assert_eq!(split_by_cost(4, 4, 9.0), [1, 1, 1, 1]);
        assert_eq!(split("even", 30, 8), Ok(None));
        assert_eq!(split("Et|tL", 30, 8), Ok(None), "another model");
        for wrong in ["Et*|", "(t", "x|y", "(t*9999|)*9999", "t*99999999999999999999"] {
            assert!(split(wrong, 30, 8).is_err(), "{wrong}");
        }
    }

    #[test]
    fn degrees_that_do_not_multiply_are_put_right() {
        let row = json!({"n_devices": 1024, "tp": 4, "pp": 1, "cp": 16, "dp": 4, "gbs_seqs": 4});
        let mut long = columns(row);
        let made = layout(&mut long).unwrap();
        assert_eq!((made.context, made.data, made.micro_batch), (64, 4, 1));
        let mut short = columns(json!({"n_devices": 8, "dp": 2, "gbs_seqs": 512}));
        assert_eq!(layout(&mut short).unwrap().data, 8);
        assert!(short.assumed.iter().any(|a| a.column == "dp"));
        let mut odd = columns(json!({"n_devices": 8, "gbs_seqs": 20, "mbs_seqs": 4}));
        let made = layout(&mut odd).unwrap();
        assert_eq!((made.global, made.micro_batch), (24, 3));
        assert!(layout(&mut columns(json!({"n_devices": 6, "tp": 4, "gbs_seqs": 8}))).is_err());
        assert!(layout(&mut columns(json!({"n_devices": 64, "gbs_seqs": 8}))).is_err());
    }
}
