//! Timelines for Perfetto and other viewers.
//!
//! Three layers; each knows only the one below:
//! * [`Timeline`]: the parts of a run and their places, by the rules of the viewers;
//! * [`writer`]: streaming writers of the formats behind one trait, [`writer::Sink`];
//! * [`TimelineFile`]: files that are there whole or not at all, compressed on a second thread.
//!
//! [`write_file`] puts them together. Any other sink will do as well:
//!
//! ```
//! use stepsim_read::trace::writer::{Chrome, Sink, Slice};
//! let mut text = Vec::new();
//! let mut sink = Chrome::new(&mut text);
//! sink.begin(&[])?;
//! sink.process(1, "rank 0")?;
//! let row = sink.thread(1, "compute")?;
//! let kind = sink.kind("qkv", "compute", &[])?;
//! sink.slice(row, kind, &Slice { start: 0, end: 1500, ..Slice::default() })?;
//! sink.finish()?;
//! drop(sink);
//! assert!(String::from_utf8(text)?.contains(r#""ts":0.000,"dur":1.500,"name":"qkv""#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod output;
pub mod timeline;
pub mod writer;

pub use output::{OutputError, TimelineFile, TimelineFormat, guard_inputs, remove_partial_files};
pub use timeline::{
    BusiestLink, Capacities, CounterTrack, Critical, Detail, EASY, FITS_IN_JSON, FITS_IN_PERFETTO,
    LinkCounter, MetaValue, Pool, RunMeta, StallSlice, Timeline, TimelineError, TimelineSummary, TracedRank,
};
pub use timeline::{op_name, passes};

use std::path::Path;

use writer::{Chrome, Perfetto, Sink};

/// Why a timeline file was not written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The request cannot be shown.
    #[error(transparent)]
    Timeline(#[from] TimelineError),
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Writes a timeline to a file in the format that its extension names.
///
/// # Errors
/// As [`Timeline::write`], [`TimelineFormat::of`] and [`TimelineFile::create`]; nothing is then left under the file's
/// name.
pub fn write_file(timeline: &Timeline, path: &Path) -> Result<TimelineSummary, TraceError> {
    let (format, compressed) = TimelineFormat::of(path)?;
    let mut output = TimelineFile::create(path, compressed)?;
    let written = {
        let mut sink: Box<dyn Sink + '_> = match format {
            TimelineFormat::Chrome => Box::new(Chrome::new(&mut output)),
            TimelineFormat::Perfetto => Box::new(Perfetto::new(&mut output)),
        };
        timeline.write(sink.as_mut())
    };
    let summary = match written {
        Ok(summary) => summary,
        Err(TimelineError::Io(error)) => return Err(output.error(error).into()),
        Err(error) => return Err(error.into()),
    };
    output.finish()?;
    Ok(summary)
}

/// Writes each rank of a timeline, op by op, to a file of its own in `folder`, as PyTorch's profiler does
/// (`rank0003.json.gz`); the folder is made if it is not there.
///
/// # Errors
/// As [`write_file`]; files of ranks that were written before an error stay.
pub fn write_kineto(timeline: &Timeline, folder: &Path) -> Result<TimelineSummary, TraceError> {
    let width = timeline.world.ranks.len().saturating_sub(1).to_string().len();
    timeline.check()?;
    std::fs::create_dir_all(folder)
        .map_err(|error| OutputError::Create { path: folder.to_owned(), error })?;
    let mut all = TimelineSummary::default();
    for traced in timeline.ranks {
        let path = folder.join(format!("rank{:0width$}.json.gz", traced.rank.0));
        let mut output = TimelineFile::create(&path, true)?;
        let summary =
            timeline::kineto::write(timeline, traced, &mut output).map_err(|error| output.error(error))?;
        output.finish()?;
        all.slices += summary.slices;
        all.counter_values += summary.counter_values;
        all.too_short += summary.too_short;
    }
    Ok(all)
}
