use stepsim_bring::describe::stages::*;

#[test]
fn stages_in_letters() {
    let v3 = split("Et*4|(t*4|)*14tmL", 61, 16).unwrap();
    assert_eq!((v3[0], v3[14], v3[15]), (4, 4, 1));
    assert_eq!(split("Et*8|(t*8|)*6t*5mL", 61, 8).unwrap(), [8, 8, 8, 8, 8, 8, 8, 5]);
    let alone = split("Et|(tt|)*30mL", 61, 32).unwrap();
    assert_eq!((alone[0], alone[30], alone[31]), (1, 2, 0), "prediction and loss alone");
    assert_eq!(split("E t t | t t | t t L", 6, 3), Some(vec![2, 2, 2]));
    assert_eq!(split("Et|tL", 30, 8), None, "another model");
    for wrong in ["Et*|", "(t", "x|y", "(t*9999|)*9999", "t*99999999999999999999"] {
        assert!(split(wrong, 30, 8).is_none(), "{wrong}");
    }
}

#[test]
fn stages_in_words_and_numbers() {
    for (text, layers, split_) in [
        ("ends-less", 30, &[7, 8, 8, 7][..]),
        ("account for embedding and loss in pipeline split", 30, &[7, 8, 8, 7]),
        ("one layer less: embedding and loss count as layers", 30, &[7, 8, 8, 7]),
        ("7, 8, 8, 7", 30, &[7, 8, 8, 7]),
        ("[7, 8, 8, 7]", 30, &[7, 8, 8, 7]),
        ("first stage 11 layers, last stage 3", 30, &[11, 8, 8, 3]),
        ("6 layers on the first stage", 30, &[6, 8, 8, 8]),
        ("decoder_first_pipeline_num_layers=6, decoder_last_pipeline_num_layers=6", 30, &[6, 9, 9, 6]),
        ("embedding and LM head on stages of their own", 6, &[0, 3, 3, 0]),
    ] {
        assert_eq!(split(text, layers, 4).as_deref(), Some(split_), "{text}");
    }
    assert_eq!(split("as the authors found best", 30, 4), None);
    assert_eq!(split_by_cost(16, 2, 4.0), [11, 5], "20 blocks' worth, the head with the last");
    assert_eq!(split_by_cost(28, 8, 3.56), [4, 4, 4, 4, 4, 4, 4, 0], "the head alone");
    assert_eq!(split_by_cost(4, 4, 9.0), [4, 0, 0, 0]);
    let few = spread(28, 32);
    assert_eq!((few.len(), few.iter().sum::<u64>(), few[0], few[1], few[31]), (32, 28, 0, 1, 0));
}
