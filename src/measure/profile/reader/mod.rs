//! Profiles from files: PyTorch's (Kineto) of any year, and timelines of this program.
//!
//! The category alone tells device events: `kernel`, `gpu_memcpy`, `gpu_memset`, and the old `Kernel`, `Memcpy`,
//! `Memset`. A `cpu_op` may have a stream argument (torch.compile writes it) and is none. The file is read as a
//! stream; memory grows with device events and calls, not with operators, stacks and shapes.

mod link;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use rustc_hash::FxHashMap;

use super::category::EventRole;
use super::classes::{ClassTables, Family};
use super::clock::ns;
use super::event::{Members, mended, parse, plain};
use super::model::{Call, CollectiveArgs, DeviceEvent, Does, Mark, RankEvents};
use super::own::OwnRanks;
use super::scan::{Ending, FilePiece, scan};
use stepsim_spec::SpecError;
use stepsim_spec::files::note_read;

/// The allowed kinds of trace files, for messages.
const ALLOWED: &str = "a PyTorch profiler trace (.json or .json.gz: an object with `traceEvents`, or a list \
                       of events), or a timeline that `stepsim run -o x.json.gz` wrote";

/// Reads the profiles of a file: one, or one a rank of a timeline of this program.
///
/// Broken events of the file are passed over and counted ([`RankEvents::skipped`]).
///
/// # Errors
/// The file cannot be read, is no trace, or holds no device event.
pub fn read(path: &Path, classes: &ClassTables) -> Result<Vec<RankEvents>, SpecError> {
    let file = path.display().to_string();
    let input = File::open(path).map_err(|e| SpecError::file(&file, format!("cannot be read: {e}")))?;
    note_read(path);
    read_from(BufReader::with_capacity(1 << 17, input), &file, classes)
}

/// [`read`] from any source; `file` is its name for messages.
///
/// # Errors
/// As [`read`].
pub fn read_from(
    mut input: impl io::BufRead,
    file: &str,
    classes: &ClassTables,
) -> Result<Vec<RankEvents>, SpecError> {
    let start = input.fill_buf().map_err(|e| SpecError::file(file, format!("cannot be read: {e}")))?;
    let input: Box<dyn Read + '_> = match start {
        [0x1F, 0x8B, ..] => Box::new(MultiGzDecoder::new(input)),
        _ => Box::new(input),
    };
    let mut reader = EventReader::new(classes);
    match scan(input, &mut |piece| reader.take(piece)) {
        Ending::Whole => {}
        Ending::Truncated(at, why) => {
            let why = why.map_or(String::new(), |w| format!(" ({w})"));
            reader.skip(&format!("end of the file: it breaks off at byte {at}{why}"));
        }
        Ending::Foreign(why) => {
            let perfetto =
                [".pftrace", ".pftrace.gz", ".perfetto-trace"].iter().any(|end| file.ends_with(end));
            let hint = if perfetto {
                "a timeline in Perfetto's own format is for its viewer: write it as .json.gz, which is read here too"
            } else {
                ""
            };
            let error = SpecError::file(file, format!("{why}, so it is no trace"));
            return Err(error.allowed(ALLOWED).hint(hint));
        }
    }
    reader.finish(file)
}

/// The state of reading after the events so far.
struct EventReader<'c> {
    classes: &'c ClassTables,
    profile: RankEvents,
    names: EventNames,
    streams: ValueNumbers<(String, String)>,
    threads: ValueNumbers<(String, String)>,
    kinds: ValueNumbers<String>,
    collectives: ValueNumbers<CollectiveArgs>,
    correlations: ValueNumbers<String>,
    device: Vec<Pending>,
    calls: Vec<(Call, Option<i64>)>,
    call_of: FxHashMap<i64, u32>,
    /// Collective arguments by the `External id` of the operator.
    by_external: FxHashMap<i64, u32>,
    /// The profiler's marks of collectives on the device: stream, start, end, collective.
    on_device: Vec<(u32, i64, i64, u32)>,
    waits: Vec<StreamWait>,
    own: OwnRanks,
    categories: BTreeMap<String, u64>,
    device_names: FxHashMap<i64, String>,
}

