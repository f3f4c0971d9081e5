//! Where the time of a device went: computing, communicating, copying, standing still.
//!
//! ```text
//! window   first start to last end of device events        busy          union of all of them
//! compute, comm, mem   union of each family                comm_hidden   comm ∩ compute
//! comm_exposed = comm − comm_hidden                        idle = window − busy
//! ```
//! Slices of one stream may overlap (kernels that start early behind their predecessor); unions count them once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::classes::Family;
use super::model::DeviceEvent;
use stepsim_core::intervals::Intervals;

/// Times of a set of device events, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceBreakdown {
    /// From the first start to the last end.
    pub window: i64,
    /// Anything ran.
    pub busy: i64,
    /// Nothing ran.
    pub idle: i64,
    /// Kernels that are no communication ran.
    pub compute: i64,
    /// Communication ran.
    pub comm: i64,
    /// Copies and fills of the driver ran.
    pub mem: i64,
    /// Communication ran under computing kernels.
    pub comm_hidden: i64,
    /// Communication ran and no computing kernel.
    pub comm_exposed: i64,
}

/// Device events as sets of time.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// First start and last end.
    pub window: (i64, i64),
    /// Time in which each family ran.
    pub compute: Intervals,
    /// As said.
    pub comm: Intervals,
    /// As said.
    pub mem: Intervals,
    /// Time in which anything ran.
    pub busy: Intervals,
}

impl Sets {
    /// The sets of some events.
    pub fn of(events: &[DeviceEvent]) -> Sets {
        let family =
            |f: Family| Intervals::union(events.iter().filter(|e| e.family == f).map(|e| (e.start, e.end)));
        let first = events.iter().map(|e| e.start).min().unwrap_or(0);
        let last = events.iter().map(|e| e.end).max().unwrap_or(0);
        Sets {
            window: (first, last),
            compute: family(Family::Compute),
            comm: family(Family::Communication),
            mem: family(Family::Memory),
            busy: Intervals::union(events.iter().map(|e| (e.start, e.end))),
        }
    }
    /// Their lengths.
    pub fn breakdown(&self) -> DeviceBreakdown {
        let (window, busy) = (self.window.1 - self.window.0, self.busy.length());
        let (comm, hidden) = (self.comm.length(), self.comm.meet(&self.compute).length());
        DeviceBreakdown {
            window,
            busy,
            idle: window - busy,
            compute: self.compute.length(),
            comm,
            mem: self.mem.length(),
            comm_hidden: hidden,
            comm_exposed: comm - hidden,
        }
    }
}

/// Events that start before an earlier one on the same stream has ended. `events` are in order of start.
pub fn same_stream_overlaps(events: &[DeviceEvent], streams: usize) -> u64 {
    let (mut ends, mut count) = (vec![i64::MIN; streams], 0);
    for event in events {
        let end = &mut ends[event.stream as usize];
        count += u64::from(event.start < *end);
        *end = event.end.max(*end);
    }
    count
}
