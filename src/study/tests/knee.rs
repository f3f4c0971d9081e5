use stepsim_study::knee::*;

#[test]
fn units_of_a_condition_are_numbers() {
    for (text, now) in [
        ("stall<1%", "stall<0.01"),
        ("step < 1.02x", "step < 2.04"),
        ("step<1.5x and stall<2 %", "step<3 and stall<2 %"),
        ("(mfu>50%) or stages.0.x < 3", "(mfu>0.5) or stages.0.x < 3"),
        ("a1 % 2 == 0", "a1 % 2 == 0"),
        ("10 % 3 == 1", "10 % 3 == 1"),
        ("step<700", "step<700"),
    ] {
        assert_eq!(units(text, 2.0), now, "{text}");
    }
    for (wrong, part) in [("mfuu>0.5", "no `mfuu`"), ("stall <", "a value is missing")] {
        let error = KneeCondition::parse(wrong).unwrap_err().to_string();
        assert!(error.contains(part), "{wrong}: {error}");
    }
}

#[test]
fn halving_ends_at_neighbours() {
    let field = |whole| KneeField { path: "a".into(), from: 1.0, to: 1000.0, whole, listed: Vec::new() };
    for (whole, border) in [(true, 7.0), (true, 2.0), (true, 999.0), (false, 33.3), (false, 1.001)] {
        let (field, mut low, mut high, mut plays) = (field(whole), 1.0, 1000.0, 0);
        while let Some(middle) = field.between(low, high, 0.001) {
            if middle >= border {
                high = middle
            } else {
                low = middle
            }
            plays += 1;
        }
        assert!(high >= border && low < border && plays <= 15, "{border}: {low} {high} {plays}");
        assert!(if whole { high == border } else { high / border < 1.002 }, "{border}: {high}");
    }
}
