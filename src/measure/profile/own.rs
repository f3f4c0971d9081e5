//! Timelines of this program: rows whose names begin with their rank's number, categories by kind
//! (`stepsim_read::trace` writes them).

use std::collections::BTreeMap;

use super::classes::{EventClass, Family};
use super::clock::ns;
use super::event::{Members, parse};
use super::model::{DeviceEvent, Mark, RankEvents};
use stepsim_spec::SpecError;

/// The ranks of a timeline so far.
#[derive(Default)]
pub(super) struct OwnRanks {
    ours: bool,
    /// By thread, the rank and the rest of the row's name.
    rows: BTreeMap<String, (u64, String)>,
    ranks: BTreeMap<u64, RankEvents>,
    step: Option<Mark>,
    /// True if a slice of communication stands for several ops.
    merged: bool,
}

impl OwnRanks {
    /// Reads the timeline's metadata.
    pub(super) fn is_ours(&mut self, metadata: &str) {
        self.ours = parse(metadata).is_ok_and(|m| m.raw("stepsim").is_some());
    }

    /// A slice of a category that no profiler writes.
    pub(super) fn slice(&mut self, event: &Members, category: &str) {
        let family = match category {
            _ if !self.ours => return,
            "compute" => Some(Family::Compute),
            "tp" | "cp" | "ep" | "pp send" | "pp recv" | "pp" | "dp" => Some(Family::Communication),
            "h2d" | "d2h" => Some(Family::Memory),
            "stall" | "step" => None,
            _ => return,
        };
        let time = |name| event.raw(name).and_then(ns);
        let (Some(start), Some(length), Some(tid)) = (time("ts"), time("dur"), event.text("tid")) else {
            return;
        };
        let end = start.saturating_add(length.max(0));
        if category == "step" {
            self.step = Some(Mark { name: category.to_owned(), start, end });
            return;
        }
        let Some((number_of_rank, _)) = self.rows.get(&*tid) else { return };
        let rank = self.ranks.entry(*number_of_rank).or_default();
        let args = event.members("args");
        let Some(family) = family else {
            match args.text("exposes") {
                Some(kind) => *rank.exposed.entry(kind.into_owned()).or_default() += end - start,
                None => {
                    let name = args.text("cause").unwrap_or_default().into_owned();
                    rank.stalls.push(Mark { name, start, end });
                }
            }
            return;
        };
        self.merged |= family != Family::Compute && args.raw("ops").is_some();
        let stream = number(&mut rank.streams, (String::new(), tid.into_owned()));
        let class = match (family, args.text("op")) {
            (Family::Memory, _) | (_, None) => category.to_string(),
            (_, Some(op)) => op.into_owned(),
        };
        let work = if family == Family::Compute { work(&args) } else { "" };
        let classified = EventClass { class: class.clone(), family, work: work.to_string() };
        let known = rank.names.iter().zip(&rank.classes).position(|(n, c)| *n == class && *c == classified);
        let name = known.unwrap_or_else(|| {
            rank.names.push(class);
            rank.classes.push(classified);
            rank.names.len() - 1
        }) as u32;
        let kind = category.strip_suffix(" send").or(category.strip_suffix(" recv")).unwrap_or(category);
        let kind = (family == Family::Communication).then(|| number(&mut rank.kinds, kind.to_string()));
        rank.events.push(DeviceEvent {
            start,
            end,
            name,
            family,
            stream,
            launch: None,
            kind,
            collective: None,
        });
    }

    /// The name of a row: `17 tp`, and of the kernels of a rank `17 stage 3`.
    pub(super) fn describe(&mut self, event: &Members) {
        let is_row = event.text("name").is_some_and(|name| name == "thread_name");
        let (Some(tid), Some(name)) = (event.text("tid"), event.members("args").text("name")) else { return };
        let name = name.strip_prefix("device ").unwrap_or(&name);
        let (number, row) = name.split_once(' ').unwrap_or((name, ""));
        if let (true, Ok(number)) = (is_row, number.parse()) {
            self.rows.insert(tid.into_owned(), (number, row.to_owned()));
        }
    }

    /// The ranks by number; none if it is no timeline of this program.
    ///
    /// # Errors
    /// It has not each op of communication by itself, so that it cannot be read as its report says.
    pub(super) fn finish(
        self,
        file: &str,
        skipped: &BTreeMap<String, u64>,
    ) -> Result<Vec<RankEvents>, SpecError> {
        if self.merged || (self.ours && self.ranks.is_empty()) {
            let problem = "stands for several ops with one slice: how long each ran is not in it";
            return Err(SpecError::file(file, problem)
                .allowed("a timeline of --detail op")
                .hint("write it with --detail op, or read what --report writes"));
        }
        let mut ranks = Vec::new();
        for (number, mut rank) in self.ranks {
            rank.rank = Some(number);
            for (number, (_, row)) in (0..).zip(&mut rank.streams) {
                let of_kernels = rank.events.iter().find(|event| event.stream == number);
                let of_kernels = of_kernels.is_some_and(|event| event.family == Family::Compute);
                match self.rows.get(&*row) {
                    // A rank's first row has its name.
                    Some((_, name)) if of_kernels && !name.starts_with("compute") => {
                        *row = "compute".to_owned()
                    }
                    Some((_, name)) => row.clone_from(name),
                    None => {}
                }
            }
            rank.file = file.to_string();
            rank.simulated = true;
            rank.steps.extend(self.step.clone());
            rank.events.sort_by_key(|e| (e.start, e.end));
            rank.stalls.sort_by_key(|s| s.start);
            if ranks.is_empty() {
                rank.skipped.clone_from(skipped);
            }
            if !rank.events.is_empty() {
                ranks.push(rank);
            }
        }
        Ok(ranks)
    }
}

/// Words of products of tokens with one another; those without "attention" are of attention that is not fused.
const ATTENTION: [&str; 4] = ["attention", "query gradient", "key gradient", "value gradient"];

/// The kind of a kernel's work, by the arguments of its slice.
fn work(args: &Members) -> &'static str {
    let has = |key: &str, word: &str| args.text(key).is_some_and(|text| text.contains(word));
    match args.raw("flops").is_some() {
        _ if has("phase", "optimizer") => "optimizer",
        true if ATTENTION.iter().any(|word| has("op", word)) => "attention",
        true => "gemm",
        false => "memory-bound",
    }
}

/// The place of a value in a short list, put there if it is new.
pub(super) fn number<T: PartialEq>(list: &mut Vec<T>, value: T) -> u32 {
    let known = list.iter().position(|v| *v == value);
    known.unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    }) as u32
}
