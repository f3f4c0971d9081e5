use stepsim_read::trace::timeline::counters::*;

#[test]
fn coarse_levels_keep_every_peak_and_the_end() {
    let points: Vec<(u64, u64)> =
        (0..100_000).map(|i| (i * 10, if i == 77_777 { 900 } else { i % 7 })).collect();
    let shown = highest(points.clone(), 3);
    assert!(shown.len() as u64 <= STRETCHES + 1, "{}", shown.len());
    assert!(shown.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(shown.iter().filter(|point| point.1 == 900).count(), 1);
    assert_eq!(shown.last().unwrap().1, points.last().unwrap().1);
    let below = |at: u64| shown.iter().rfind(|point| point.0 <= at).unwrap().1;
    assert!(points.iter().all(|(at, level)| *level <= below(*at)));
    assert_eq!(highest(points[..9].to_vec(), 0), points[..9]);
}
