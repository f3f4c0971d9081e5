use stepsim_core::kernel_class::*;

#[test]
fn a_class_is_written_as_it_is_called() {
    let names: std::collections::BTreeSet<&str> = KernelClass::ALL.iter().map(|c| c.name()).collect();
    assert_eq!(names.len(), KernelClass::ALL.len());
    for class in KernelClass::ALL {
        assert_eq!(serde_json::to_value(class).unwrap(), class.name());
    }
}

#[test]
fn a_measured_op_means_one_class_and_moves_something() {
    for class in KernelClass::ALL {
        for op in class.measured() {
            for backward in [false, true].into_iter().filter(|b| op.backward.is_none_or(|own| own == *b)) {
                assert_eq!(KernelClass::of_measured(op.op, backward), Some((*class, *op)));
            }
            assert!(op.moved(1.0, 2.0) > 0.0);
        }
    }
}

/// A tuned kernel is at least as fast as an eager one, and none is faster than a copy.
#[test]
fn rates_of_makers_are_in_order() {
    for class in KernelClass::ALL {
        if let KernelKind::MemoryBound(ClassRates { tuned, compiled, eager, floor_us }) = class.kind() {
            // Eager activation reads separate tensors, where fused kernels read halves of one.
            let eager_is_slowest = compiled >= eager || *class == KernelClass::Activation;
            assert!(1.0 >= tuned && tuned >= compiled && eager_is_slowest && eager > 0.0, "{class}");
            assert!((1.0..100.0).contains(&floor_us), "{class}");
        }
    }
}
