//! A step for readers, as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::StepView;
use crate::inspect::documents::DocumentsView;
use crate::inspect::machine::capacity;
use crate::inspect::ranges::ranges;
use stepsim_core::program::MemoryClass;
use stepsim_core::units::Bytes;
pub use stepsim_read::analysis::table::{grouped, new_table, seconds};

impl StepView {
    /// As text of at most `width` columns.
    pub(in crate::inspect) fn text(&self, width: u16) -> String {
        let mut out = String::new();
        self.headline(&mut out);
        if let Some(documents) = &self.documents {
            documents.text(&mut out, width);
        }
        self.groups_text(&mut out);
        self.programs_text(&mut out, width);
        self.memory_text(&mut out, width);
        self.collectives_text(&mut out, width);
        out
    }

    fn headline(&self, out: &mut String) {
        let schedule = self.schedule.name();
        let axes: Vec<String> = self.layout.iter().map(|(axis, size)| format!("{axis} {size}")).collect();
        let trained = match self.trained_parameters {
            all if all == self.parameters => String::new(),
            some => {
                let adapters = if self.adapted { " and adapters" } else { "" };
                format!("{adapters}, {} trained", grouped(some))
            }
        };
        let passes = match self.documents.as_ref().is_some_and(DocumentsView::are_dynamic) {
            true => format!("{} packed sequences on the rank with most", self.micro_batches),
            false => {
                format!(
                    "{} micro-batches of {} on each data-parallel rank",
                    self.micro_batches, self.micro_batch
                )
            }
        };
        let layout = if axes.is_empty() { "one rank".to_string() } else { axes.join(" × ") };
        let _ = writeln!(
            out,
            "step {}: {}, {:.2} billion parameters{}, {} layers\n  {} sequences of {} tokens; {passes}; \
             schedule {schedule}, {} chunk(s) a rank",
            self.workload,
            self.model,
            self.parameters as f64 / 1e9,
            trained,
            self.layers,
            grouped(self.global_batch),
            grouped(self.sequence),
            self.chunks,
        );
        let _ = writeln!(
            out,
            "  {} ranks: {layout}, {}; {} ops; folds to {} ranks",
            grouped(self.ranks.into()),
            if self.mapped { "placed by a rank map" } else { "the first axis on neighbouring devices" },
            grouped(self.ops),
            grouped(self.simulated_ranks),
        );
        self.modules.iter().for_each(|module| module.text(out));
        for note in &self.notes {
            let _ = writeln!(out, "  note: {note}");
        }
    }

    fn groups_text(&self, out: &mut String) {
        let _ = writeln!(out, "\n  groups of {}", self.rank_name);
        for group in &self.groups {
            let members = match group.members[..] {
                [from, to] if group.stream.starts_with("pp") => format!("{from} → {to}"),
                _ => ranges(&group.members),
            };
            let _ = writeln!(out, "    {:<8} {members}", group.stream);
        }
        if self.groups.is_empty() {
            let _ = writeln!(out, "    none: it communicates with nobody");
        }
    }

    fn programs_text(&self, out: &mut String, width: u16) {
        let streams: BTreeSet<&str> = self.programs.iter().flat_map(|p| p.ops.keys().copied()).collect();
        let mut head: Vec<String> =
            ["  stage", "ranks", "layers", "TFLOPs", "moved"].map(String::from).to_vec();
        head.extend(streams.iter().map(|s| s.to_string()));
        let mut table = new_table(width, head);
        for p in &self.programs {
            let layers = (!p.layers.is_empty()).then(|| ranges(&p.layers));
            let mut row = vec![
                format!("  {}", p.stage),
                grouped(p.ranks.into()),
                p.modules.iter().cloned().chain(layers).collect::<Vec<_>>().join(", "),
                format!("{:.1}", p.flops / 1e12),
                Bytes(p.communication_bytes as u64).to_string(),
            ];
            row.extend(streams.iter().map(|s| p.ops.get(s).map_or("·".to_string(), |n| grouped(*n))));
            table.add_row(row);
        }
        let _ = writeln!(out, "\n  program of one rank of each stage: work, and ops by stream\n{table}");
    }

    fn memory_text(&self, out: &mut String, width: u16) {
        let mut head: Vec<String> = ["  stage", "tier", "peak", "of"].map(String::from).to_vec();
        head.extend(MemoryClass::ALL.iter().map(|c| c.name().to_string()));
        let mut table = new_table(width, head);
        for p in &self.programs {
            for m in &p.memory {
                let mut row = vec![
                    format!("  {}", p.stage),
                    m.tier.clone(),
                    Bytes(m.peak_bytes).to_string(),
                    capacity(m.capacity_bytes),
                ];
                row.extend(MemoryClass::ALL.iter().map(|c| match m.by_class.get(c.name()) {
                    None | Some(0) => "·".to_string(),
                    Some(bytes) => Bytes(*bytes).to_string(),
                }));
                table.add_row(row);
            }
        }
        let _ = writeln!(out, "\n  memory of one rank at its peak (estimated in program order)\n{table}");
    }

    fn collectives_text(&self, out: &mut String, width: u16) {
        if self.collectives.is_empty() {
            return;
        }
        let head = [
            "  stream",
            "transfer",
            "bytes",
            "ranks",
            "algorithm",
            "protocol",
            "chosen by",
            "alone",
            "times a step",
        ];
        let mut table = new_table(width, head.map(String::from).to_vec());
        for c in &self.collectives {
            let (least, most) = c.times;
            table.add_row([
                format!("  {}", c.stream),
                c.name.clone(),
                Bytes(c.bytes).to_string(),
                grouped(c.group.into()),
                c.algorithm.clone(),
                c.protocol.clone(),
                c.chosen_by.clone(),
                seconds(c.expected_s),
                if least == most { grouped(most) } else { format!("{}–{}", grouped(least), grouped(most)) },
            ]);
        }
        let _ = writeln!(out, "\n  transfers of one rank, and the algorithm chosen\n{table}");
    }
}
