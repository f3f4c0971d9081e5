use stepsim_schedule::{ALL, ChunkCount, Shape};

/// A schedule's turns hold for every small pipeline, one and three turns further on; the fewest micro-batches have
/// an order wherever the whole has one.
#[test]
fn schedules_go_on_by_the_turns_that_they_name() {
    let mut held = std::collections::BTreeMap::new();
    for schedule in ALL {
        let chunks = match schedule.facts().chunks {
            ChunkCount::Exactly(_) => vec![None],
            ChunkCount::AtLeast(least, _) => (least..least + 3).map(Some).collect(),
        };
        let groups = if schedule.facts().groups { vec![None, Some(5), Some(8)] } else { vec![None] };
        for (ranks, micro_batches) in (1..=6).flat_map(|p| (1..=40).map(move |m| (p, m))) {
            for (&chunks, &group) in chunks.iter().flat_map(|v| groups.iter().map(move |g| (v, g))) {
                let shape = Shape { chunks, group, ..Shape::new(ranks, micro_batches) };
                let (Some(turns), Ok(whole)) = (schedule.turns(&shape), schedule.order(&shape)) else {
                    continue;
                };
                let short = Shape { micro_batches: turns.fewest(shape.micro_batches), ..shape };
                let further = shape.micro_batches - short.micro_batches;
                let order = schedule.order(&short).unwrap_or_else(|e| panic!("{short:?}: {e}"));
                if further == 0 {
                    continue;
                }
                let directions = u32::from(order.placement.directions());
                let (n, each) = (further / turns.every, turns.every / directions);
                assert!(
                    order.goes_on_by_turns(&whole, n, each),
                    "{} {shape:?} from {short:?}",
                    schedule.name()
                );
                *held.entry(schedule.name()).or_insert(0) += 1;
            }
        }
    }
    assert!(held.len() >= 8 && held.values().all(|n| *n >= 40), "{held:?}");
}
