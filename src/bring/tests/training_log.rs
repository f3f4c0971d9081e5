use stepsim_bring::training_log::*;

#[test]
fn steps_of_many_kinds_of_logs_are_read() {
    let work = StepWork { sequences: 256.0, tokens: 256.0 * 4096.0, devices: 64.0 };
    let rows: Vec<(String, String, f64)> =
        serde_json::from_str(include_str!("training-log.json")).expect("rows");
    for (software, line, seconds) in rows {
        let log = Log::read(&line).unwrap().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(log.software, software, "{line}");
        assert!((log.seconds(work) / seconds - 1.0).abs() < 1e-3, "{line}: {}", log.seconds(work));
    }
    assert_eq!(Log::read("loss: 3.1\nnothing of a step").unwrap(), None);
}

#[test]
fn the_middle_of_the_steps_behind_the_warm_up_counts() {
    let times = [9000, 2000, 1010, 1000, 1000, 1000, 1020, 1000, 1000, 990];
    let lines: Vec<String> = times
        .iter()
        .map(|t| format!("elapsed time per iteration (ms): {t}.0 | global batch size: 64 |"))
        .collect();
    let log = Log::read(&lines.join("\n")).unwrap().unwrap();
    let work = StepWork { sequences: 64.0, tokens: 1.0, devices: 1.0 };
    assert_eq!((log.lines, log.sequences, log.seconds(work)), (10, Some(64), 1.0));
}
