//! What `nvidia-smi topo -m` prints, as a machine file: how the GPUs of a node are joined, and which network adapters they have.
//!
//! The matrix says for each pair how it is joined: `NV18` (so many NVLinks), else the worst that lies between: `PIX`, `PXB` (PCIe
//! switches), `PHB` (a host bridge), `NODE`, `SYS` (between sockets). It gives no rates: those of a link are asked for. Where all
//! pairs have equally many NVLinks these meet in a switch, or, where a device has just so many, lead from GPU to GPU;
//! what is joined unevenly is drawn link by link ([`super::nvidia_smi_graph`]). Adapters that hang at a GPU's own PCIe
//! switch are its own.
//! Where the table of plain `nvidia-smi` stands in the same file, its total is the memory of the device.

use serde_json::{Value, json};

use super::SpecError;

/// What the matrix does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRates {
    /// Of one NVLink, a direction, in 10⁹ B/s.
    pub nvlink_gbps: f64,
    /// Of a GPU's PCIe port, where there are no NVLinks.
    pub pcie_gbps: f64,
    /// Of a network adapter.
    pub nic_gbps: f64,
    /// Nodes.
    pub nodes: u32,
}

const ALLOWED: &str =
    "what `nvidia-smi topo -m` prints: a header of GPU0 GPU1 ... NIC0 ..., and a row for each GPU";
/// Bytes.
const MIB: f64 = 1_048_576.0;
/// Most GPUs and adapters.
const MOST: usize = 1024;

/// The machine of a node's matrix, on a device of that name or file, and what was assumed.
///
/// # Errors
/// It is no such matrix, or of a node that is no machine of ours.
pub fn machine(
    text: &str,
    file: &str,
    device: &str,
    rates: &NodeRates,
) -> Result<(Value, Vec<String>), SpecError> {
    let matrix = Matrix::read(text, file)?;
    let gpus = matrix.gpus;
    let mut assumed = Vec::new();
    let hardware = match least_memory_mib(text) {
        Some(mib) => {
            assumed.push(format!("{mib} MiB of memory a GPU, the total that nvidia-smi shows"));
            json!({"base": device, "hbm": {"GB": (mib as f64 * MIB / 1e7).round() / 100.0}})
        }
        None => json!(device),
    };
    let scale_up =
        |gbps: f64| json!({"switch": {"link": {"bandwidth_GBps_per_direction": gbps}, "latency_us": 1}});
    let description = format!("A node as nvidia-smi shows it ({file})");
    let mut node = json!({"devices": gpus});
    if gpus > 1 {
        let Some(links) = matrix.nvlinks() else {
            matrix.lost(file)?;
            let (graph, more) = super::nvidia_smi_graph::graph(&matrix, file, &hardware, rates)?;
            assumed.extend(more);
            return Ok((json!({"description": description, "device": hardware, "graph": graph}), assumed));
        };
        let all = links * (gpus as u32 - 1);
        node["scale_up"] = match links {
            0 => {
                assumed.push(format!("no NVLinks: each GPU has a PCIe port of {} GB/s", rates.pcie_gbps));
                scale_up(rates.pcie_gbps)
            }
            links if nvlinks_of(device).is_some_and(|most| all <= most) => {
                assumed.push(format!(
                    "{links} NVLinks of {} GB/s a direction from each GPU to each other, without a switch: {all} at \
                     each",
                    rates.nvlink_gbps
                ));
                json!({"full_mesh": {"link": {
                    "bandwidth_GBps_per_direction": f64::from(links) * rates.nvlink_gbps, "latency_us": 1,
                }}})
            }
            links => {
                assumed.push(format!(
                    "{links} NVLinks of {} GB/s a direction at each GPU, through a switch",
                    rates.nvlink_gbps
                ));
                scale_up(f64::from(links) * rates.nvlink_gbps)
            }
        };
        assumed.push("1 us from GPU to GPU".to_owned());
    }
    let mut machine = json!({
        "description": description, "device": hardware, "nodes": rates.nodes,
    });
    if gpus > 2 && !node["scale_up"]["full_mesh"].is_null() {
        // NCCL lays as many rings as a mesh has links (graph search, src/graph/search.cc); these take what all links
        // take.
        let rule = |op: &str, algorithm: &str| json!({"op": op, "algorithm": algorithm, "max_nodes": 1});
        machine["collectives"] = json!({"rules": [
            rule("all-reduce", "two-shot"), rule("all-gather", "direct"), rule("reduce-scatter", "direct"),
        ]});
    }
    if rates.nodes > 1 {
        let (nics, near) = matrix.adapters();
        let (shared_by, bundle) = match nics {
            0 => {
                return Err(wrong(file, "shows no network adapter".into())
                    .hint("a machine of one node needs none: --nodes 1"));
            }
            nics if nics >= gpus && nics.is_multiple_of(gpus) => (1, nics / gpus),
            nics if gpus.is_multiple_of(nics) => (gpus / nics, 1),
            nics => return Err(wrong(file, format!("shows {nics} network adapters for {gpus} GPUs"))),
        };
        let of = if near { "at the GPUs' own PCIe switches" } else { "none of them at a GPU's PCIe switch" };
        assumed.push(format!("{nics} network adapters of {} GB/s, {of}", rates.nic_gbps));
        assumed.push("one switch between the nodes, 2 us".to_owned());
        node["nics"] = json!({
            "shared_by": shared_by, "bundle": bundle, "link": {"bandwidth_GBps_per_direction": rates.nic_gbps},
        });
        machine["fabric"] = json!({"clos": {"tiers": [{"name": "switch", "latency_us": 2}]}});
    }
    machine["node"] = node;
    Ok((machine, assumed))
}

