//! Pages about measured steps: [`profile`], one row a rank, by the words of `stepsim analyze`; [`difference`], two
//! steps side by side.

pub mod difference;
pub mod profile;
