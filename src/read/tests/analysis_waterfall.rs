use std::collections::BTreeMap;

use proptest::prelude::*;
use stepsim_core::ids::RankId;
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{OpInfo, Phase, StreamKind};
use stepsim_core::units::{FlopRate, PS_PER_S, Time};
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::stalls;
use stepsim_read::analysis::turns::Recurring;
use stepsim_read::analysis::waterfall::*;

use crate::random_world;
use crate::random_world::Scenario;

const PEAK: FlopRate = FlopRate(1e12);

fn read(s: &Scenario, counted: MfuFlops) -> Option<Vec<Waterfall>> {
    let mut causes = Causes::new(&s.world, &s.record);
    let mut idle = IdleTimes::new(&s.world);
    let mut of = |r: u32| {
        let mut pieces = Vec::new();
        let time = stalls::stalls_of(&mut causes, &mut idle, RankId(r), &mut pieces);
        of_rank(&causes, &mut idle, RankId(r), &Recurring::default(), (&time, &pieces))
    };
    let readings: Vec<RankWaterfall> = (0..s.record.ranks()).map(&mut of).collect();
    waterfalls(readings, &vec![1; s.record.ranks() as usize], counted, PEAK)
}

/// Gives the kernels of a world classes and FLOPs by turns.
fn with_flops(mut s: Scenario, seed: u64) -> Scenario {
    for (p, program) in s.world.programs.iter_mut().enumerate() {
        let program = std::sync::Arc::make_mut(program);
        for (i, info) in program.infos.iter_mut().enumerate() {
            let draw = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left((7 * i + p) as u32 % 63) % 97;
            info.class = Some(KernelClass::ALL[draw as usize % KernelClass::ALL.len()]);
            info.flops = if draw.is_multiple_of(3) { 0.0 } else { draw as f64 * 1e5 };
            info.phase = match draw % 5 {
                0 => Phase::Recompute,
                1 => Phase::Optimizer,
                _ => Phase::Forward,
            };
        }
    }
    s
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn bars_and_the_model_fill_the_peak(seed in any::<u64>(), of_model in 0.1f64..3.0) {
        for s in random_world::both(seed) {
            let s = with_flops(s, seed);
            let counted = MfuFlops { matrices: of_model * 3e7, mixing: 1e7 };
            let Some(ranks) = read(&s, counted) else { continue };
            let mut model = 0.0;
            for w in &ranks {
                prop_assert_eq!(w.model + w.bars.values().sum::<i128>(), w.peak);
                prop_assert_eq!(w.peak, i128::from(s.record.step_end.0));
                model += w.model as f64;
            }
            let expected = (counted.matrices + counted.mixing) / PEAK.0 * PS_PER_S;
            let rounding = 2.0 + ranks.len() as f64 + 1e-9 * expected;
            prop_assert!((model - expected).abs() <= rounding, "{model} {expected}");
        }
    }
}

/// A GEMM at half the peak, a norm, and a reduction of 3 us (1 us of it latency) that comes 2 us late.
#[test]
fn each_bar_has_its_name() {
    let mut s = Scenario::of_two(StreamKind::Tensor, [4_000_000, 6_000_000], 3_000_000, 0);
    s.kernels_behind(1_000_000);
    let mut s = s.finish();
    for program in &mut s.world.programs {
        let infos = &mut std::sync::Arc::make_mut(program).infos;
        infos[0] = OpInfo { class: Some(KernelClass::Gemm), flops: 2e6, ..infos[0].clone() };
        infos[2] = OpInfo { class: Some(KernelClass::Norm), ..infos[2].clone() };
    }
    let stepsim_core::program::Action::Phases(phases) = &mut s.world.actions[0] else { panic!("a phase") };
    phases[0].latency = Time(1_000_000);
    phases[0].bytes = 1_000_000.0;
    let ranks = read(&s, MfuFlops { matrices: 4e6, mixing: 0.0 }).expect("a waterfall");
    let us = 1_000_000;
    let tensor = |part| WaterfallBar::Exposed(OpKind::Tensor, part);
    let expected = [
        (WaterfallBar::Efficiency(KernelClass::Gemm), 2 * us),
        (WaterfallBar::MemoryBound(KernelClass::Norm), us),
        (tensor(CommunicationPart::Bandwidth), 2 * us),
        (tensor(CommunicationPart::Latency), us),
        (tensor(CommunicationPart::LatePeer), 2 * us),
    ];
    assert_eq!(ranks[0].bars, BTreeMap::from(expected));
    assert_eq!((ranks[0].model, ranks[0].peak), (2 * us, 10 * us));
}

/// No kernel that multiplies: nothing to hold against a peak.
#[test]
fn without_flops_there_is_none() {
    let mut s = Scenario::new(1);
    let stream = s.stream(0, StreamKind::Compute);
    s.kernel(0, stream, 1_000, 0);
    assert_eq!(read(&s.finish(), MfuFlops { matrices: 1.0, mixing: 0.0 }), None);
}
