//! Switches of a software change when work is done and how it is stored, not which products a step has: a host that
//! waits, a mask that is a tensor, autocast and the splits of a search.

use super::read::{Sums, alike};
use super::steps::{Draws, Step, count, drawn};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::Disk;

/// The step with these settings; `None` where it is refused.
fn with(text: &str, settings: &[&str]) -> Option<Inputs> {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Inputs::from_json(text, None, &settings, &Disk).ok()
}

/// Seconds of a step and its products; `None` where the plan is refused.
fn played(inputs: &Inputs) -> Option<(f64, Sums)> {
    let plan = inputs.plan().ok()?;
    let run = Simulation::run(inputs, &Options::default()).expect("a step whose plan is taken");
    Some((run.report(false).step_time_s, Sums::of(&plan)))
}

fn same_products(one: &Sums, other: &Sums) -> bool {
    one.flops.len() == other.flops.len()
        && one.flops.iter().all(|(name, flops)| other.flops.get(name).is_some_and(|f| alike(*f, *flops)))
}

#[test]
fn switches_of_a_software_leave_its_products() {
    let mut draws = Draws(0x5eed_57ac);
    let (mut held, mut slower) = ([0; 4], [0; 4]);
    for _ in 0..count() {
        let mut step = drawn(&mut draws);
        step["stack"] = draws.of(&["megatron-te-2024", "nanotron", "hf-trainer-2026", "fsdp2-eager"]).into();
        let Some(plain) = Step::of(&step) else { continue };
        let Some((base_s, base)) = played(&plain.inputs) else { continue };
        let switches = [
            "stack.host.blocking=true",
            "stack.compiled_mask=true",
            "stack.autocast=true",
            "stack.splits=[\"tensor\"]",
        ];
        for (i, switch) in switches.into_iter().enumerate() {
            let Some(inputs) = with(&plain.text, &[switch]) else { continue };
            let Some((took_s, sums)) = played(&inputs) else { continue };
            assert!(same_products(&base, &sums), "{switch} changes the products of {}", plain.text);
            assert!(i != 3 || took_s == base_s, "{switch}: {took_s} of {base_s} s: {}", plain.text);
            assert!(took_s >= base_s * (1.0 - 1e-9), "{switch}: {took_s} of {base_s} s: {}", plain.text);
            held[i] += 1;
            slower[i] += u32::from(took_s > base_s);
        }
    }
    println!("held {held:?}, slower {slower:?}");
    assert!(held.iter().all(|n| *n > 0) && slower[0] > 0, "{held:?} {slower:?}");
}
