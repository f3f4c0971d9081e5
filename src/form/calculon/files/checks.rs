//! Calculon's assertions about its three files, and the assumptions of its arithmetic.

use super::{
    Application, EfficiencyTable, Engine, Execution, FileNames, MemoryTier, NetworkOps, NetworkTier,
    Recompute, System, TensorComm,
};
use stepsim_step::spec::SpecError;

/// Largest integer accepted in any field: far above any model or machine, small enough that products of three stay
/// exact enough and nothing overflows.
const MAX_INT: u64 = 1 << 40;

/// A wrong value at a path of a file.
fn wrong(file: &str, path: impl Into<String>, problem: impl Into<String>) -> SpecError {
    SpecError::at(path, problem).in_file(file)
}

type Check = Result<(), SpecError>;

fn integer(file: &str, path: &str, value: u64) -> Check {
    if (1..=MAX_INT).contains(&value) {
        return Ok(());
    }
    Err(wrong(file, path, format!("{value} is out of range"))
        .allowed(format!("1 to {MAX_INT}"))
        .hint("write the real size; the closed form divides by it"))
}

/// A finite number for which `ok` holds.
fn number(file: &str, path: String, value: f64, ok: impl Fn(f64) -> bool, allowed: &str) -> Check {
    if value.is_finite() && ok(value) {
        return Ok(());
    }
    Err(wrong(file, path, format!("{value} is out of range")).allowed(allowed))
}

/// `whole` must be a multiple of `part`.
fn divides(file: &str, path: &str, part: u64, whole: impl Into<u128>, what: &str, hint: &str) -> Check {
    let whole = whole.into();
    if whole.is_multiple_of(part.into()) {
        return Ok(());
    }
    Err(wrong(file, path, format!("{part} does not divide {what} = {whole}"))
        .allowed(format!("a divisor of {whole}"))
        .hint(hint))
}

/// An option that is on must find `condition` met.
fn needs(file: &str, path: &str, on: bool, value: &str, condition: bool, need: &str) -> Check {
    if !on || condition {
        return Ok(());
    }
    Err(wrong(file, path, format!("{value} needs {need}"))
        .hint("switch the option off or change what it needs"))
}

pub(super) fn application(app: &Application, names: &FileNames) -> Check {
    let file = &names.application;
    for (path, value) in [
        ("hidden", app.hidden),
        ("feedforward", app.feedforward),
        ("seq_size", app.seq_size),
        ("attn_heads", app.attn_heads),
        ("attn_size", app.attn_size),
        ("num_blocks", app.num_blocks),
    ] {
        integer(file, path, value)?;
    }
    Ok(())
}

pub(super) fn execution(exe: &Execution, names: &FileNames) -> Check {
    let file = &names.execution;
    for (path, value) in [
        ("num_procs", exe.num_procs),
        ("tensor_par", exe.tensor_par),
        ("pipeline_par", exe.pipeline_par),
        ("data_par", exe.data_par),
        ("batch_size", exe.batch_size),
        ("microbatch_size", exe.microbatch_size),
        ("pipeline_interleaving", exe.pipeline_interleaving),
    ] {
        integer(file, path, value)?;
    }
    parallelism(exe, file)?;
    batch(exe, file)?;
    options(exe, file)
}

fn parallelism(exe: &Execution, file: &str) -> Check {
    let (t, p, d) = (exe.tensor_par, exe.pipeline_par, exe.data_par);
    let product = u128::from(t) * u128::from(p) * u128::from(d);
    if u128::from(exe.num_procs) != product {
        return Err(wrong(
            file,
            "num_procs",
            format!("{} is not tensor_par * pipeline_par * data_par = {t} * {p} * {d}", exe.num_procs),
        )
        .allowed(product.to_string())
        .hint("change num_procs or one of the three"));
    }
    if p == 1 && exe.pipeline_interleaving != 1 {
        return Err(wrong(
            file,
            "pipeline_interleaving",
            format!("{} chunks, but pipeline_par is 1", exe.pipeline_interleaving),
        )
        .allowed("1 when pipeline_par is 1")
        .hint("there is nothing to interleave without a pipeline"));
    }
    Ok(())
}

fn batch(exe: &Execution, file: &str) -> Check {
    let (b, d) = (exe.batch_size, exe.data_par);
    divides(
        file,
        "data_par",
        d,
        b,
        "batch_size",
        "choose a batch that every data-parallel replica gets an equal part of",
    )?;
    divides(
        file,
        "microbatch_size",
        exe.microbatch_size,
        b / d,
        "batch_size / data_par",
        "choose a micro-batch that divides the batch of one replica",
    )
}

