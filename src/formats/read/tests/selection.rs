//! Tests of selections of the rows with a value.

use super::*;
use crate::read::loaded::load_selections;
use crate::read::selection::{Selection, find_selections};

/// Returns the values of `field` with the rows of each, and the number of invalid rows. Compares the rows
/// with those that are loaded in one pass.
fn split(path: &Path, options: ReadOptions, field: &str) -> (Vec<(String, Vec<String>)>, u64) {
    let found = find_selections(path, options, field).unwrap();
    let mut mapping = ColumnMapping::new("t", None);
    mapping.column("x", MappedColumn::exact("x", Dtype::Float));
    let loaded = load_selections(path, options, &|_| true, &found.selections, usize::MAX).unwrap();
    let rows = |selection: Selection| {
        let mut mapping = mapping.clone();
        let (value, begin) = (selection.value.clone(), selection.begin);
        mapping.select(selection);
        let rows = all(path, options, mapping.clone(), begin);
        mapping.load(Arc::clone(&loaded[&value]));
        assert_eq!(all(path, options, mapping.clone(), begin), rows, "{value}");
        let first = rows[0].split_once(':').unwrap().0.parse().unwrap();
        let resumed = Place { line: first, ..begin };
        assert_eq!(all(path, options, mapping, resumed), rows[1..], "{value}");
        (value, rows)
    };
    (found.selections.into_iter().map(rows).collect(), found.n_bad)
}

#[test]
fn rows_are_selected_by_the_value_of_a_field() {
    let csv = "t,s,x\n1704153600,A,1\n1704153600, B,2\n1704153600\n1704153600,,0\n\
               1704153660,\"A \",x\n1704153720,C,4\n";
    let ndjson = r#"
        {"t":1704153600,"s":"A","x":1}
        {"t":1704153600,"x":2,"s":"B"}
        {"t"}
        {"t":1704153600,"x":0}
        {"x":"x","t":1704153660,"s":"A"}
        {"t":1704153720,"s":"C","x":4}"#;
    let array = ndjson.trim().replace("{\"t\"}", "{\"t\":}").replace('\n', ",");
    let array = format!("[{array}]");
    for (name, text, first_line) in
        [("a.csv", csv, 2), ("a.ndjson", ndjson, 2), ("a.json", &array, 1)]
    {
        let (_folder, path, options) = file(name, text.as_bytes());
        let row = |idx: u64, at: &str, x: u32| {
            vec![format!("{}: 2024-01-02T{at}Z {x}", first_line + idx)]
        };
        let mut a = row(0, "00:00:00", 1);
        a.push(format!("{}: bad: column x: `x` is not of type float", first_line + 4));
        let want = [
            ("A".to_owned(), a),
            ("B".to_owned(), row(1, "00:00:00", 2)),
            ("C".to_owned(), row(5, "00:02:00", 4)),
        ];
        assert_eq!(split(&path, options, "s"), (want.to_vec(), 2), "{name}");
    }
}

#[test]
fn parquet_rows_are_selected_by_texts_and_numbers() {
    let path = parquet("gzip-groups");
    for (field, want) in [("name", vec!["a", "b", "ü"]), ("flag", vec!["true", "false"])] {
        let found = find_selections(&path, PARQUET, field).unwrap();
        let values: Vec<_> = found.selections.iter().map(|it| it.value.as_str()).collect();
        assert_eq!(values, want);
        let n_rows = |selection: &Selection| {
            let mut mapping = ColumnMapping::new("open_time", None);
            for field in ["open", "n", "small", "flag", "name", "none"] {
                mapping.leave_out(field);
            }
            mapping.select(selection.clone());
            let selections = [selection.clone()];
            let loaded = load_selections(
                &path,
                PARQUET,
                &|field| mapping.is_read(field),
                &selections,
                usize::MAX,
            );
            let rows = all(&path, PARQUET, mapping.clone(), selection.begin);
            mapping.load(Arc::clone(&loaded.unwrap()[&selection.value]));
            assert_eq!(all(&path, PARQUET, mapping, selection.begin), rows);
            rows.len() as u64
        };
        let n_all: u64 = found.selections.iter().map(n_rows).sum();
        assert_eq!(n_all + found.n_bad, 50, "{field}");
    }
}

#[test]
fn records_of_the_last_values_are_not_loaded_if_all_exceed_the_memory_limit() {
    let line = |idx: usize| format!("1704153600,{},{}\n", idx % 4, "x".repeat(1_000));
    let text = format!("t,s,x\n{}", (0..400).map(line).collect::<String>());
    let (_folder, path, options) = file("a.csv", text.as_bytes());
    let selections = find_selections(&path, options, "s").unwrap().selections;
    for (bytes_max, want) in
        [(usize::MAX, &["0", "1", "2", "3"][..]), (350_000, &["0", "1"]), (50_000, &[])]
    {
        let loaded = load_selections(&path, options, &|_| true, &selections, bytes_max).unwrap();
        let mut values: Vec<_> = loaded.keys().map(String::as_str).collect();
        values.sort_unstable();
        assert_eq!(values, want, "{bytes_max}");
    }
}

#[test]
fn number_and_length_of_selectable_values_are_limited() {
    let line = |idx: usize| format!("1704153600,{idx},1\n");
    let text = format!("t,s,x\n{}", (0..1_001).map(line).collect::<String>());
    let (_folder, path, options) = file("a.csv", text.as_bytes());
    let error = find_selections(&path, options, "s").unwrap_err().to_string();
    assert!(error.starts_with("column s has more than 1000 different values"), "{error}");
    let text = format!("t,s,x\n1704153600,{},1\n1704153600,a,1\n", "a".repeat(201));
    let (_folder, path, options) = file("a.csv", text.as_bytes());
    let found = find_selections(&path, options, "s").unwrap();
    assert_eq!((found.selections.len(), found.n_bad), (1, 1));
}