/// NVLinks of a device by its name (NVIDIA's data sheets); where they are not known a switch is taken.
fn nvlinks_of(device: &str) -> Option<u32> {
    let links = [
        ("v100", 6),
        ("p100", 4),
        ("a100", 12),
        ("a800", 8),
        ("a30", 4),
        ("a40", 4),
        ("a6000", 4),
        ("3090", 4),
        ("h800", 8),
        ("h100", 18),
        ("h200", 18),
        ("h20", 18),
        ("gh200", 18),
        ("b200", 18),
        ("b300", 18),
    ];
    let name = device.to_ascii_lowercase();
    links.iter().find(|(part, _)| name.contains(part)).map(|(_, links)| *links)
}

/// The least total of the GPUs in what plain `nvidia-smi` prints (`4MiB / 81559MiB`), in MiB; nothing where no such
/// table is.
fn least_memory_mib(text: &str) -> Option<u64> {
    let total = |line: &str| {
        let (_, after) = line.split_once("MiB /")?;
        after.split_once("MiB")?.0.trim().parse::<u64>().ok().filter(|mib| *mib > 0)
    };
    text.lines().filter_map(total).min()
}

pub(super) fn wrong(file: &str, problem: String) -> SpecError {
    SpecError::file(file, problem).allowed(ALLOWED)
}

/// How each GPU is joined to each other device.
pub(super) struct Matrix {
    pub gpus: usize,
    /// By GPU, the words to all GPUs, then to all adapters.
    pub rows: Vec<Vec<String>>,
}

