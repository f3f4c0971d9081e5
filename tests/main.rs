//! All tests of the whole crate and of its program, one module a subject. One program, so that one thing is linked.

mod bad_input;
mod calculon;
mod cli;
mod collective;
mod collective_cli;
mod durations;
mod engine;
mod fold;
mod folded_workloads;
mod golden;
mod kineto;
mod layers;
mod mangled;
mod moe;
mod noise;
mod offload_contention;
mod outputs;
mod parallelism;
mod profiles;
mod published;
mod readings;
mod schedules;
mod score;
mod study;
mod tiers;
mod why;
