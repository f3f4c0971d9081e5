//! stepsim in a browser: the whole library, behind one function that takes a question as JSON and gives an answer.
//!
//! The page knows no physics and this crate adds none: [`answer()`] reads a [`Question`], calls the library as the
//! command line does and returns what it would write: figures, a page, a report, a timeline, byte by byte. `border`
//! is the only part that knows of WebAssembly.

mod answer;
#[allow(unsafe_code)]
mod border;
mod known;
mod planned;
mod played;

pub use answer::{Question, answer};
