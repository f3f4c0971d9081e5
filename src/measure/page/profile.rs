//! The page about measured steps: what `stepsim analyze` says, and the kernels of each rank over time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::profile::breakdown::Sets;
use crate::profile::classes::Family;
use crate::profile::report::{ProfileReport, RankProfile};
use crate::profile::skew::Skew;
use crate::profile::{RankEvents, idle};
use stepsim_read::analysis::candidates::Candidate;
use stepsim_read::page::bars::{self, BarParts};
use stepsim_read::page::lane::{ItemStyle, LaneItem, Looks, TimeRow, few};
use stepsim_read::page::sheet::{Sheet, key, seconds, table};
use stepsim_read::palette;

/// Lines of a table.
const LISTED: usize = 20;
/// The name of the driver's copies and fills.
const COPIES: &str = "copies and fills";

/// The page about profiles and their report; `command` is what made it.
///
/// # Errors
/// If the report cannot be written as JSON.
pub fn page(
    profiles: &[RankEvents],
    report: &ProfileReport,
    command: &[String],
) -> serde_json::Result<String> {
    let title = match report.ranks.as_slice() {
        [one] => format!("{}: rank {}", one.file, one.rank),
        all => format!("{} profiles", all.len()),
    };
    let lanes = Lanes::of(profiles);
    let mut sheet = Sheet::new(&title, lanes.looks.clone(), &colours(&lanes.looks));
    if let Some(first) = report.ranks.first() {
        sheet.facts(facts(first));
    }
    sheet.lead(&report.hangs_on);
    if let Some(now) = report.played_s.filter(|_| !report.candidates.is_empty()) {
        let note = format!("The step played again ({}), with each otherwise.", seconds(now));
        let gain = |c: &Candidate| format!("{:.1} %", 100.0 * c.cost_s() / now);
        let rows = report
            .candidates
            .iter()
            .map(|c| vec![c.what.clone(), c.otherwise.clone(), seconds(c.step_s), gain(c)]);
        sheet.section("What the step hangs on", &note, |out| {
            table(out, &["what", "otherwise", "step then", "gain"], 2, rows);
        });
    }
    let note = format!(
        "{} of {} ranks, one line each: kernels by the work that they do, below them why the device stood still, and \
         communication. Drag to look closer, double-click for all of it.",
        lanes.rows.len(),
        profiles.len()
    );
    let breakdown = breakdown(report, &lanes.looks);
    let looks = lanes.looks.clone();
    sheet.timeline("Kernels over time", &note, lanes.end_ns, lanes.rows);
    let stalls: Vec<(String, &str)> =
        (0..).zip(&looks.stalls).map(|(i, look): (usize, _)| (format!("i{i}"), look.name.as_str())).collect();
    sheet.section("Where the time went", "Of each rank's window; point at a bar for its length.", |out| {
        let parts =
            [("busy", "kernels"), ("exposed", "communication that none hid"), ("copies", "copies alone")];
        key(out, parts.map(|(class, name)| (class.to_owned(), name)).into_iter().chain(stalls));
        out.push_str(&breakdown);
    });
    if let Some(first) = report.ranks.first() {
        waterfall(&mut sheet, first);
        communication(&mut sheet, first);
        tables(&mut sheet, first);
    }
    if let Some(skew) = &report.collectives {
        waited_for(&mut sheet, skew);
    }
    sheet.command(command, &json!(null), &notes(report));
    sheet.finish(json!({}), report)
}

/// Classes of shapes of the bars: the timeline's, by name.
fn colours(looks: &Looks) -> Vec<(String, &'static str)> {
    let mut colours =
        vec![("busy".to_owned(), palette::COMPUTE), ("copies".to_owned(), palette::work(COPIES))];
    colours.extend(looks.stalls.iter().enumerate().map(|(i, look)| (format!("i{i}"), look.colour)));
    colours
}

