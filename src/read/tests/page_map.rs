use stepsim_core::units::Time;
use stepsim_read::page::map::{COLUMNS, MapRow, RankMap};
use stepsim_read::page::png::{base64, png};

#[test]
fn a_column_has_what_took_most_of_it() {
    let mut map = RankMap { step: Time(COLUMNS as u64 * 10), ..RankMap::default() };
    for _ in 0..2 {
        let mut row = MapRow::new(&mut map, ("rank 0".into(), 4), 2);
        for (kind, start, end) in
            [(0, 0, 4), (1, 4, 10), (0, 10, 35), (1, 10 * COLUMNS as u64 - 3, 10 * COLUMNS as u64)]
        {
            row.add(kind, Time(start), Time(end));
        }
        row.finish();
    }
    assert_eq!(map.cells.len(), 2 * COLUMNS);
    for row in map.cells.chunks(COLUMNS) {
        assert_eq!((&row[..5], row[COLUMNS - 1]), ([2, 1, 1, 1, 0].as_slice(), 2));
    }
    let kinds = [("fwd", "#009e73"), ("late", "#f0e442")];
    let forward = [(0, 0), (10, 8), (40, 0)].map(|(at, ranks)| (Time(at), ranks)).to_vec();
    assert_eq!(map.counted(&kinds)[0], ("fwd".to_owned(), forward));
    let file = map.file("a <step>", &kinds);
    assert!(
        file.starts_with("<svg xmlns=") && file.contains("a &lt;step&gt;") && file.contains(">late<"),
        "{file}"
    );
}

#[test]
fn pictures_are_those_of_the_standards() {
    for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
        assert_eq!(base64(bytes.as_bytes()), text);
    }
    let picture = png(2, &[0, 1, 1, 0], &[[255; 3], [0; 3]]).unwrap();
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x02\0\0\0\x02\x08\x03"));
    // The sum of the empty last chunk, as every PNG has it.
    assert!(picture.ends_with(b"IEND\xae\x42\x60\x82"));
}
