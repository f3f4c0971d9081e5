use stepsim_core::ids::{DeviceId, RankId};
use stepsim_fabric::topology::*;

#[test]
fn tensor_parallel_ranks_are_neighbours_and_pipeline_ranks_far_apart() {
    let sizes = [(Axis::Tp, 8), (Axis::Pp, 4), (Axis::Dp, 2)];
    let layout = Layout::new(&[], &sizes).unwrap();
    assert_eq!(layout.ranks(), 64);
    assert_eq!(layout.group(RankId(11), &[Axis::Tp]), (8..16).map(RankId).collect::<Vec<_>>());
    assert_eq!(layout.group(RankId(3), &[Axis::Dp]), [RankId(3), RankId(11)]);
    assert_eq!(layout.group(RankId(3), &[Axis::Pp]), [3, 19, 35, 51].map(RankId));
    for rank in (0..64).map(RankId) {
        assert_eq!(layout.rank(layout.coords(rank)), rank);
    }
}

#[test]
fn the_order_decides_which_ranks_are_neighbours() {
    let layout = Layout::new(&[Axis::Pp, Axis::Tp], &[(Axis::Tp, 2), (Axis::Pp, 3), (Axis::Dp, 2)]).unwrap();
    assert_eq!(layout.group(RankId(0), &[Axis::Pp]), [0, 1, 2].map(RankId));
    assert_eq!(layout.group(RankId(0), &[Axis::Tp]), [0, 3].map(RankId));
    assert_eq!(layout.group(RankId(7), &[Axis::Tp, Axis::Dp]), [1, 4, 7, 10].map(RankId));
}

#[test]
fn a_front_has_ranks_behind_those_of_the_grid() {
    let sizes = [(Axis::Tp, 2), (Axis::Dp, 2), (Axis::Pp, 2)];
    let layout = Layout::new(&[], &sizes).unwrap().with_front(Some(Front { tensor: 2, data: 3 }));
    assert_eq!((layout.ranks(), layout.size(Axis::Pp)), (14, 3));
    assert_eq!(layout.stage(0), (8..14).map(RankId).collect::<Vec<_>>());
    assert_eq!(layout.stage(1), (0..4).map(RankId).collect::<Vec<_>>());
    assert_eq!(layout.coords(RankId(11)), [1, 0, 0, 1, 0]);
    assert_eq!(layout.coords(RankId(5)), [1, 0, 0, 0, 2]);
    for rank in (0..14).map(RankId) {
        assert_eq!(layout.rank(layout.coords(rank)), rank);
    }
}

#[test]
fn a_rank_map_must_name_each_device_once() {
    let layout = || Layout::new(&[], &[(Axis::Dp, 3)]).unwrap();
    let mapped = layout().with_devices([2, 0, 1].map(DeviceId).to_vec(), 4).unwrap();
    assert_eq!(mapped.device(RankId(0)), DeviceId(2));
    let e = layout().with_devices([2, 0, 2].map(DeviceId).to_vec(), 4).unwrap_err();
    assert_eq!(e.to_string(), "at `rank_map[2]`: device 2 has a rank already");
    let e = layout().with_devices([2, 0, 4].map(DeviceId).to_vec(), 4).unwrap_err();
    assert_eq!(e.to_string(), "at `rank_map[2]`: 4 is not allowed\n  allowed: 0 to 3");
}
