use stepsim_spec::SpecError;
use stepsim_study::*;

fn columns(paths: &[&str]) -> Result<ReportColumns, SpecError> {
    ReportColumns::new(paths.iter().map(ToString::to_string))
}

#[test]
fn paths_of_a_report_are_known_before_there_is_one() {
    for good in [
        "hfu",
        "status",
        "mean.stalls_s.pipeline_bubble",
        "communication.tp.exposed_s",
        "stages.0.memory.hbm.by_class.activations",
        "critical_path.by_kind_s.compute",
        "kernels.1.TFLOPs",
        "own.mine.0.any",
    ] {
        assert!(columns(&[good]).is_ok(), "{good}");
    }
    for (wrong, word) in [
        ("mfuu", "there is no `mfuu`"),
        ("mean", "a table"),
        ("stages", "a list"),
        ("stages.first", "no `first` in `stages`"),
        ("mean.busy", "no `busy` in `mean`"),
        ("hfu.x", "no `x` in `hfu`"),
    ] {
        let error = columns(&[wrong]).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("--columns"), "{wrong}: {error}");
    }
    let known = columns(&["mean.busy"]).unwrap_err().to_string();
    assert_eq!(known.matches("busy_s").count(), 1, "{known}");
}

#[test]
fn a_column_is_given_once_and_none_is_none() {
    assert!(columns(&["", ""]).unwrap().is_empty());
    assert_eq!(columns(&["hfu", "hfu"]).unwrap().0, ["hfu"]);
    assert_eq!(columns(&["hfu"]).unwrap().key(), " hfu");
}