/// Profiles as rows over time.
pub(super) struct Lanes {
    pub looks: Looks,
    pub rows: Vec<TimeRow>,
    pub end_ns: u64,
}

impl Lanes {
    /// The first moment of all is where the drawing begins if the ranks ran at the same time, else each begins there.
    pub fn of(profiles: &[RankEvents]) -> Lanes {
        let picked: Vec<&RankEvents> = few(profiles).collect();
        let windows: Vec<(i64, i64)> = picked.iter().map(|p| window(p)).collect();
        let first = windows.iter().map(|w| w.0).min().unwrap_or(0);
        let longest = windows.iter().map(|w| w.1 - w.0).max().unwrap_or(0);
        let together = windows.iter().all(|w| w.0 - first < longest);
        let zero = |w: &(i64, i64)| if together { first } else { w.0 };
        let end = windows.iter().map(|w| w.1 - zero(w)).max().unwrap_or(0);
        let end_ns = u64::try_from(end).unwrap_or(0).max(1);
        let found: Vec<ProfileDrawing> = picked.iter().map(|p| ProfileDrawing::of(p)).collect();
        let looks = looks(&found);
        let rows = picked.iter().zip(&found).zip(&windows).map(|((profile, found), window)| {
            let lanes = [
                (&found.kernels, &looks.passes),
                (&found.idle, &looks.stalls),
                (&found.sent, &looks.communication),
            ];
            let offset = zero(window) - profile.base_ns;
            let items = lanes.map(|(spans, looks)| items(spans, looks, offset));
            TimeRow::new(name(profile, &picked), end_ns, picked.len(), items, None)
        });
        Lanes { rows: rows.collect(), looks, end_ns }
    }
}

/// The rank, or of several files that say the same rank, or none, the file.
fn name(profile: &RankEvents, all: &[&RankEvents]) -> String {
    let alike = all.iter().filter(|other| other.rank == profile.rank).count();
    match profile.rank {
        Some(rank) if alike == 1 => format!("rank {rank}"),
        _ => profile.file.rsplit('/').next().unwrap_or_default().chars().take(28).collect(),
    }
}

/// First start and last end, by the clock that all files share if they have one.
fn window(profile: &RankEvents) -> (i64, i64) {
    let (from, to) = Sets::of(&profile.events).window;
    (from.saturating_add(profile.base_ns), to.saturating_add(profile.base_ns))
}

/// From, to and what of everything on a lane.
type LaneSpans = Vec<(i64, i64, String)>;

/// The parts of a profile that are drawn.
struct ProfileDrawing {
    kernels: LaneSpans,
    idle: LaneSpans,
    sent: LaneSpans,
}

impl ProfileDrawing {
    fn of(profile: &RankEvents) -> ProfileDrawing {
        let (mut kernels, mut sent) = (LaneSpans::new(), LaneSpans::new());
        for event in &profile.events {
            let span = |what: &str| (event.start, event.end, what.to_owned());
            match event.family {
                Family::Compute => kernels.push(span(work_of(&profile.class_of(event).work))),
                Family::Memory => kernels.push(span(COPIES)),
                Family::Communication => sent.push(span(profile.kind_of(event))),
            }
        }
        let pieces = idle::pieces(profile, &profile.events, &Sets::of(&profile.events));
        ProfileDrawing { kernels, idle: pieces.into_iter().map(|p| (p.from, p.to, p.cause)).collect(), sent }
    }
}

fn work_of(work: &str) -> &str {
    if work.is_empty() { "other" } else { work }
}

fn looks(found: &[ProfileDrawing]) -> Looks {
    let of = |lane: fn(&ProfileDrawing) -> &LaneSpans, colour: fn(&str) -> &'static str| {
        let names: BTreeSet<&String> = found.iter().flat_map(lane).map(|span| &span.2).collect();
        names.into_iter().map(|name| ItemStyle { name: name.clone(), colour: colour(name) }).collect()
    };
    Looks {
        passes: of(|f| &f.kernels, palette::work),
        stalls: of(|f| &f.idle, palette::idle),
        communication: of(|f| &f.sent, palette::collective),
    }
}