fn options(exe: &Execution, file: &str) -> Check {
    let (recompute, overlap) = (exe.activation_recompute.name(), exe.tensor_par_overlap.name());
    let redo = exe.seq_par_ag_redo;
    let sharded = exe.data_par > 1;
    needs(file, "activation_recompute", recompute != "none", recompute, exe.training, "training = true")?;
    needs(file, "optimizer_sharding", exe.optimizer_sharding, "true", sharded, "data_par > 1")?;
    needs(file, "tensor_par_overlap", overlap != "none", overlap, exe.tensor_par > 1, "tensor_par > 1")?;
    let rs_ag = exe.tensor_par_comm_type == TensorComm::RsAg;
    needs(file, "seq_par_ag_redo", redo, "true", rs_ag, "tensor_par_comm_type = rs_ag")?;
    let partial = exe.activation_recompute != Recompute::Full;
    needs(file, "seq_par_ag_redo", redo, "true", partial, "activation_recompute other than full")?;
    needs(file, "data_par_overlap", exe.data_par_overlap, "true", exe.training, "training = true")?;
    needs(file, "data_par_overlap", exe.data_par_overlap, "true", sharded, "data_par > 1")?;
    needs(file, "optimizer_offload", exe.optimizer_offload, "true", exe.training, "training = true")
}

pub(super) fn system(sys: &System, names: &FileNames) -> Check {
    let file = &names.system;
    for (kind, table) in [("matrix", &sys.matrix), ("vector", &sys.vector)] {
        for (datatype, unit) in table {
            engine(file, &format!("{kind}.{datatype}"), unit)?;
        }
    }
    memory(file, "mem1", &sys.mem1, |v| v > 0.0, "a number above 0")?;
    memory(file, "mem2", &sys.mem2, |v| v >= 0.0, "a number, 0 or more")?;
    sys.networks.iter().enumerate().try_for_each(|(i, net)| network(file, &format!("networks[{i}]"), net))
}

fn engine(file: &str, path: &str, unit: &Engine) -> Check {
    number(file, format!("{path}.tflops"), unit.tflops, |v| v > 0.0, "a number above 0, in TFLOP/s")?;
    table(file, &format!("{path}.gflops_efficiency"), &unit.gflops_efficiency)
}

fn memory(file: &str, path: &str, mem: &MemoryTier, ok: fn(f64) -> bool, allowed: &str) -> Check {
    number(file, format!("{path}.GiB"), mem.capacity_gib, ok, allowed)?;
    number(file, format!("{path}.GBps"), mem.bandwidth_gbps, ok, allowed)?;
    table(file, &format!("{path}.MB_efficiency"), &mem.mb_efficiency)
}

/// Thresholds fall strictly to 0, so that every size finds exactly one row.
fn table(file: &str, path: &str, rows: &EfficiencyTable) -> Check {
    for (i, &(size, efficiency)) in rows.iter().enumerate() {
        number(file, format!("{path}[{i}][0]"), size, |v| v >= 0.0, "a size, 0 or more")?;
        let share = |v| 0.0 < v && v <= 1.0;
        number(file, format!("{path}[{i}][1]"), efficiency, share, "an efficiency above 0, at most 1")?;
        if i > 0 && size >= rows[i - 1].0 {
            return Err(wrong(
                file,
                format!("{path}[{i}][0]"),
                format!("{size} does not lie below the row before it, {}", rows[i - 1].0),
            )
            .allowed("strictly decreasing sizes, the last one 0")
            .hint("sort the rows, the largest size first"));
        }
    }
    match rows.last() {
        Some(&(0.0, _)) => Ok(()),
        last => Err(wrong(
            file,
            path,
            last.map_or("the table is empty".to_string(), |row| format!("the last row starts at {}", row.0)),
        )
        .allowed("strictly decreasing sizes, the last one 0")
        .hint("add a last row [0, efficiency] for the smallest sizes")),
    }
}

fn network(file: &str, path: &str, net: &NetworkTier) -> Check {
    let at = |field: &str| format!("{path}.{field}");
    number(file, at("bandwidth"), net.bandwidth, |v| v > 0.0, "a number above 0, in GB/s")?;
    number(file, at("efficiency"), net.efficiency, |v| 0.0 < v && v <= 1.0, "above 0, at most 1")?;
    integer(file, &at("size"), net.size)?;
    number(file, at("latency"), net.latency, |v| v >= 0.0, "seconds, 0 or more")?;
    number(
        file,
        at("processor_usage"),
        net.processor_usage,
        |v| (0.0..1.0).contains(&v),
        "at least 0, below 1",
    )?;
    let NetworkOps { p2p, reduce_scatter, all_gather, all_reduce } = &net.ops;
    if let Some(offset) = p2p.1 {
        return Err(wrong(file, at("ops.p2p[1]"), format!("offset {offset}"))
            .allowed("null")
            .hint("a point-to-point transfer has no group for an offset to refer to"));
    }
    number(file, at("ops.p2p[0]"), p2p.0, |v| v > 0.0, "a number above 0")?;
    for (name, op) in
        [("reduce_scatter", reduce_scatter), ("all_gather", all_gather), ("all_reduce", all_reduce)]
    {
        number(file, at(&format!("ops.{name}[0]")), op.0, |v| v > 0.0, "a number above 0")?;
        let Some(offset) = op.1 else {
            return Err(wrong(file, at(&format!("ops.{name}[1]")), "null")
                .allowed("a number, -1 or more")
                .hint("write 0 when the traffic does not depend on the group size"));
        };
        number(file, at(&format!("ops.{name}[1]")), offset, |v| v >= -1.0, "a number, -1 or more")?;
    }
    Ok(())
}

