//! Facts that a workload leaves open: each of their plausible values is played in closed form, and the range covers
//! them.

use stepsim_form::compare::workload::closed_form;
use stepsim_simulate::Inputs;
use stepsim_spec::{StackSpec, load};

/// A value that moves the step by less than this is not told.
const MOVES: f64 = 0.05;

/// A fact that a workload leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenFact {
    /// The field that says it.
    pub path: String,
    /// Its value as it is simulated, then the others, each with its step over the simulated one.
    pub values: Vec<(String, f64)>,
}

/// Fields of a stack that runs of it set in different ways, with values that occur: CUDA graphs and the attention
/// kernel.
const OF_A_STACK: [(&str, &str, &[&str]); 3] = [
    ("megatron-bridge-2025", "stack.host.graphs.scope", &["none", "layer", "passes"]),
    ("megatron-te-2024", "stack.host.graphs.scope", &["none", "layer"]),
    ("xla-gpu", "stack.attention", &["unfused", "cudnn"]),
];

/// The workload with one setting more, and its step over the step without, in closed form.
pub fn moved(inputs: &Inputs, setting: String) -> Option<(Inputs, f64)> {
    let workload = inputs.workload.again(&[setting]).ok()?;
    let other = inputs.with_workload(workload).ok()?;
    let [before, after] = [inputs, &other].map(|inputs| closed_form(inputs).map(|form| form.terms.total()));
    Some((other, after.ok()? / before.ok()?))
}

impl OpenFact {
    /// A field that is simulated as it is `now` and may be otherwise; `None` where no value moves the step.
    pub fn of<'a>(
        inputs: &Inputs,
        path: &str,
        now: &str,
        others: impl Iterator<Item = &'a str>,
    ) -> Option<OpenFact> {
        let moved =
            others.filter_map(|value| Some((value.to_owned(), moved(inputs, format!("{path}={value}"))?.1)));
        let moves = moved.filter(|(_, factor)| (factor - 1.0).abs() > MOVES);
        let values: Vec<_> = [(now.to_owned(), 1.0)].into_iter().chain(moves).collect();
        (values.len() > 1).then_some(OpenFact { path: path.to_owned(), values })
    }
}

/// The facts that a workload leaves open and that move its step.
pub fn open_facts(inputs: &Inputs, stack: &str) -> Vec<OpenFact> {
    let shipped =
        load::<StackSpec>(stack, &[]).ok().and_then(|stack| stepsim_located::to_value(stack.value).ok());
    let own = stepsim_located::to_value(inputs.workload.value.stack()).ok();
    let of_stack = OF_A_STACK.iter().filter(|(name, ..)| *name == stack);
    let found = of_stack.filter_map(|(_, path, values)| {
        let field = format!("/{}", path.strip_prefix("stack.")?.replace('.', "/"));
        let says = |of: &Option<serde_json::Value>| of.as_ref()?.pointer(&field).cloned();
        // The workload has said whatever differs from the shipped stack.
        let (own, shipped) = (says(&own), says(&shipped));
        if own != shipped {
            return None;
        }
        let now = own.as_ref().and_then(|value| value.as_str()).unwrap_or("none").to_string();
        OpenFact::of(inputs, path, &now, values.iter().copied().filter(|value| *value != now))
    });
    found.collect()
}
