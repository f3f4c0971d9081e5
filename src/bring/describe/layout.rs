//! Degrees and batch of a row, made to fit each other where its source does not print them all.

use super::columns::DescribedColumns;

/// How a step is cut, whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DescribedLayout {
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

/// The layout of a row. Corrections are noted in the columns.
///
/// # Errors
/// The degrees cannot fill the devices, or a batch is missing.
pub fn layout(c: &mut DescribedColumns) -> Result<DescribedLayout, String> {
    whole_devices(c);
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
                c.assume(
                    "cp",
                    context.into(),
                    "the printed degrees do not multiply to the devices, and the batch has too few \
                     sequences for more replicas",
                );
            }
            _ => c.assume("dp", data.into(), "the printed degrees do not multiply to the devices"),
        }
    }
    let (micro_batch, global, printed) = batch(c, data)?;
    Ok(DescribedLayout { tensor, pipeline, context, data, micro_batch, global, printed })
}

/// Cores that a source counts as devices (column `cores_per_device`): devices, one degree and the rates are those of
/// whole devices.
fn whole_devices(c: &mut DescribedColumns) {
    let Some(cores) = c.count("cores_per_device").filter(|n| *n > 1) else { return };
    let why = "the source counts cores, the machine has devices of several";
    let Some(devices) = c.count("n_devices").filter(|n| n.is_multiple_of(cores)) else { return };
    c.assume("n_devices", (devices / cores).into(), why);
    if let Some(degree) =
        ["dp", "tp", "cp", "ep"].into_iter().find(|d| c.count(d).is_some_and(|n| n.is_multiple_of(cores)))
    {
        let whole = c.degree(degree) / cores;
        c.assume(degree, whole.into(), why);
    }
    for column in ["tokens_per_s_per_device", "samples_per_s_per_device", "tflops_per_device"] {
        if let Some(rate) = c.number(column) {
            c.assume(column, (rate * cores as f64).into(), why);
        }
    }
    if let Some(node) = c.count("devices_per_node").filter(|n| n.is_multiple_of(cores)) {
        c.assume("devices_per_node", (node / cores).into(), why);
    }
}

/// Sequences of a micro-batch, of a step, and of the step as it is printed.
fn batch(c: &mut DescribedColumns, data: u64) -> Result<(u64, u64, f64), String> {
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
    // A value that is printed twice has been understood where both say the same.
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
