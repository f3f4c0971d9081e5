use stepsim_core::program::{Flow, *};
use stepsim_core::units::Time;

/// One flow, then two rounds of two, the second of them three times, then one behind the last of them.
#[test]
fn rounds_are_written_once_and_played_again() {
    let flow = |path| Flow { latency: Time(1), bytes: 1.0, rate_limit: f64::INFINITY, path };
    let mut rounds = Rounds::default();
    let first = rounds.flow(flow(0), &[]);
    let a = [rounds.flow(flow(1), &[first]), rounds.flow(flow(2), &[first])];
    let b = [rounds.flow(flow(1), &[a[1]]), rounds.flow(flow(2), &[a[0], a[1] | BEHIND])];
    assert!(rounds.last_wait_from(2, a[0]) && !rounds.last_wait_from(2, a[1]));
    rounds.repeat(2, 2);
    let last = rounds.flow(flow(3), &[b[1] + 4]);
    assert_eq!((last, rounds.len()), (9, 10));
    let times: Vec<u32> = (0..6).map(|i| rounds.times(i)).collect();
    assert_eq!(times, [1, 1, 1, 3, 3, 1]);
    let (flows, parents, parent_ids) = rounds.flat().plain().expect("flat");
    assert_eq!(flows.iter().map(|f| f.path).collect::<Vec<_>>(), [0, 1, 2, 1, 2, 1, 2, 1, 2, 3]);
    let waits: Vec<&[u32]> = parents.iter().map(|span| &parent_ids[span.range()]).collect();
    let should: [&[u32]; 10] =
        [&[], &[0], &[0], &[2], &[1, 2 | BEHIND], &[4], &[3, 4 | BEHIND], &[6], &[5, 6 | BEHIND], &[8]];
    assert_eq!(waits, should);
}
