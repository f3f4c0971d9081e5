use stepsim_core::kernel_class::KernelClass;
use stepsim_core::power::PowerAndPrice;
use stepsim_read::analysis::cost::*;
use stepsim_read::analysis::kernel_classes::{KernelBound, KernelClassReport};

/// Two steps of 10 s on 4 devices, each 6 s in products and 1 s in memory-bound kernels:
/// 4 · (6 · 700 + 1 · 300 + 3 · 150) J = 19,800 J and 4 · 10/3600 · 3.6 $ = 0.04 $ for 1,000 tokens.
#[test]
fn energy_goes_by_what_devices_do() {
    let kernel = |class, time_s| KernelClassReport {
        class,
        count: 1.0,
        time_s,
        disturbed_s: 0.0,
        share: 0.0,
        tflops: 0.0,
        gbps: 0.0,
        bound: KernelBound::Neither,
    };
    let kernels = [kernel(KernelClass::Gemm, 6.0), kernel(KernelClass::Norm, 1.0)];
    let step = CostBasis { seconds: 10.0, busy_s: 7.0, kernels: &kernels, tokens: 1000, devices: 4 };
    let rates = PowerAndPrice { watts: Some([700.0, 300.0, 150.0]), usd_per_h: Some(3.6) };
    let found = cost(step, &rates).unwrap();
    assert_eq!(found.uses.iter().map(|u| u.time_s).collect::<Vec<_>>(), [6.0, 1.0, 3.0]);
    assert_eq!((found.step_joules, found.joules_per_token), (Some(19_800.0), Some(19.8)));
    assert_eq!(found.watts_per_device, Some(495.0));
    let usd = [found.step_usd, found.usd_per_million_tokens].map(Option::unwrap);
    assert!((usd[0] - 0.04).abs() < 1e-12 && (usd[1] - 40.0).abs() < 1e-9);
    let priced = cost(step, &PowerAndPrice { watts: None, ..rates }).unwrap();
    assert_eq!((priced.step_joules, priced.uses.len(), priced.step_usd), (None, 0, found.step_usd));
    assert_eq!(cost(step, &PowerAndPrice::default()), None);
}
