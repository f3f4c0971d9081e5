use stepsim_spec::{WorkloadSpec, load};

#[test]
fn short_names_lead_to_fields_that_are_there() {
    let said = |set: String| load::<WorkloadSpec>("gpt2-8", &[set]).map(|_| ()).map_err(|e| e.to_string());
    for (name, path) in [
        ("tp", "parallelism.tensor"),
        ("pp", "parallelism.pipeline.size"),
        ("dp", "parallelism.data"),
        ("mbs", "batch.micro_batch"),
        ("gbs", "batch.global"),
        ("seq", "sequence"),
        ("zero", "parallelism.sharding.kind"),
        ("dtype", "precision.compute"),
        ("software", "stack"),
    ] {
        let hint = said(format!("{name}=1")).expect_err(name);
        assert!(hint.contains(&format!("`--set {path}=…`")), "{hint}");
        assert!(said(format!("{path}=1")).err().is_none_or(|e| !e.contains("no such field")), "{path}");
    }
    let hint = said("layers=12".to_string()).expect_err("layers");
    assert!(hint.contains("`--set model.layers=…`"), "{hint}");
}