fn items(spans: &LaneSpans, looks: &[ItemStyle], offset: i64) -> Vec<LaneItem> {
    let kinds: BTreeMap<&str, u32> = (0..).zip(looks).map(|(i, look)| (look.name.as_str(), i)).collect();
    let ns = |at: i64| u64::try_from(at.saturating_sub(offset)).unwrap_or(0);
    let item = |(from, to, what): &(i64, i64, String)| LaneItem {
        start: ns(*from),
        end: ns(*to),
        kind: kinds[what.as_str()],
        tag: 0,
    };
    spans.iter().map(item).collect()
}

fn percent(s: f64, of: f64) -> String {
    format!("{:.1} %", 100.0 * s / of.max(f64::MIN_POSITIVE))
}

fn facts(r: &RankProfile) -> Vec<(String, String)> {
    let fact = |value: String, what: &str| (value, what.to_owned());
    let idle: f64 = r.idle_s.values().sum();
    let mut facts = vec![
        fact(seconds(r.step_s), "a step"),
        fact(seconds(r.window_s), "window"),
        fact(percent(r.compute_s, r.window_s), "kernels ran"),
        fact(percent(r.exposed_communication_s, r.window_s), "exposed communication"),
        fact(percent(idle, r.window_s), "nothing ran"),
    ];
    facts.extend(r.mfu.map(|mfu| (format!("{:.1} %", 100.0 * mfu), "MFU".to_owned())));
    facts.extend(r.device.clone().map(|device| (device, format!("rank {}", r.rank))));
    facts
}

/// The parts of each rank's window, which sum to it.
fn breakdown(report: &ProfileReport, looks: &Looks) -> String {
    let whole = report.ranks.iter().map(|r| r.window_s).fold(0.0, f64::max);
    let line = |r: &RankProfile| -> BarParts {
        let idle: f64 = r.idle_s.values().sum();
        let copies = (r.window_s - idle - r.compute_s - r.exposed_communication_s).max(0.0);
        let part = |class: &str, what: &str, s: f64| {
            (class.to_owned(), s, format!("{what}: {} ({})", seconds(s), percent(s, r.window_s)))
        };
        let mut parts = vec![
            part("busy", "kernels", r.compute_s),
            part("exposed", "exposed communication", r.exposed_communication_s),
            part("copies", "copies and fills alone", copies),
        ];
        for (cause, s) in &r.idle_s {
            let place = looks.stalls.iter().position(|look| look.name == *cause);
            let class = place.map_or("idle".to_owned(), |i| format!("i{i}"));
            parts.push(part(&class, cause, *s));
        }
        (format!("rank {}", r.rank), parts, format!("{} kernels", percent(r.compute_s, r.window_s)))
    };
    let lines: Vec<BarParts> = few(&report.ranks).map(line).collect();
    bars::bars("breakdown", "where the time went", whole, &lines)
}

fn waterfall(sheet: &mut Sheet, r: &RankProfile) {
    let Some(waterfall) = &r.waterfall else { return };
    let note = "What of the device's peak is left as MFU over the window, and what took the rest.";
    let bars = waterfall.bars.iter().map(|bar| (bar.what.clone(), bar.share, String::new()));
    let drawing = bars::steps_down(bars, waterfall.mfu);
    sheet.section(&format!("From the peak to MFU, rank {}", r.rank), note, |out| out.push_str(&drawing));
}

