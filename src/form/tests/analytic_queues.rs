use stepsim_form::analytic::queues::*;

fn kernel(seconds: f64) -> PassOp {
    PassOp { work: PassWork::Kernel, seconds, launch: None }
}
fn message(queue: Queue, seconds: f64, hidden: u32) -> PassOp {
    PassOp { work: PassWork::Message { queue, hidden, exchange: false, read: None }, seconds, launch: None }
}

/// t pieces of a product with the shifts of a ring: k + (t − 1)·max(c, k), whichever is longer.
#[test]
fn a_ring_beside_its_product_follows_the_law() {
    for (c, k) in [(1.0, 3.0), (3.0, 1.0), (2.0, 2.0)] {
        let t = 8;
        let shifts = (1..t).map(|i| message(Queue::Tensor, c, i));
        let gathered: Vec<PassOp> = shifts.chain((0..t).map(|_| kernel(k))).collect();
        let times = passage(&gathered).after(&[0.0; QUEUES]);
        assert_eq!(times[Queue::Compute as usize], k + f64::from(t - 1) * c.max(k));
    }
}

/// A matrix says of every start what the ops themselves say, also of many passes in a row.
#[test]
fn a_matrix_is_its_pass() {
    let ops = [
        message(Queue::Tensor, 2.0, 0),
        kernel(1.0),
        message(Queue::Context, 4.0, 2),
        kernel(3.0),
        message(Queue::Tensor, 1.5, 1),
        kernel(0.5),
        kernel(1.0),
        message(Queue::Expert, 0.25, 0),
    ];
    let starts: QueueTimes = [3.0, 0.0, 1.0, 7.0, 2.0, 9.0, 0.0, f64::NEG_INFINITY];
    let mut streams = starts;
    let mut chain = PassProgress::new(Some(starts[0]));
    for n in 1..6 {
        ops.iter().for_each(|op| chain.run(op, &mut streams));
        let mut want = streams;
        want[0] = chain.output().expect("an output");
        assert_eq!(passage(&ops).times(n).after(&starts), want, "{n} passes");
    }
}
