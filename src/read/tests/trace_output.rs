use std::fs;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use stepsim_read::trace::output::*;

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_name_tells_the_format() {
    let of = |name: &str| TimelineFormat::of(Path::new(name)).map_err(|e| e.to_string());
    assert_eq!(of("a/step.json"), Ok((TimelineFormat::Chrome, false)));
    assert_eq!(of("step.JSON.gz"), Ok((TimelineFormat::Chrome, true)));
    assert_eq!(of("step.pftrace"), Ok((TimelineFormat::Perfetto, false)));
    assert_eq!(of("step.v2.pftrace.gz"), Ok((TimelineFormat::Perfetto, true)));
    assert_eq!(
        of("step.txt").unwrap_err(),
        "cannot tell the format of trace `step.txt` from its name; end it in .json, .json.gz, .pftrace or \
         .pftrace.gz"
    );
}

#[test]
fn a_file_gets_its_name_only_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    fs::write(&path, "before").unwrap();
    let mut output = TimelineFile::create(&path, false).unwrap();
    output.write_all(b"half").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before");
    drop(output);
    assert_eq!(fs::read(&path).unwrap(), b"before");
    assert_eq!(names(folder.path()), ["a.json"]);
    let mut output = TimelineFile::create(&path, false).unwrap();
    output.write_all(b"whole").unwrap();
    output.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert_eq!(names(folder.path()), ["a.json"]);
}

#[test]
fn gzip_gives_back_what_went_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json.gz");
    let text: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 27) as u8).collect();
    let mut output = TimelineFile::create(&path, true).unwrap();
    for block in text.chunks(100_000) {
        output.write_all(block).unwrap();
    }
    output.finish().unwrap();
    let mut back = Vec::new();
    flate2::read::GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut back).unwrap();
    assert!(back == text, "the decompressed bytes differ");
}