fn communication(sheet: &mut Sheet, r: &RankProfile) {
    if r.communication.is_empty() {
        return;
    }
    let whole = r.communication.values().map(|c| c.ran_s).fold(0.0, f64::max);
    let lines: Vec<BarParts> = r
        .communication
        .iter()
        .map(|(kind, c)| {
            let part =
                |class: &str, what: &str, s: f64| (class.to_owned(), s, format!("{what}: {}", seconds(s)));
            let parts = vec![
                part("under", "under kernels", c.under_kernels_s),
                part("exposed", "exposed", c.exposed_s),
            ];
            (
                kind.clone(),
                parts,
                format!("{} in {}, {} exposed", seconds(c.ran_s), c.count, seconds(c.exposed_s)),
            )
        })
        .collect();
    let note = "Green under kernels (only this is overlap), orange exposed: no kernel ran meanwhile.";
    let drawing =
        bars::bars(&format!("communication{}", r.rank), "communication in two parts", whole, &lines);
    sheet.section(&format!("Communication of rank {}", r.rank), note, |out| out.push_str(&drawing));
}

fn tables(sheet: &mut Sheet, r: &RankProfile) {
    let mut kernels: Vec<_> = r.kernels.iter().collect();
    kernels.sort_by(|a, b| b.1.total_s.total_cmp(&a.1.total_s));
    let rows = kernels.iter().take(LISTED).map(|(class, k)| {
        let mean = seconds(k.total_s / k.count.max(1) as f64);
        let share = percent(k.total_s, r.window_s);
        let work = match k.family {
            Family::Compute => work_of(&k.work),
            Family::Communication => "communication",
            Family::Memory => "copies",
        };
        vec![(*class).clone(), work.to_owned(), k.count.to_string(), seconds(k.total_s), mean, share]
    });
    let note = "By the patterns that their names match (--classes takes more).";
    sheet.section(&format!("Kernels of rank {}", r.rank), note, |out| {
        table(out, &["class", "work", "count", "total", "mean", "of the window"], 2, rows);
    });
    let rows = r.gaps.iter().map(|gap| {
        let idle = gap.idle_s.keys().cloned().collect::<Vec<_>>().join(", ");
        let times = [gap.length_s, gap.at_s, gap.communication_s].map(seconds);
        [gap.ended_by.clone(), gap.after.clone(), idle].into_iter().chain(times).collect()
    });
    let note =
        "Stretches without computing kernels and copies, what ended each, and the kernel that came next.";
    sheet.section(&format!("Longest gaps of rank {}", r.rank), note, |out| {
        table(out, &["ended by", "next", "idle for", "length", "at", "communication ran"], 3, rows);
    });
}

fn waited_for(sheet: &mut Sheet, skew: &Skew) {
    let mut ranks: Vec<_> = skew.ranks.iter().collect();
    ranks.sort_by(|a, b| b.waited_for_s.total_cmp(&a.waited_for_s).then(a.rank.cmp(&b.rank)));
    let rows = ranks.into_iter().take(LISTED).map(|r| {
        let clock = r.clock_offset_s.map_or(String::new(), |s| format!("{s:+.6} s"));
        vec![
            format!("rank {}", r.rank),
            r.last.to_string(),
            seconds(r.waited_for_s),
            seconds(r.waits_s),
            clock,
        ]
    });
    let note = format!(
        "{} collectives matched over the ranks, {} without counterpart or arguments.",
        skew.matched, skew.unmatched
    );
    sheet.section("Who was waited for", &note, |out| {
        table(out, &["", "came last", "waited for it", "waited itself", "clock ahead"], 1, rows);
    });
}

/// Events that were passed over.
fn notes(report: &ProfileReport) -> Vec<String> {
    let mut notes: Vec<String> = report.unread.iter().map(|why| format!("not read: {why}")).collect();
    for r in &report.ranks {
        notes.extend(r.skipped.iter().map(|(what, n)| format!("rank {}: skipped {n} {what}", r.rank)));
    }
    if !report.missing_ranks.is_empty() {
        notes.push(format!("{} ranks of the job have no profile here", report.missing_ranks.len()));
    }
    notes
}
