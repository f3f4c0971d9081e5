//! Exact laws of sharded and reduced weights beside the passes of a rank's units, one collective at a time on one
//! link, without contention (formulas of FSDP2's dependency graph, checked against a reference simulation).
//!
//! With f, b, g, s the forward, backward, all-gather and reduce-scatter of a unit, for equal units
//! T_fwd = g + (L − 1)·max(f, g) + f and T_bwd = g + b + (L − 1)·max(b, g, s) + s. The sums below are the same laws
//! for unequal units: neighbours in the order of the pass share a slot.

/// Seconds of the unit's collectives: gather of its weights, reduction of its gradients; and of its passes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnitCosts {
    /// Forward.
    pub forward: f64,
    /// Backward with recomputation.
    pub backward: f64,
    /// All-gather of the weights.
    pub gather: f64,
    /// Reduction of the gradients.
    pub reduce: f64,
}

/// Forward pass with gathered weights: the gather of a unit runs beside the unit before it.
pub fn gathered_forward(units: &[UnitCosts]) -> f64 {
    let slots = units.windows(2).map(|pair| pair[0].forward.max(pair[1].gather)).sum::<f64>();
    let ends = units.first().map_or(0.0, |u| u.gather) + units.last().map_or(0.0, |u| u.forward);
    slots + ends
}

/// Backward pass with gathered weights and, if `reduces`, reduced gradients: beside the backward of unit i run the
/// gather of unit i − 1 and the reduction of unit i + 1.
pub fn gathered_backward(units: &[UnitCosts], gathers: bool, reduces: bool) -> f64 {
    let gather = |u: Option<&UnitCosts>| if gathers { u.map_or(0.0, |u| u.gather) } else { 0.0 };
    let reduce = |u: Option<&UnitCosts>| if reduces { u.map_or(0.0, |u| u.reduce) } else { 0.0 };
    let slots = (0..units.len()).map(|i| {
        let before = i.checked_sub(1).and_then(|i| units.get(i));
        units[i].backward.max(gather(before)).max(reduce(units.get(i + 1)))
    });
    gather(units.last()) + slots.sum::<f64>() + reduce(units.first())
}

/// What the reduction of gradients adds behind the backward pass, if each unit's starts when its backward has ended
/// and the one before it is done.
pub fn reduction_tail(units: &[UnitCosts]) -> f64 {
    let (mut pass, mut link) = (0.0_f64, 0.0_f64);
    for unit in units.iter().rev() {
        pass += unit.backward;
        link = link.max(pass) + unit.reduce;
    }
    (link - pass).max(0.0)
}

/// What gathering the updated weights adds to the first forward pass, if the gathers follow one another from its start
/// and each unit waits for its own.
pub fn gather_lead(units: &[UnitCosts]) -> f64 {
    let (mut pass, mut link, mut busy) = (0.0_f64, 0.0_f64, 0.0_f64);
    for unit in units {
        link += unit.gather;
        pass = pass.max(link) + unit.forward;
        busy += unit.forward;
    }
    pass - busy
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal units: the published closed forms, for each of the three costs being the largest.
    #[test]
    fn equal_units_follow_the_textbook() {
        for (f, b, g, s) in [(3.0, 6.0, 1.0, 2.0), (1.0, 2.0, 5.0, 3.0), (1.0, 2.0, 3.0, 7.0)] {
            let units = [UnitCosts { forward: f, backward: b, gather: g, reduce: s }; 4];
            assert_eq!(gathered_forward(&units), g + 3.0 * f.max(g) + f);
            let kept = b + 3.0 * b.max(s) + s;
            assert_eq!(gathered_backward(&units, false, true), kept);
        }
        let units = [UnitCosts { forward: 3.0, backward: 6.0, gather: 1.0, reduce: 2.0 }; 4];
        assert_eq!(gathered_backward(&units, true, true), 1.0 + 6.0 + 3.0 * 6.0 + 2.0);
    }

    /// Fast links expose one reduction and one gather, slow links all but what the passes cover.
    #[test]
    fn tails_and_leads() {
        let fast = [UnitCosts { forward: 3.0, backward: 6.0, gather: 1.0, reduce: 2.0 }; 4];
        assert_eq!((reduction_tail(&fast), gather_lead(&fast)), (2.0, 1.0));
        let slow = [UnitCosts { forward: 3.0, backward: 6.0, gather: 5.0, reduce: 10.0 }; 4];
        assert_eq!(reduction_tail(&slow), 6.0 + 40.0 - 24.0);
        assert_eq!(gather_lead(&slow), 20.0 + 3.0 - 12.0);
    }
}
