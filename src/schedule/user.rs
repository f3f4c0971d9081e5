//! Orders from a JSON file: any schedule that a user can write down.
//!
//! ```json
//! { "ranks": ["F0 F1 B0 B1", "F0 B0 F1 B1"] }
//! ```
//! One string per rank; its slots are separated by blanks: a letter (F, B, I or W), the micro-batch, and after a
//! point the chunk if it is not 0 (`F3.1`); `F3&B0.1` is a forward pass overlapped with a backward pass. Chunk c of
//! rank r is stage c·p + r unless `paths` says where the stages sit: for each direction of micro-batches the
//! [rank, chunk] of each stage, from the first to the last.

use serde::{Deserialize, Serialize};
use stepsim_located::{ReadFault, from_text};

use super::{Order, OrderFault, Pass, Seat, Shape, Slot, SlotPass, StagePlacement};

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderFile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paths: Option<Vec<Vec<(u32, u16)>>>,
    ranks: Vec<String>,
}

/// Why a text is not an order that runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserOrderError {
    /// Not JSON of the right shape.
    #[error("at {path}: {problem}; expected {{\"ranks\": [\"F0 F1 B0 B1\", ...]}} with one string per rank")]
    Json {
        /// Where in the file.
        path: String,
        /// The parser's words.
        problem: String,
    },
    /// A slot that cannot be read.
    #[error(
        "at ranks[{rank}], slot {index}: `{text}` is no slot: {problem}; write F3, B3, I3 or W3, F3.1 for \
         chunk 1, F3&B0.1 for an overlapped pair"
    )]
    Slot {
        /// The rank.
        rank: usize,
        /// Place in its list, from 0.
        index: usize,
        /// The text at that place.
        text: String,
        /// The problem with it.
        problem: String,
    },
    /// The numbers do not fit together.
    #[error("at {path}: {problem}")]
    Numbers {
        /// Where in the file.
        path: &'static str,
        /// The problem, and a setting that would do.
        problem: String,
    },
    /// The order cannot run.
    #[error("the order cannot run: {0}")]
    Order(OrderFault),
}

/// Reads an order and checks that it runs.
///
/// # Errors
/// If the text is not of the format, a pass is missing, doubled or out of its local order, or the ranks deadlock.
pub fn order_from_json(text: &str) -> Result<Order, UserOrderError> {
    let file: OrderFile = from_text(text).map_err(|ReadFault { path, problem }| {
        let root = if problem.starts_with("trailing") { "the end" } else { "." };
        let path = if path.is_empty() { root.to_owned() } else { path };
        UserOrderError::Json { path, problem }
    })?;
    let ranks: Vec<Vec<Slot>> =
        file.ranks.iter().enumerate().map(|(rank, text)| slots(rank, text)).collect::<Result<_, _>>()?;
    let parts = || ranks.iter().flatten().flat_map(|s| s.parts());
    let micro_batches = parts().map(|p| u64::from(p.micro_batch) + 1).max().unwrap_or(0);
    let chunks = parts().map(|p| u64::from(p.chunk) + 1).max().unwrap_or(0);
    let numbers = |path, problem: String| Err(UserOrderError::Numbers { path, problem });
    if chunks == 0 {
        return numbers("ranks", "there is no slot; write at least one rank with F0 B0".to_owned());
    }
    if chunks > u64::from(Shape::MAX_CHUNKS) {
        return numbers(
            "ranks",
            format!("chunk {} is too high: a rank may have {}", chunks - 1, Shape::MAX_CHUNKS),
        );
    }
    if ranks.len() as u64 * micro_batches * chunks * 3 > Shape::MAX_SLOTS {
        let most =
            format!("{} ranks, micro-batch {} and chunk {}", ranks.len(), micro_batches - 1, chunks - 1);
        let limit = Shape::MAX_SLOTS / 3;
        return numbers(
            "ranks",
            format!("{most} are too many: ranks x micro-batches x chunks may be {limit}"),
        );
    }
    let placement = match file.paths {
        None => StagePlacement::looped(ranks.len() as u32, chunks as u16),
        Some(paths) => placement(paths, ranks.len())?,
    };
    if !micro_batches.is_multiple_of(u64::from(placement.directions())) {
        let directions = placement.directions();
        return numbers(
            "ranks",
            format!("{micro_batches} micro-batches do not divide into {directions} directions"),
        );
    }
    let order = Order { placement, micro_batches: micro_batches as u32, ranks };
    order.check().map_err(UserOrderError::Order)?;
    Ok(order)
}

