//! The request of `stepsim collective`: op, algorithm, sizes and devices, as text.

use crate::Failure;
use stepsim_core::ids::DeviceId;
use stepsim_fabric::collective::{ALGORITHMS, Algorithm, Op, algorithm};
use stepsim_fabric::topology::Machine;
use stepsim_study::space as units;

/// Most sizes of one call.
const MOST_SIZES: usize = 10_000;

pub(crate) fn parse_op(text: &str) -> Result<Op, String> {
    let known = || Op::ALL.map(Op::name).join(", ");
    Op::from_name(&text.to_ascii_lowercase().replace('_', "-")).ok_or_else(|| format!("allowed: {}", known()))
}

pub(super) fn parse_algorithm(text: &str) -> Result<&'static dyn Algorithm, String> {
    let known: Vec<&str> = ALGORITHMS.iter().map(|a| a.name()).collect();
    algorithm(text).ok_or_else(|| format!("allowed: {}", known.join(", ")))
}

/// `16Ki`, `1.5Gi`, `20M`, `8`: bytes.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    units::count(text.strip_suffix('B').unwrap_or(text))
}

/// The sizes of `--bytes`.
pub(super) fn sizes(text: &str) -> Result<Vec<u64>, Failure> {
    let wrong = |problem: &str| {
        Failure::input(format!(
            "--bytes `{text}`: {problem}; allowed: from:to:xFACTOR, from:to:+STEP, or sizes with commas; each \
             like 8, 16Ki, 4Mi, 1Gi or 20M"
        ))
    };
    let size = |part: &str| parse_size(part).ok_or_else(|| wrong(&format!("`{part}` is not a size")));
    let parts: Vec<&str> = text.split(':').collect();
    let mut list = Vec::new();
    match parts[..] {
        [one] => list = one.split(',').map(size).collect::<Result<_, _>>()?,
        [from, to] | [from, to, _] => {
            let (mut at, to) = (size(from)?, size(to)?);
            let step = parts.get(2).copied().unwrap_or("x2");
            let factor = step.strip_prefix('x').and_then(|f| f.parse::<f64>().ok());
            let add = step.strip_prefix('+').and_then(parse_size);
            if at > to || (factor.is_some() && at == 0) {
                return Err(wrong("the first size must be above zero and not above the last"));
            }
            while at <= to {
                list.push(at);
                let next = match (factor, add) {
                    (Some(f), _) if f > 1.0 => (at as f64 * f).round() as u64,
                    (_, Some(add)) => at + add,
                    _ => return Err(wrong("the step must be x and a factor above 1, or + and a size")),
                };
                if next <= at || list.len() > MOST_SIZES {
                    return Err(wrong("the step is too small"));
                }
                at = next;
            }
        }
        _ => return Err(wrong("too many colons")),
    }
    Ok(list)
}

/// The devices of `--ranks`, or the default for the op.
pub(super) fn devices(ranks: Option<&str>, op: Op, machine: &Machine) -> Result<Vec<DeviceId>, Failure> {
    let count = machine.devices();
    let wrong = |problem: String| {
        Failure::input(format!(
            "--ranks `{}`: {problem}; allowed: devices 0 to {}, each once, at least two, like 0-63 or 0,2,4-7",
            ranks.unwrap_or_default(),
            count - 1
        ))
    };
    let mut list = Vec::new();
    match ranks {
        None => list.extend(0..if op == Op::SendRecv { count.min(2) } else { count }),
        Some(text) => {
            for part in text.split(',') {
                let (from, to) = part.split_once('-').unwrap_or((part, part));
                let number = |t: &str| t.trim().parse::<u32>().ok().filter(|n| *n < count);
                match (number(from), number(to)) {
                    (Some(from), Some(to)) if from <= to => list.extend(from..=to),
                    _ => return Err(wrong(format!("`{part}` is not a device or a range of devices"))),
                }
            }
        }
    }
    let mut sorted = list.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|w| w[0] == w[1]) {
        return Err(wrong(format!("device {} stands there twice", twice[0])));
    }
    if list.len() < 2 {
        return Err(wrong(format!("a group of {}", list.len())));
    }
    Ok(list.into_iter().map(DeviceId).collect())
}
