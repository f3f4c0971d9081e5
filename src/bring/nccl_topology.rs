//! NCCL's topology file (`NCCL_TOPO_DUMP_FILE`, `NCCL_TOPO_FILE`: XML) as the matrix of a node.
//!
//! `<cpu>` is a NUMA node, `<pci>` a PCIe switch or the port of a device: `<gpu>` with its `<nvlink>`s (`count` to a
//! `target`: another GPU's bus, or a switch where `tclass` is a bridge, 0x0680), or `<nic>` with `<net>` and its
//! `speed` in Mb/s. Two devices of one `<pci>` are joined by `PIX`, of two in one by `PXB`, of one `<cpu>` by `NODE`.
//!
//! Source: NVIDIA/nccl, src/graph/xml.cc and topo.cc.

use super::nvidia_smi_matrix::{ConnectionMatrix, wrong};
use stepsim_spec::SpecError;

/// True if a text is such a file.
pub(super) fn is_one(text: &str) -> bool {
    text.contains("<system") && text.contains("<cpu")
}

/// A GPU or an adapter and the tags around it, the outermost first.
#[derive(Default)]
struct Placed {
    around: Vec<String>,
    /// Links to GPUs by their bus.
    links: Vec<(String, u32)>,
    /// Links to switches.
    switched: u32,
}

/// The matrix of a file.
pub(super) fn matrix(text: &str, file: &str) -> Result<ConnectionMatrix, SpecError> {
    let mut open: Vec<String> = Vec::new();
    let (mut gpus, mut nics): (Vec<Placed>, Vec<Placed>) = Default::default();
    let mut mbps: Option<f64> = None;
    for tag in text.split('<').skip(1).filter_map(|piece| piece.split_once('>')).map(|(tag, _)| tag) {
        let of = |name: &str| attribute(tag, name).unwrap_or_default().to_owned();
        let name = tag.split([' ', '/', '\n']).next().unwrap_or_default();
        match name {
            "" if ["/pci", "/cpu"].iter().any(|end| tag.starts_with(end)) => drop(open.pop()),
            "cpu" | "pci" if !tag.ends_with('/') => {
                open.push(format!("{name} {}{}", of("numaid"), of("busid")))
            }
            "gpu" => gpus.push(Placed { around: open.clone(), ..Placed::default() }),
            "nvlink" => {
                let count: u32 =
                    of("count").parse().map_err(|_| wrong(file, format!("has <{tag}>, no count")))?;
                let Some(gpu) = gpus.last_mut() else { continue };
                match of("tclass").starts_with("0x0680") {
                    true => gpu.switched += count,
                    false => gpu.links.push((of("target"), count)),
                }
            }
            "net" => {
                nics.push(Placed { around: open.clone(), ..Placed::default() });
                mbps = of("speed").parse::<f64>().ok().filter(|speed| *speed > 0.0).or(mbps);
            }
            _ => {}
        }
    }
    if gpus.is_empty() {
        return Err(wrong(file, "has no <gpu>".into()));
    }
    let all: Vec<&Placed> = gpus.iter().chain(&nics).collect();
    let row = |gpu: &Placed| all.iter().map(|other| word(gpu, other)).collect();
    let rows = gpus.iter().map(row).collect();
    // 10⁶ bits in a second.
    Ok(ConnectionMatrix { gpus: gpus.len(), rows, nic_gbps: mbps.map(|mbps| mbps / 8000.0) })
}

/// How two devices are joined.
fn word(one: &Placed, other: &Placed) -> String {
    if std::ptr::eq(one, other) {
        return "X".into();
    }
    let bus = other.around.last().map_or("", |tag| tag.trim_start_matches("pci "));
    let direct: u32 = one.links.iter().filter(|(target, _)| target == bus).map(|(_, count)| count).sum();
    let links = if direct > 0 { direct } else { one.switched.min(other.switched) };
    let shared = one.around.iter().zip(&other.around).take_while(|(a, b)| a == b).count();
    match (links, shared) {
        (1.., _) => format!("NV{links}"),
        (_, 0) => "SYS".into(),
        (_, 1) => "NODE".into(),
        _ if shared + 1 == one.around.len().max(other.around.len()) => "PIX".into(),
        _ => "PXB".into(),
    }
}

/// The value of an attribute of a tag.
fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}
