use stepsim_study::objective::*;

#[test]
fn objectives_order_as_their_names_say() {
    let few = Measures {
        seconds: 20.0,
        memory_bytes: 4e10,
        tokens: 1e6,
        devices: 8.0,
        price_usd_per_h: 3.6,
        power_w: 500.0,
    };
    let many = Measures { seconds: 12.0, memory_bytes: 3e10, devices: 16.0, ..few };
    let better = |objective| many.score(objective) < few.score(objective);
    assert_eq!(Objective::NAMED.map(|(_, o)| better(o)), [true, false, false, false, false, true]);
    // 8 devices for 20 s at 3.6 $/h are 0.16 $ for a million tokens, and at 500 W 80 kJ.
    assert!((few.usd_per_million_tokens().unwrap() - 0.16).abs() < 1e-12);
    assert!((few.score(Objective::Energy) - 0.08).abs() < 1e-12);
    let faster = Measures { seconds: 19.0, ..few };
    assert!(faster.score(Objective::Devices) < few.score(Objective::Devices));
}
