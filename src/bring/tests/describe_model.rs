use stepsim_bring::describe::model::*;
use stepsim_spec::{Kind, ModelSpec, RulesSpec, catalog, load};

#[test]
fn every_spelling_of_the_vocabulary_is_a_model_of_its_size() {
    let rules = load::<RulesSpec>("models", &[]).unwrap().value.rules;
    let named = rules.iter().filter(|rule| !rule.fill.is_empty() || rule.shape.is_some());
    let all: Vec<&str> = named.flat_map(spellings).collect();
    assert!(all.len() > 250, "{}", all.len());
    let none: Vec<&&str> = all.iter().filter(|name| model_named(name).is_none()).collect();
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn shipped_models_answer_to_their_names() {
    let none: Vec<&str> = catalog::names(Kind::Model).filter(|name| model_named(name).is_none()).collect();
    assert!(none.is_empty(), "{none:?}");
    for name in catalog::names(Kind::Model) {
        let shipped = load::<ModelSpec>(name, &[]).unwrap().value;
        let found = model_named(name).unwrap();
        let found = checked(&found, name).unwrap();
        let is = |m: &ModelSpec| (m.layers, m.hidden, m.heads, m.ffn, m.gated_mlp, m.tied_embeddings);
        assert_eq!(is(&found), is(&shipped), "{name}");
    }
}

#[test]
fn a_name_that_says_a_size_alone_is_no_model() {
    for name in ["nothing-7b", "7b", "GPT", "", "llama", "Qwen3 9B", "gpt-oss-20b-but-70b"] {
        assert!(model_named(name).is_none(), "{name}");
    }
}

#[test]
fn a_file_is_no_model_of_that_name() {
    let file = "Mixtral-8x7B.yaml";
    assert!(model_named(file).is_some(), "a name with an ending is known");
    assert_eq!(model_of_word(file), file);
}