/// A device event whose launch may stand later in the file.
struct Pending {
    event: DeviceEvent,
    correlation: Option<i64>,
    external: Option<i64>,
    device: i64,
}

/// A stream waits for an event that was recorded on another, as the profiler names it.
struct StreamWait {
    stream: u32,
    on: u32,
    /// Correlations of the calls that queued the wait and the event.
    queued: i64,
    recorded: i64,
}

/// Numbers for values in order of appearance.
struct ValueNumbers<T>(FxHashMap<T, u32>, Vec<T>);

impl<T: Clone + Eq + std::hash::Hash> ValueNumbers<T> {
    fn new() -> Self {
        ValueNumbers(FxHashMap::default(), Vec::new())
    }
    fn of(&mut self, value: T) -> u32 {
        let next = self.1.len() as u32;
        let number = *self.0.entry(value.clone()).or_insert(next);
        if number == next {
            self.1.push(value);
        }
        number
    }
}

/// Names of device events; copies and kernels of one name are two.
#[derive(Default)]
struct EventNames(FxHashMap<Box<str>, [Option<u32>; 2]>);

impl<'c> EventReader<'c> {
    fn new(classes: &'c ClassTables) -> EventReader<'c> {
        EventReader {
            classes,
            profile: RankEvents::default(),
            names: EventNames::default(),
            streams: ValueNumbers::new(),
            threads: ValueNumbers::new(),
            kinds: ValueNumbers::new(),
            collectives: ValueNumbers::new(),
            correlations: ValueNumbers::new(),
            device: Vec::new(),
            calls: Vec::new(),
            call_of: FxHashMap::default(),
            by_external: FxHashMap::default(),
            on_device: Vec::new(),
            waits: Vec::new(),
            own: OwnRanks::default(),
            categories: BTreeMap::new(),
            device_names: FxHashMap::default(),
        }
    }

    fn skip(&mut self, what: &str) {
        *self.profile.skipped.entry(what.to_string()).or_default() += 1;
    }

    fn take(&mut self, piece: FilePiece) {
        match piece {
            FilePiece::Foreign => self.skip("entries of the list that are no event"),
            FilePiece::Member(key, value) => self.member(key, value),
            FilePiece::Event(bytes) => {
                let clean = std::str::from_utf8(bytes).ok().filter(|text| self.event(text).is_some());
                if clean.is_none() && mended(bytes).and_then(|text| self.event(&text)).is_none() {
                    self.skip("events that are no JSON");
                }
            }
        }
    }

    fn member(&mut self, key: &str, value: &[u8]) {
        let Some(text) = mended(value) else { return };
        match key {
            "baseTimeNanoseconds" => self.profile.base_ns = plain(text.trim()).parse().unwrap_or(0),
            "metadata" => self.own.is_ours(&text),
            "distributedInfo" => {
                let info = parse(&text).unwrap_or_default();
                let number = |name| info.whole(name).and_then(|n| u64::try_from(n).ok());
                self.profile.rank = number("rank");
                self.profile.world_size = number("world_size");
            }
            "deviceProperties" => {
                let all: Vec<Members> = serde_json::from_str(&text).unwrap_or_default();
                for properties in all {
                    if let (Some(id), Some(name)) = (properties.whole("id"), properties.text("name")) {
                        self.device_names.insert(id, name.into_owned());
                    }
                }
            }
            _ => {}
        }
    }

    /// `None`: the text is no JSON object.
    fn event(&mut self, text: &str) -> Option<()> {
        let event = parse(text).ok()?;
        let phase = event.text("ph").unwrap_or_default();
        let category = event.text("cat").unwrap_or_default().to_ascii_lowercase();
        match self.categories.get_mut(category.as_str()) {
            Some(count) => *count += 1,
            None => drop(self.categories.insert(category.clone(), 1)),
        }
        let what = EventRole::of(&category);
        match (&*phase, what) {
            ("X", Some(what)) => {
                if let Err(problem) = self.complete(&event, what) {
                    self.skip(problem);
                }
            }
            ("B" | "E", Some(EventRole::Kernel | EventRole::Copy)) => {
                self.skip("device events in two halves (ph B and E)");
            }
            ("X", None) => self.own.slice(&event, &category),
            ("M", _) => self.own.describe(&event),
            _ => {}
        }
        Some(())
    }

    /// An event with a start and a length.
    fn complete(&mut self, event: &Members, what: EventRole) -> Result<(), &'static str> {
        let name = event.text("name").unwrap_or_default();
        if what == EventRole::Operator && !name.starts_with("ProfilerStep") {
            self.operator(event, &name);
            return Ok(());
        }
        let start = event.raw("ts").and_then(ns).ok_or("events without a time stamp")?;
        let length = event.raw("dur").and_then(ns).ok_or("events whose duration is no number")?;
        let end =
            start.checked_add(length).filter(|end| *end >= start).ok_or("events of negative duration")?;
        match what {
            EventRole::Operator => self.profile.steps.push(Mark { name: name.into_owned(), start, end }),
            EventRole::Call => self.call(event, &name, start, end),
            EventRole::OnDevice => self.annotation(event, &name, start, end),
            EventRole::Wait => self.stream_wait(event, &name),
            EventRole::Kernel | EventRole::Copy => {
                self.device_event(event, name, start, end, what == EventRole::Copy)
            }
        }
        Ok(())
    }

