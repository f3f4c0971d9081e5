//! `rocm-smi --showtopo` as the matrix of a node: GPUs that one xGMI link joins, and the sockets
//! of the others.
//!
//! It prints tables, a row a GPU, under a heading each: types of links (`XGMI`, `PCIE`), hops, and behind them the
//! NUMA node of each GPU. An xGMI link between two GPUs is one of their links; where hops are more than one, others
//! lie between.
//!
//! Source: ROCm/rocm_smi_lib, python_smi_tools/rocm_smi.py (showHwTopology); ROCm/amdsmi, amdsmi_cli (topology).

use super::nvidia_smi_matrix::{ConnectionMatrix, wrong};
use stepsim_spec::SpecError;

/// True if a text has a table of types of links.
pub(super) fn is_one(text: &str) -> bool {
    table(text, "link type").is_some()
}

/// The matrix; pairs joined by xGMI are as by one NVLink.
pub(super) fn matrix(text: &str, file: &str) -> Result<ConnectionMatrix, SpecError> {
    let types = table(text, "link type").unwrap_or_default();
    let gpus = types.len();
    if gpus == 0 || types.iter().any(|row| row.len() != gpus) {
        return Err(wrong(file, "has no square table of link types".into()));
    }
    let hops = table(text, "hops").filter(|hops| hops.len() == gpus);
    let nodes: Vec<&str> =
        text.lines().filter_map(|line| line.split_once("Numa Node:")).map(|n| n.1.trim()).collect();
    let word = |i: usize, j: usize| -> Result<String, SpecError> {
        let hops = hops.as_ref().and_then(|hops| hops[i].get(j)).map_or("1", |n| *n);
        Ok(match types[i][j] {
            _ if i == j => "X",
            "XGMI" if hops == "1" => "NV1",
            "XGMI" | "PCIE" if nodes.get(i) == nodes.get(j) => "NODE",
            "XGMI" | "PCIE" => "SYS",
            other => {
                let problem = format!("joins GPU{i} and GPU{j} by `{other}`");
                return Err(wrong(file, problem).allowed("XGMI or PCIE in the table of link types"));
            }
        }
        .into())
    };
    let rows = (0..gpus).map(|i| (0..gpus).map(|j| word(i, j)).collect()).collect::<Result<_, _>>()?;
    Ok(ConnectionMatrix { gpus, rows, nic_gbps: None })
}

/// The rows of a table behind their names, under a heading with these words.
fn table<'t>(text: &'t str, heading: &str) -> Option<Vec<Vec<&'t str>>> {
    let mut lines = text.lines().skip_while(|line| !line.to_ascii_lowercase().contains(heading)).skip(1);
    let words = |line: &'t str| line.split_whitespace().collect::<Vec<&str>>();
    let head = lines.by_ref().map(words).find(|words| !words.is_empty())?;
    let rows = lines.map(words).take_while(|row| row.len() == head.len() + 1);
    let rows: Vec<Vec<&str>> = rows.map(|row| row[1..].to_vec()).collect();
    (!rows.is_empty()).then_some(rows)
}
