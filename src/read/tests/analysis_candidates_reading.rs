use stepsim_read::analysis::candidates::Candidate;
use stepsim_read::page::sheet::quoted;

#[test]
fn both_parts_of_a_cost_sum_to_it_and_arguments_can_be_pasted() {
    let sets = vec!["noise.stragglers=[]".into()];
    let healed = Candidate { sets, own_s: 1.0, induced_s: 2.0, ..Candidate::default() };
    assert_eq!(healed.cost_s(), 3.0);
    assert_eq!(healed.arguments(quoted), "--set 'noise.stragglers=[]'");
    let tail = Candidate { without: Some("tail".into()), ..Candidate::default() };
    assert_eq!(tail.arguments(quoted), "--without tail");
}