    /// An operator matters only by the arguments of a collective.
    fn operator(&mut self, event: &Members, name: &str) {
        let args = event.members("args");
        if args.raw("stream").is_some() {
            self.profile.cpu_ops_with_stream += 1;
        }
        let Some(external) = args.whole("External id") else { return };
        if args.raw("Collective name").is_some() {
            let collective = self.collective(&args);
            self.by_external.insert(external, collective);
        } else if name.starts_with("nccl:") {
            let named = CollectiveArgs { name: name.to_string(), ..CollectiveArgs::default() };
            let collective = self.collectives.of(named);
            self.by_external.entry(external).or_insert(collective);
        }
    }

    fn collective(&mut self, args: &Members) -> u32 {
        let text = |name| args.text(name).map_or(String::new(), Cow::into_owned);
        let (name, dtype) = (text("Collective name"), text("dtype"));
        let group = match args.text("Process Group Name") {
            Some(name) if !name.is_empty() => name.into_owned(),
            _ => text("Process Group Ranks"),
        };
        let number = |name| args.whole(name).unwrap_or(0);
        self.collectives.of(CollectiveArgs {
            name,
            dtype,
            elements_in: number("In msg nelems"),
            elements_out: number("Out msg nelems"),
            group,
            group_size: number("Group size"),
        })
    }

    /// A correlation as a number; one that is none gets a negative one of its own.
    fn correlation(&mut self, args: &Members) -> Option<i64> {
        let text = args.raw("correlation")?;
        let number = args.whole("correlation").filter(|_| !text.starts_with('"'));
        Some(number.unwrap_or_else(|| i64::MIN + i64::from(self.correlations.of(text.to_string()))))
    }

    fn call(&mut self, event: &Members, name: &str, start: i64, end: i64) {
        let args = event.members("args");
        let correlation = self.correlation(&args);
        let thread = self.thread(event);
        let call = Call { start, end, thread, does: Does::of(name) };
        self.calls.push((call, args.whole("External id")));
        if let Some(correlation) = correlation {
            self.call_of.insert(correlation, self.calls.len() as u32 - 1);
        }
    }

    fn thread(&mut self, event: &Members) -> u32 {
        let text = |name| event.text(name).map_or(String::new(), Cow::into_owned);
        self.threads.of((text("pid"), text("tid")))
    }

    fn stream(&mut self, event: &Members, args: &Members) -> u32 {
        let text = |name, or| {
            args.text(name).or_else(|| event.text(or)).map_or_else(|| "None".to_string(), Cow::into_owned)
        };
        self.streams.of((text("device", "pid"), text("stream", "tid")))
    }

