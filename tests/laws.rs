//! Laws: what holds of every step, tried on random ones. `STEPSIM_LAW_STEPS=5000 cargo test --test all -- laws::` tries them on more
//! than CI does.

mod blame;
mod bytes;
mod door;
mod exchanges;
mod flops;
mod numbering;
mod played;
mod read;
pub mod steps;
