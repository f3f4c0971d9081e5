use stepsim_simulate::jump::glanced;
use stepsim_simulate::{Inputs, Options};
use stepsim_study::otherwise::gap::*;

/// A step that takes what it should, measured as with half of the links between devices: they are found.
#[test]
fn a_fault_explains_the_gap_that_it_makes() {
    let inputs = Inputs::load("tiny-4", None, &[]).unwrap();
    let options = Options::default();
    let slow = inputs.again(&["noise.stragglers=[{\"rank\":0,\"slowness\":2}]".into()]).unwrap();
    let slow_s = glanced(&slow, &options).unwrap().step_time_s;
    let found = gap(&inputs, &options, MeasuredSpeed::Seconds(slow_s), None).unwrap();
    assert_eq!(found.side(), Some(true));
    let first = &found.explained_by[0];
    assert!(first.slower && (first.step_s / slow_s - 1.0).abs() < 0.1, "{found:?}");
    assert!(found.explained_by.iter().any(|e| e.what.starts_with("one device")), "{found:?}");
    // The other way round it is in the settings, and no fault can be why.
    let found =
        gap(&slow, &options, MeasuredSpeed::Seconds(slow_s), Some(MeasuredSpeed::Seconds(slow_s / 2.0)))
            .unwrap();
    assert_eq!(found.side(), Some(false));
    assert!(found.explained_by.iter().all(|e| !e.slower), "{found:?}");
}
