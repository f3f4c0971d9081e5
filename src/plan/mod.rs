//! Strategy, schedule and offload policy become rank programs.
