use std::collections::BTreeMap;
use std::path::Path;

use stepsim_spec::files::{Disk, Files, exists, lend};

#[test]
fn a_text_that_is_lent_is_read_under_its_name_until_others_are() {
    let name = Path::new("lent/for/this/test.json");
    assert!(!exists(name) && Disk.read(name).is_err());
    lend(BTreeMap::from([("lent/for/this/test.json".to_owned(), "{}".to_owned())]));
    assert!(exists(name));
    assert_eq!(Disk.read(name), Ok("{}".to_owned()));
    lend(BTreeMap::new());
    assert!(!exists(name));
}