/// Checks across the three files.
pub(super) fn together(app: &Application, exe: &Execution, sys: &System, names: &FileNames) -> Check {
    split_by_tensor(app, exe, names)?;
    chunks(app, exe, names)?;
    engines(exe, sys, names)?;
    networks(exe, sys, names)?;
    offload(app, exe, sys, names)
}

fn split_by_tensor(app: &Application, exe: &Execution, names: &FileNames) -> Check {
    for (what, size) in
        [("hidden", app.hidden), ("feedforward", app.feedforward), ("attn_heads", app.attn_heads)]
    {
        let hint = "tensor parallelism splits hidden, feedforward and attn_heads evenly";
        divides(&names.execution, "tensor_par", exe.tensor_par, size, what, hint)?;
    }
    if exe.tensor_par_comm_type == TensorComm::Ar {
        return Ok(());
    }
    let tokens = u128::from(exe.microbatch_size) * u128::from(app.seq_size);
    let hint = "rs_ag and p2p_rs_ag scatter the tokens of a micro-batch evenly; choose another size, or ar";
    divides(&names.execution, "tensor_par", exe.tensor_par, tokens, "microbatch_size * seq_size", hint)
}

fn chunks(app: &Application, exe: &Execution, names: &FileNames) -> Check {
    let blocks = app.num_blocks.div_ceil(exe.pipeline_par);
    divides(
        &names.execution,
        "pipeline_interleaving",
        exe.pipeline_interleaving,
        blocks,
        "ceil(num_blocks / pipeline_par)",
        "every chunk of a processor holds the same number of blocks",
    )
}

fn engines(exe: &Execution, sys: &System, names: &FileNames) -> Check {
    let key = exe.datatype.key();
    for (kind, table) in [("matrix", &sys.matrix), ("vector", &sys.vector)] {
        if !table.contains_key(key) {
            let known: Vec<&str> = table.keys().map(String::as_str).collect();
            return Err(wrong(
                &names.execution,
                "datatype",
                format!("{key} is not in {kind} of {}", names.system),
            )
            .allowed(known.join(", "))
            .hint("choose a number format that the system has, or add its rates to the system"));
        }
    }
    Ok(())
}

fn networks(exe: &Execution, sys: &System, names: &FileNames) -> Check {
    let users = [
        ("tensor_par", exe.tensor_par_net, exe.tensor_par),
        ("pipeline_par", exe.pipeline_par_net, exe.pipeline_par),
        ("data_par", exe.data_par_net, exe.data_par),
    ];
    let tiers = sys.networks.len();
    for (name, net, _) in users {
        if net >= tiers as u64 {
            return Err(wrong(
                &names.execution,
                format!("{name}_net"),
                format!("network {net} does not exist: {} has {tiers}", names.system),
            )
            .allowed(if tiers == 0 { "none".to_string() } else { format!("0 to {}", tiers - 1) })
            .hint("tier 0 is the first of the system's networks"));
        }
    }
    for (i, network) in sys.networks.iter().enumerate() {
        let on_tier = users.iter().filter(|u| u.1 == i as u64);
        let group: u128 = on_tier.clone().map(|u| u128::from(u.2)).product();
        let which: Vec<&str> = on_tier.map(|u| u.0).collect();
        let (size, which) = (u128::from(network.size), which.join(" * "));
        let error = |problem: String| wrong(&names.system, format!("networks[{i}].size"), problem);
        if group > size {
            return Err(error(format!("{size} processors, but {which} = {group} run on this network"))
                .allowed(format!("{group} or more"))
                .hint("lower the parallelism or move it to a larger network"));
        }
        if network.must_be_filled && size % group != 0 {
            return Err(error(format!(
                "{size} is no multiple of {which} = {group}, and must_be_filled is true"
            ))
            .allowed(format!("a multiple of {group}"))
            .hint("choose parallelisms that fill the network evenly"));
        }
    }
    Ok(())
}

fn offload(app: &Application, exe: &Execution, sys: &System, names: &FileNames) -> Check {
    let blocks = app.num_blocks.div_ceil(exe.pipeline_par);
    for (path, on) in [
        ("weight_offload", exe.weight_offload),
        ("activations_offload", exe.activations_offload),
        ("optimizer_offload", exe.optimizer_offload),
    ] {
        let need = format!(
            "at least 3 blocks per processor, ceil(num_blocks / pipeline_par) = ceil({} / {}) is {blocks}",
            app.num_blocks, exe.pipeline_par
        );
        needs(&names.execution, path, on, "true", blocks >= 3, &need)?;
        let tier = sys.mem2.capacity_gib > 0.0 && sys.mem2.bandwidth_gbps > 0.0;
        let need =
            format!("a second memory tier, but mem2 of {} has no capacity or no bandwidth", names.system);
        needs(&names.execution, path, on, "true", tier, &need)?;
    }
    Ok(())
}
