use stepsim_schedule::{OneFOneB, Schedule, Seat, Shape};

/// Four ranks, passes as long as a stage's: the last has three before its first micro-batch comes, the first none.
#[test]
fn later_ranks_encode_more() {
    let order = OneFOneB.order(&Shape::new(4, 10)).expect("its order").with_sides(1.0, true);
    let forward = |rank: usize| {
        let first = order.ranks[rank].iter().take_while(|slot| slot.parts().all(|part| part.chunk == 1));
        first.count()
    };
    assert_eq!([0, 1, 2, 3].map(forward), [1, 2, 3, 4]);
    assert_eq!((order.placement.stages(), order.placement.parts(), order.placement.chunks(2)), (4, 1, 2));
    let side = order.placement.stage(Seat { rank: 3, chunk: 1 });
    assert_eq!(order.placement.seat(side), Seat { rank: 3, chunk: 1 });
}
