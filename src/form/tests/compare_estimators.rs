use stepsim_form::compare::workload::closed_form;
use stepsim_form::compare::*;
use stepsim_simulate::{SimulationError, Site};
use stepsim_spec::{WorkloadSpec, load};

/// Layouts one after the other, each changed in one or two things: whatever is kept from those before, each is as
/// it is by itself, to the last bit.
#[test]
fn a_layout_is_what_it_is_by_itself() {
    let changes: Vec<String> =
        serde_json::from_str(include_str!("compare-estimators.json")).expect("changes");
    let mut compared = 0;
    for (name, machine) in [
        ("llama3-70b", "h100-superpod-64"),
        ("gpt2-8", "h100-superpod-8"),
        ("deepseek-v3", "h800-2048"),
        ("llama3-8b-fsdp", "h100-superpod-64"),
    ] {
        let Ok(site) = Site::load(machine, &[]) else { panic!("{machine} is shipped") };
        let estimators = Estimators::default();
        for (i, first) in changes.iter().enumerate() {
            for second in
                [first, &changes[(i * 7 + 3) % changes.len()], &changes[(i * 5 + 11) % changes.len()]]
            {
                let sets = [first.to_string(), second.to_string(), "parallelism.data=null".to_string()];
                let Ok(workload) = load::<WorkloadSpec>(name, &sets) else { continue };
                let Ok(inputs) = site.inputs(workload) else { continue };
                let words = |e: SimulationError| e.to_string();
                let (got, want) =
                    (estimators.closed_form(&inputs).map_err(words), closed_form(&inputs).map_err(words));
                assert_eq!(got, want, "{name} with {sets:?}");
                compared += u32::from(got.is_ok());
            }
        }
    }
    assert!(compared > 120, "{compared}");
}
