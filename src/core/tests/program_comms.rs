use stepsim_core::program::comms::*;
use stepsim_core::program::span::Span;

#[test]
fn twins_are_written_once_and_change_together_or_apart() {
    let comm = |profile| Comm { needed: 1, profile, members: Span::default(), paths: Span::default() };
    let mut comms = Comms::default();
    [0, 1].map(comm).into_iter().for_each(|comm| comms.push(comm));
    [0, 1, 0].into_iter().for_each(|of| comms.push_twin(of));
    assert_eq!((comms.len(), comms.entries().len()), (5, 2));
    let profiles = |comms: &Comms| comms.iter().map(|comm| comm.profile).collect::<Vec<_>>();
    assert_eq!(profiles(&comms), [0, 1, 0, 1, 0]);
    comms.set_profiles([(0, 7), (2, 7), (3, 8)].into_iter());
    assert_eq!(profiles(&comms), [7, 1, 7, 8, 0]);
    assert_eq!(comms.entry()[0], comms.entry()[2]);
    comms.set_profiles([(2, 9)].into_iter());
    assert_eq!(profiles(&comms), [7, 1, 9, 8, 0]);
    let mut both = Comms::from_iter([comm(3)]);
    both.extend(&comms, |of| Comm { profile: of.profile + 1, ..*of });
    assert_eq!(profiles(&both), [3, 8, 2, 10, 9, 1]);
}
