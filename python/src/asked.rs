//! Times that a Python function gives, asked once for each distinct kernel or collective.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use serde_json::{Value, json};
use stepsim::core::units::Time;
use stepsim::fabric::collective::{Geometry, OwnTimes, Transfer};
use stepsim::price::model::{Kernel, KernelShape};
use stepsim::simulate::OwnPrices;
use stepsim::spec::SpecError;

use crate::error::raised;

/// A function of what takes time, as JSON, that gives seconds or nothing.
#[derive(Debug)]
pub struct Asked {
    /// The argument by which it was given.
    argument: &'static str,
    function: Py<PyAny>,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    known: HashMap<String, Option<f64>>,
    raised: Option<PyErr>,
}

impl Asked {
    /// The function given as an argument.
    pub fn new(argument: &'static str, function: Py<PyAny>) -> Asked {
        Asked { argument, function, answers: Mutex::default() }
    }
    /// What the function has raised, once.
    pub fn raised(&self) -> Option<PyErr> {
        self.answers().raised.take()
    }
    /// What was asked for with its seconds, as JSON.
    pub fn known(&self) -> String {
        let answers = self.answers();
        let mut known: Vec<_> = answers.known.iter().filter_map(|(of, s)| Some((of, (*s)?))).collect();
        known.sort_by_key(|(of, _)| *of);
        let row = |(of, s): (&String, f64)| {
            let mut row: Value = serde_json::from_str(of).unwrap_or_default();
            row["time_s"] = s.into();
            row
        };
        Value::from_iter(known.into_iter().map(row)).to_string()
    }
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn ask(&self, of: &str) -> PyResult<Option<f64>> {
        let seconds: Option<f64> = Python::attach(|py| self.function.call1(py, (of,))?.extract(py))?;
        match seconds {
            Some(s) if !(s.is_finite() && s >= 0.0) => {
                let problem = SpecError::file(self.argument, format!("{s} s for {of}")).value(s.to_string());
                Err(raised(&(&problem.allowed("seconds from 0 up, or None")).into()))
            }
            seconds => Ok(seconds),
        }
    }
    fn time_of(&self, of: &Value) -> Option<Time> {
        let of = of.to_string();
        if let Some(known) = self.answers().known.get(&of) {
            return known.map(Time::from_s);
        }
        // Other threads may ask meanwhile: the function is called without the lock.
        let asked = if self.answers().raised.is_some() { Ok(None) } else { self.ask(&of) };
        let mut answers = self.answers();
        let seconds = asked.unwrap_or_else(|e| {
            answers.raised.get_or_insert(e);
            None
        });
        answers.known.insert(of, seconds);
        seconds.map(Time::from_s)
    }
}

impl OwnPrices for Asked {
    fn time(&self, kernel: &Kernel, device: &str) -> Option<Time> {
        self.time_of(&described(kernel, device))
    }
}

impl OwnTimes for Asked {
    fn time(&self, transfer: &Transfer, group: &Geometry) -> Option<Time> {
        let (ranks, nodes) = (group.size, group.nodes);
        self.time_of(&json!({"op": transfer.op, "bytes": transfer.bytes, "ranks": ranks, "nodes": nodes}))
    }
}

/// A kernel in words and numbers.
fn described(kernel: &Kernel, device: &str) -> Value {
    let mut described = json!({
        "class": kernel.class.name(),
        "device": device,
        "dtype": kernel.dtype.name(),
        "flops": kernel.flops,
        "bytes": kernel.bytes,
    });
    let shape = match kernel.shape {
        KernelShape::Gemm { m, n, k, batch, accumulate } => {
            json!({"m": m, "n": n, "k": k, "batch": batch, "accumulate": accumulate})
        }
        KernelShape::GroupedGemm { groups, m, n, k, accumulate } => {
            json!({"groups": groups, "m": m, "n": n, "k": k, "accumulate": accumulate})
        }
        KernelShape::Attention { batch, queries, keys, heads, kv_heads, qk_size, v_size, causal, .. } => {
            json!({
                "batch": batch, "queries": queries, "keys": keys, "heads": heads, "kv_heads": kv_heads,
                "qk_size": qk_size, "v_size": v_size, "causal": causal,
            })
        }
        KernelShape::Elementwise { elements } => json!({"elements": elements}),
    };
    if let (Some(all), Some(shape)) = (described.as_object_mut(), shape.as_object()) {
        all.extend(shape.clone());
    }
    described
}