impl Matrix {
    fn read(text: &str, file: &str) -> Result<Matrix, SpecError> {
        let plain = plain(text);
        let mut lines = plain.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let head = lines.find(|words| words.first().is_some_and(|word| numbered(word, "GPU")));
        let head = head.ok_or_else(|| wrong(file, "has no line that begins with GPU0".into()))?;
        let device = |word: &&&str| numbered(word, "GPU") || numbered(word, "NIC") || numbered(word, "mlx5_");
        let columns = head.iter().take_while(device).count();
        let gpus = head.iter().filter(|word| numbered(word, "GPU")).count();
        if columns > MOST {
            return Err(wrong(file, format!("has {columns} columns")));
        }
        let rows: Vec<Vec<String>> = lines
            .filter(|words| words.first().is_some_and(|word| numbered(word, "GPU")))
            .map(|words| words[1..].iter().take(columns).map(|word| (*word).to_owned()).collect())
            .collect();
        if rows.len() != gpus {
            return Err(wrong(
                file,
                format!("has {gpus} GPUs in its header and {} rows of them", rows.len()),
            ));
        }
        for (i, row) in rows.iter().enumerate() {
            if row.len() != columns || row[i] != "X" {
                return Err(wrong(
                    file,
                    format!(
                        "the row of GPU{i} has {} entries for {columns} columns, or no X on itself",
                        row.len()
                    ),
                ));
            }
            if let Some(word) = row.iter().find(|word| !is_known(word)) {
                return Err(wrong(file, format!("the row of GPU{i} has `{word}`"))
                    .allowed("X, NV1 ..., PIX, PXB, PHB, NODE, SYS"));
            }
        }
        Ok(Matrix { gpus, rows })
    }

    /// NVLinks between two GPUs.
    pub fn between(&self, i: usize, j: usize) -> u32 {
        self.rows[i][j].strip_prefix("NV").and_then(|n| n.parse::<u32>().ok()).unwrap_or(0)
    }

    /// NVLinks between any two GPUs; `None` where pairs differ.
    fn nvlinks(&self) -> Option<u32> {
        let first = self.between(0, 1);
        let pairs = (0..self.gpus).flat_map(|i| (0..i).map(move |j| (i, j)));
        let even = |(i, j): (usize, usize)| self.between(i, j) == first && self.between(j, i) == first;
        pairs.into_iter().all(even).then_some(first)
    }

    /// Refuses a node of which one GPU has no NVLink while all others have some to one another.
    fn lost(&self, file: &str) -> Result<(), SpecError> {
        let others = |i: usize| (0..self.gpus).filter(move |j| *j != i);
        let bare: Vec<usize> =
            (0..self.gpus).filter(|i| others(*i).all(|j| self.between(*i, j) == 0)).collect();
        let [lost] = bare.as_slice() else { return Ok(()) };
        let whole = others(*lost).all(|i| others(i).all(|j| j == *lost || self.between(i, j) > 0));
        if !whole || self.gpus < 4 {
            return Ok(());
        }
        let (a, b) = (usize::from(*lost == 0), *lost);
        let problem = format!(
            "GPU{lost} has no NVLink to any other, and they have some to one another (GPU{a} and GPU{b} are \
             joined by {}): is it broken?",
            self.rows[a][b]
        );
        Err(SpecError::file(file, problem)
            .allowed("NVLinks at all GPUs or at none, or pairs of them")
            .hint(format!("without GPU{lost}: leave out its row and its column")))
    }

    /// Adapters that a GPU reaches over PCIe switches alone, and whether there are any; else all.
    fn adapters(&self) -> (usize, bool) {
        let columns = self.rows.first().map_or(0, Vec::len);
        let near =
            |column: &usize| self.rows.iter().any(|row| matches!(row[*column].as_str(), "PIX" | "PXB"));
        match (self.gpus..columns).filter(near).count() {
            0 => (columns - self.gpus, false),
            near => (near, true),
        }
    }
}

fn is_known(word: &str) -> bool {
    let nvlinks = word.strip_prefix("NV").is_some_and(|n| n.parse::<u8>().is_ok());
    nvlinks || ["X", "PIX", "PXB", "PHB", "NODE", "SYS"].contains(&word)
}

fn numbered(word: &str, kind: &str) -> bool {
    word.strip_prefix(kind).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The text without the escapes that underline its header.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            out.push(c);
        }
    }
    out
}
