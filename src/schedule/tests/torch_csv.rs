use stepsim_schedule::{ALL, Order, Pass, Shape, Slot, order_from_torch_csv};

/// An order as torch would write it.
fn csv(order: &Order) -> String {
    let cell = |rank: u32, part: stepsim_schedule::SlotPass| {
        let stage = order.placement.stage(stepsim_schedule::Seat { rank, chunk: part.chunk }).stage;
        let letter = match part.pass {
            Pass::Forward => 'F',
            Pass::Backward => 'B',
            Pass::InputGrad => 'I',
            Pass::WeightGrad => 'W',
        };
        format!("{stage}{letter}{}", part.micro_batch)
    };
    let slot = |rank, slot: &Slot| match *slot {
        Slot::Single(part) => cell(rank, part),
        Slot::Overlapped { forward, backward } => {
            format!("({};{})OVERLAP_F_B", cell(rank, forward), cell(rank, backward))
        }
    };
    let row =
        |(rank, slots): (u32, &Vec<Slot>)| slots.iter().map(|s| slot(rank, s)).collect::<Vec<_>>().join(",,");
    (0..).zip(&order.ranks).map(row).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_schedule_of_one_direction_comes_back() {
    let mut seen = 0;
    for schedule in ALL {
        let order = schedule.order(&Shape::new(4, 8)).unwrap();
        if order.placement.directions() == 1 {
            assert_eq!(order_from_torch_csv(&csv(&order)).as_ref(), Ok(&order), "{}", schedule.name());
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn communication_is_passed_over_and_faults_name_their_place() {
    let text = "0UNSHARD,0F0,0SEND_F0,0F1,,0RECV_B0,0B0,0B1,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1F1,1B1\n";
    let order = order_from_torch_csv(text).unwrap();
    assert_eq!((order.ranks.len(), order.micro_batches, order.ranks[0].len()), (2, 2, 4));
    let error = |text: &str| order_from_torch_csv(text).unwrap_err().to_string();
    assert!(error("0F0,0X1").contains("ranks[0], slot 1: `0X1`"), "{}", error("0F0,0X1"));
    assert!(error("0F0,0B0\n0F1,0B1").contains("stage 0 stands on rank 0 and on rank 1"));
    assert!(error("0F0,0B0\n2F0,2B0").contains("no rank has stage 1"));
    assert!(error("").contains("no slot"));
}
