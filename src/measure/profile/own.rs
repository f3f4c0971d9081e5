//! Timelines of this program: a process a rank, rows by stream, categories by kind (`stepsim_read::trace` writes them).

use std::collections::BTreeMap;

use super::classes::{EventClass, Family};
use super::clock::ns;
use super::event::{Members, parse};
use super::model::{DeviceEvent, Mark, RankEvents};

/// The ranks of a timeline so far, by process.
#[derive(Default)]
pub(super) struct OwnRanks {
    ours: bool,
    names: BTreeMap<String, String>,
    rows: BTreeMap<(String, String), String>,
    ranks: BTreeMap<String, RankEvents>,
    step: Option<Mark>,
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
        let (Some(start), Some(length), Some(pid)) = (time("ts"), time("dur"), event.text("pid")) else {
            return;
        };
        let end = start.saturating_add(length.max(0));
        let name = event.text("name").unwrap_or_default().into_owned();
        if category == "step" {
            self.step = Some(Mark { name, start, end });
            return;
        }
        // Stalls may stand in a process of their own, and then say whose they are.
        let owner =
            (family.is_none()).then(|| event.members("args").text("rank")?.parse::<u64>().ok()).flatten();
        let pid = owner.map_or(pid, |rank| (rank + 1).to_string().into());
        let rank = self.ranks.entry(pid.clone().into_owned()).or_default();
        let Some(family) = family else {
            rank.stalls.push(Mark { name, start, end });
            return;
        };
        let tid = event.text("tid").unwrap_or_default().into_owned();
        let stream = number(&mut rank.streams, (pid.into_owned(), tid));
        let class = match (family, event.members("args").text("op")) {
            (Family::Memory, _) | (_, None) => category.to_string(),
            (_, Some(op)) => op.into_owned(),
        };
        let work = if family == Family::Compute { work(&event.members("args")) } else { "" };
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

    /// The name of a process or of a row.
    pub(super) fn describe(&mut self, event: &Members) {
        let (Some(what), Some(pid)) = (event.text("name"), event.text("pid")) else { return };
        let Some(name) = event.members("args").text("name") else { return };
        let tid = event.text("tid").unwrap_or_default();
        match &*what {
            "process_name" => drop(self.names.insert(pid.into_owned(), name.into_owned())),
            "thread_name" => drop(self.rows.insert((pid.into_owned(), tid.into_owned()), name.into_owned())),
            _ => {}
        }
    }

    /// The ranks by number; none if it is no timeline of this program.
    pub(super) fn finish(self, file: &str, skipped: &BTreeMap<String, u64>) -> Vec<RankEvents> {
        let mut ranks = Vec::new();
        // By number: as texts, 10 is before 2.
        let mut by_number: Vec<(String, RankEvents)> = self.ranks.into_iter().collect();
        by_number.sort_by_key(|(pid, _)| (pid.len(), pid.clone()));
        for (pid, mut rank) in by_number {
            let name = self.names.get(&pid).cloned().unwrap_or_default();
            rank.rank = name.strip_prefix("rank ").and_then(|rest| {
                rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok())
            });
            // Names of rows begin with the rank's.
            let short = name.split(" · ").next().unwrap_or_default();
            for (process, row) in &mut rank.streams {
                if let Some(title) = self.rows.get(&(process.clone(), row.clone())) {
                    title.strip_prefix(short).unwrap_or(title).trim_start().clone_into(row);
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
        ranks.sort_by_key(|rank: &RankEvents| rank.rank);
        ranks
    }
}

/// The kind of a kernel's work, by the arguments of its slice.
fn work(args: &Members) -> &'static str {
    let has = |key: &str, word: &str| args.text(key).is_some_and(|text| text.contains(word));
    match args.raw("flops").is_some() {
        _ if has("phase", "optimizer") => "optimizer",
        true if has("op", "attention") => "attention",
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
