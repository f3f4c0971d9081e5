//! The matrix that `nvidia-smi topo -m` prints, and the rates that it does not.

use stepsim_spec::SpecError;

/// The facts that the matrix lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRates {
    /// Of one NVLink or xGMI link, a direction, in 10⁹ B/s; where it is not said the device's.
    pub nvlink_gbps: Option<f64>,
    /// Of a GPU's PCIe port, where there are no NVLinks.
    pub pcie_gbps: f64,
    /// Of a network adapter.
    pub nic_gbps: f64,
    /// Nodes.
    pub nodes: u32,
}

const ALLOWED: &str = "what `nvidia-smi topo -m` prints: a header of GPU0 GPU1 ... NIC0 ..., and a row for each \
     GPU; what `rocm-smi --showtopo` prints; NCCL's topology file";

/// Most GPUs and adapters.
const MOST: usize = 1024;

pub(super) fn wrong(file: &str, problem: String) -> SpecError {
    SpecError::file(file, problem).allowed(ALLOWED)
}

/// How each GPU is joined to each other device.
pub(super) struct ConnectionMatrix {
    pub gpus: usize,
    /// By GPU, the words to all GPUs, then to all adapters.
    pub rows: Vec<Vec<String>>,
    /// Of an adapter, where the text says it.
    pub nic_gbps: Option<f64>,
}

impl ConnectionMatrix {
    pub(super) fn read(text: &str, file: &str) -> Result<ConnectionMatrix, SpecError> {
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
        Ok(ConnectionMatrix { gpus, rows, nic_gbps: None })
    }

    /// NVLinks between two GPUs.
    pub fn between(&self, i: usize, j: usize) -> u32 {
        self.rows[i][j].strip_prefix("NV").and_then(|n| n.parse::<u32>().ok()).unwrap_or(0)
    }

    /// NVLinks between any two GPUs; `None` where pairs differ.
    pub(super) fn nvlinks(&self) -> Option<u32> {
        if self.gpus < 2 {
            return Some(0);
        }
        let first = self.between(0, 1);
        let pairs = (0..self.gpus).flat_map(|i| (0..i).map(move |j| (i, j)));
        let even = |(i, j): (usize, usize)| self.between(i, j) == first && self.between(j, i) == first;
        pairs.into_iter().all(even).then_some(first)
    }

    /// Refuses a node where one GPU has no NVLink while all others have some to one another.
    pub(super) fn lost(&self, file: &str) -> Result<(), SpecError> {
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
    pub(super) fn adapters(&self) -> (usize, bool) {
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
