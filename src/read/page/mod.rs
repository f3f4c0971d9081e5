//! The parts of pages: one file of HTML each, that needs no network.
//!
//! Drawings are SVG that stands in the page as it is, so that it reads without a script and prints. The drawing
//! over time stands in it once more as JSON, from which a script draws what one looks closer at, and which can be
//! saved. Every page is a [`sheet`] with sections:
//! * [`bars`]: lines of bars, which fit the window that they have;
//! * `points`: a table to sort, each row with its command;
//! * [`lane`]: rows of a drawing over time;
//! * [`map`]: all ranks over time, in one picture.

pub mod bars;
pub mod draw;
pub(crate) mod escaped;
pub mod lane;
pub mod map;
pub mod png;
pub mod points;
pub mod sheet;