    /// The profiler's own name for a stretch of a stream: `nccl:all_reduce`.
    fn annotation(&mut self, event: &Members, name: &str, start: i64, end: i64) {
        if name.starts_with("nccl:") {
            let stream = self.stream(event, &event.members("args"));
            let named = CollectiveArgs { name: name.to_string(), ..CollectiveArgs::default() };
            let collective = self.collectives.of(named);
            self.on_device.push((stream, start, end, collective));
        }
    }

    fn stream_wait(&mut self, event: &Members, name: &str) {
        let args = event.members("args");
        let (on, recorded) = (args.text("wait_on_stream"), args.whole("wait_on_cuda_event_record_corr_id"));
        let (Some(on), Some(recorded), Some(queued)) = (on, recorded, args.whole("correlation")) else {
            return;
        };
        if name == "Stream Wait Event" && recorded >= 0 {
            let stream = self.stream(event, &args);
            let device = args.text("device").or_else(|| event.text("pid")).unwrap_or_default().into_owned();
            let on = self.streams.of((device, on.into_owned()));
            self.waits.push(StreamWait { stream, on, queued, recorded });
        }
    }

    fn device_event(&mut self, event: &Members, name: Cow<str>, start: i64, end: i64, copy: bool) {
        let args = event.members("args");
        let (name, family) = self.name(&name, copy);
        let communication = family == Family::Communication;
        let collective =
            (communication && args.raw("Collective name").is_some()).then(|| self.collective(&args));
        let stream = self.stream(event, &args);
        let (correlation, external) = (self.correlation(&args), args.whole("External id"));
        let device = args.whole("device").unwrap_or(-1);
        let event = DeviceEvent { start, end, name, family, stream, launch: None, kind: None, collective };
        self.device.push(Pending { event, correlation, external, device });
    }

    fn name(&mut self, name: &str, copy: bool) -> (u32, Family) {
        let profile = &mut self.profile;
        if !self.names.0.contains_key(name) {
            self.names.0.insert(name.into(), [None; 2]);
        }
        let numbers = self.names.0.get_mut(name).expect("it has just been put there");
        let number = *numbers[usize::from(copy)].get_or_insert_with(|| {
            profile.names.push(name.to_string());
            profile.classes.push(self.classes.of(name, copy));
            profile.names.len() as u32 - 1
        });
        (number, profile.classes[number as usize].family)
    }

    fn finish(mut self, file: &str) -> Result<Vec<RankEvents>, SpecError> {
        if self.device.is_empty() {
            let ranks = std::mem::take(&mut self.own).finish(file, &self.profile.skipped)?;
            return if ranks.is_empty() { Err(self.nothing(file)) } else { Ok(ranks) };
        }
        self.link();
        let mut profile = self.profile;
        profile.file = file.to_string();
        profile.streams = self.streams.1;
        profile.kinds = self.kinds.1;
        profile.collectives = self.collectives.1;
        profile.device = self.device.first().and_then(|p| self.device_names.get(&p.device)).cloned();
        if profile.device.is_none() && self.device_names.len() == 1 {
            profile.device = self.device_names.into_values().next();
        }
        profile.steps.sort_by_key(|step| (step.start, step.end));
        profile.events = self.device.into_iter().map(|p| p.event).collect();
        profile.events.sort_by_key(|e| (e.start, e.end));
        Ok(vec![profile])
    }

    /// The file holds nothing that ran on a device.
    fn nothing(self, file: &str) -> SpecError {
        let mut held: Vec<_> = self.categories.iter().filter(|c| !c.0.is_empty()).collect();
        held.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let held: Vec<_> = held.iter().take(8).map(|(name, count)| format!("{count} {name}")).collect();
        let held = if held.is_empty() { "no event with a category".to_string() } else { held.join(", ") };
        let skipped: Vec<_> =
            self.profile.skipped.iter().map(|(what, n)| format!("; skipped {n} {what}")).collect();
        SpecError::file(file, format!("holds no device event, but {held}{}", skipped.concat()))
            .allowed(ALLOWED)
            .hint("profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]")
    }
}
