//! Laws: what holds of every step, tried on random ones. `STEPSIM_SLOW=1 cargo test --test all -- laws:: --nocapture`
//! tries them on 5,000, and says at which draw a planted fault falls; `STEPSIM_LAW_STEPS` is another number.

mod bytes;
mod door;
mod exchanges;
mod flops;
mod gains;
mod inert;
mod modules;
mod played;
mod read;
mod round_trips;
mod stacks;
mod stated;
pub mod steps;
mod utilisation;
mod walk;
mod windows;