/// The JSON text of an order, as [`order_from_json`] reads it.
pub fn order_to_json(order: &Order) -> String {
    let placement = &order.placement;
    let seats = |d: u16| placement.path(d).iter().map(|s| (s.rank, s.chunk)).collect();
    let looped = *placement == StagePlacement::looped(placement.ranks(), placement.chunks(0));
    let line = |slots: &Vec<Slot>| slots.iter().map(Slot::to_string).collect::<Vec<_>>().join(" ");
    let file = OrderFile {
        paths: (!looped).then(|| (0..placement.directions()).map(seats).collect()),
        ranks: order.ranks.iter().map(line).collect(),
    };
    serde_json::to_string_pretty(&file).expect("strings and numbers are JSON") + "\n"
}

fn placement(paths: Vec<Vec<(u32, u16)>>, ranks: usize) -> Result<StagePlacement, UserOrderError> {
    let fail = |problem| Err(UserOrderError::Numbers { path: "paths", problem });
    let seats = |path: Vec<(u32, u16)>| path.into_iter().map(|(rank, chunk)| Seat { rank, chunk }).collect();
    let paths: Vec<Vec<Seat>> = paths.into_iter().map(seats).collect();
    if let Some(seat) = paths.iter().flatten().find(|s| s.rank as usize >= ranks || s.chunk == u16::MAX) {
        return fail(format!("[{}, {}] is no seat: there are {ranks} ranks", seat.rank, seat.chunk));
    }
    let placement = match StagePlacement::from_paths(paths) {
        Ok(placement) => placement,
        Err(fault) => return fail(fault.to_string()),
    };
    if placement.ranks() as usize != ranks {
        return fail(format!(
            "{} ranks hold stages, but there are {ranks}; give each a stage",
            placement.ranks()
        ));
    }
    Ok(placement)
}

fn slots(rank: usize, text: &str) -> Result<Vec<Slot>, UserOrderError> {
    let read = |(index, text): (usize, &str)| {
        slot(text).map_err(|problem| UserOrderError::Slot { rank, index, text: text.to_owned(), problem })
    };
    text.split_whitespace().enumerate().map(read).collect()
}

fn slot(text: &str) -> Result<Slot, String> {
    let Some((first, second)) = text.split_once('&') else { return Ok(Slot::Single(part(text)?)) };
    let (forward, backward) = (part(first)?, part(second)?);
    if forward.pass != Pass::Forward || backward.pass != Pass::Backward {
        return Err("a pair is an F and a B".to_owned());
    }
    Ok(Slot::Overlapped { forward, backward })
}

fn part(text: &str) -> Result<SlotPass, String> {
    let pass = match text.chars().next() {
        Some('F') => Pass::Forward,
        Some('B') => Pass::Backward,
        Some('I') => Pass::InputGrad,
        Some('W') => Pass::WeightGrad,
        _ => return Err("it starts with none of F, B, I, W".to_owned()),
    };
    let (micro_batch, chunk) = text[1..].split_once('.').unwrap_or((&text[1..], "0"));
    Ok(SlotPass {
        pass,
        chunk: chunk.parse().map_err(|e| format!("chunk `{chunk}`: {e}"))?,
        micro_batch: micro_batch.parse().map_err(|e| format!("micro-batch `{micro_batch}`: {e}"))?,
    })
}
