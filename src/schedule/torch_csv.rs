//! Orders as torch writes them: `_PipelineScheduleRuntime`'s CSV, one row a rank, one action a cell.
//!
//! An action is a stage, what is done, and a micro-batch: `0F3`, `4B0` (both gradients), `4I0` (of the input), `4W0`
//! (of the weights). Gathers of weights, sends and receives (`UNSHARD`, `RESHARD`, `SEND_F`, ...) follow from the
//! order here and are passed over. A pair is `(0F3;4B0)OVERLAP_F_B`. Source:
//! torch/distributed/pipelining/schedules.py, `_Action` and `_load_csv`.

use std::collections::BTreeMap;

use super::Order;
use super::user::{UserOrderError, order_from_json};

/// Actions that are passed over: they compute nothing.
const NOT_COMPUTED: [&str; 7] = ["UNSHARD", "RESHARD", "REDUCE_GRAD", "SEND_F", "RECV_F", "SEND_B", "RECV_B"];

/// One computing action: stage, letter, micro-batch.
type CsvAction = (u32, char, u32);

/// Reads an order and checks that it runs.
///
/// # Errors
/// A cell is no action, a stage stands on two ranks or is missing, or the order cannot run.
pub fn order_from_torch_csv(text: &str) -> Result<Order, UserOrderError> {
    let rows: Vec<Vec<Vec<CsvAction>>> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .enumerate()
        .map(|(rank, line)| row(rank, line))
        .collect::<Result<_, _>>()?;
    let fail = |problem: String| Err(UserOrderError::Numbers { path: "the stages", problem });
    // The rank of each stage; chunks are numbered as stages rise.
    let mut holder: BTreeMap<u32, u32> = BTreeMap::new();
    for (rank, row) in (0..).zip(&rows) {
        for (stage, ..) in row.iter().flatten() {
            let before = *holder.entry(*stage).or_insert(rank);
            if before != rank {
                return fail(format!("stage {stage} stands on rank {before} and on rank {rank}"));
            }
        }
    }
    if let Some(missing) = (0..holder.len() as u32).find(|stage| !holder.contains_key(stage)) {
        return fail(format!("no rank has stage {missing}"));
    }
    let mut chunks = vec![0u16; rows.len()];
    let seats: Vec<(u32, u16)> = holder
        .values()
        .map(|rank| {
            let chunk = chunks[*rank as usize];
            chunks[*rank as usize] = chunk.saturating_add(1);
            (*rank, chunk)
        })
        .collect();
    let part = |(stage, letter, micro_batch): &CsvAction| match seats[*stage as usize].1 {
        0 => format!("{letter}{micro_batch}"),
        chunk => format!("{letter}{micro_batch}.{chunk}"),
    };
    let slot = |slot: &Vec<CsvAction>| slot.iter().map(part).collect::<Vec<_>>().join("&");
    let ranks: Vec<String> =
        rows.iter().map(|row| row.iter().map(slot).collect::<Vec<_>>().join(" ")).collect();
    order_from_json(&serde_json::json!({"paths": [seats], "ranks": ranks}).to_string())
}

/// The computing slots of a rank.
fn row(rank: usize, line: &str) -> Result<Vec<Vec<CsvAction>>, UserOrderError> {
    let mut slots = Vec::new();
    for (index, cell) in line.split(',').enumerate() {
        let cell = cell.trim().trim_matches('"');
        if cell.is_empty() {
            continue;
        }
        let wrong = |problem: &str| UserOrderError::Slot {
            rank,
            index,
            text: cell.to_owned(),
            problem: problem.to_owned(),
        };
        let pair = cell.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let actions: Vec<&str> =
            pair.map_or(vec![cell], |(inside, _)| inside.split(';').map(str::trim).collect());
        let mut slot = Vec::new();
        for text in actions {
            match action(text) {
                Some(Some(action)) => slot.push(action),
                Some(None) => {}
                None => return Err(wrong("it is no action of torch's, like 0F3, 4B0, 4I0 or 4W0")),
            }
        }
        if !slot.is_empty() {
            slots.push(slot);
        }
    }
    Ok(slots)
}

/// `None`: no action; `Some(None)`: one that computes nothing.
fn action(text: &str) -> Option<Option<CsvAction>> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let stage = text[..digits].parse().ok()?;
    let rest = &text[digits..];
    if NOT_COMPUTED
        .iter()
        .any(|name| rest.strip_prefix(name).is_some_and(|mb| mb.is_empty() || mb.parse::<u32>().is_ok()))
    {
        return Some(None);
    }
    let letter = rest.chars().next().filter(|c| matches!(c, 'F' | 'B' | 'I' | 'W'))?;
    Some(Some((stage, letter, rest[1..].parse().ok()?)))
}
