use stepsim_schedule::sharding::{ALL, CutExtent};

/// Ranks of an extent among 8 in groups of 4.
fn over(extent: CutExtent) -> u32 {
    match extent {
        CutExtent::Nobody => 1,
        CutExtent::Group => 4,
        CutExtent::All => 8,
    }
}

/// The assumptions of the residency policies: optimizer state is cut finest, and gathered weights need no renewal.
#[test]
fn cuts_are_ones_that_a_step_can_play() {
    for facts in ALL {
        for cuts in [facts.dense, facts.experts] {
            let [weights, secondary, gradients, summed, optimizer] = cuts.classes().map(over);
            assert!(gradients <= optimizer, "{}: gradients to update with", facts.name);
            assert!(weights == 1 || weights == optimizer, "{}: weights to read", facts.name);
            assert!(secondary == 1 || secondary < weights, "{}: a nearer copy", facts.name);
            assert!(optimizer == 1 || summed <= optimizer, "{}: parts of the first hop", facts.name);
            assert!(!facts.across_once || gradients == summed, "{}: parts to keep", facts.name);
            let (dense, own) = (facts.dense.classes(), cuts.classes());
            assert_eq!(own.map(CutExtent::is_cut), dense.map(CutExtent::is_cut), "{}", facts.name);
        }
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = ALL.iter().flat_map(|f| f.aliases.iter().copied().chain([f.name])).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}
