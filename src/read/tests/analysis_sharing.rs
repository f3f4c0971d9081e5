use stepsim_core::ids::{OpId, RankId};
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::sharing::*;

use crate::random_world;

/// A link that is named is on the way of the communication, and no more share it than there are communicators.
#[test]
fn a_shared_link_lies_on_the_way() {
    let mut named = 0;
    for seed in 0..200 {
        let s = random_world::random(seed);
        let causes = Causes::new(&s.world, &s.record);
        let mut sharing = LinkSharing::default();
        for rank in (0..s.world.ranks.len() as u32).map(RankId) {
            for op in (0..s.world.program_of(rank).ops.len() as u32).map(OpId) {
                let Some((link, sharers)) = sharing.most(&causes, (rank, op), causes.span(rank, op)) else {
                    continue;
                };
                let comm = causes.comm(rank, op).unwrap();
                assert!(links_of(&causes, comm).contains(&link));
                assert!((2..=s.world.comms.len() as u32).contains(&sharers));
                named += 1;
            }
        }
    }
    assert!(named > 0, "no world has a link that is shared");
}
