//! Tests with files of other programs, in their original layouts.

use std::fmt::Write as _;

use super::*;
use crate::read::number_text::Decimal;
use crate::read::time_text::{Ambiguous, Zone};

/// Checks that a CSV file is rejected with an error text that contains all of `want`.
#[track_caller]
fn check_rejected(text: &str, want: &[&str]) {
    let (_folder, path, options) = csv(text);
    let why = try_sniffed_mapping(&path, options, TimeTexts::default()).unwrap_err();
    for want in want {
        assert!(why.contains(want), "`{want}`: {why}");
    }
}

/// Checks which field of a CSV file is chosen as the timestamp.
#[track_caller]
fn check_time(text: &str, want: &str) {
    check_named_time(text, None, want);
}

/// Checks the names of the columns of a CSV file.
#[track_caller]
fn check_names(text: &str, want: &[&str]) {
    let (_folder, path, options) = csv(text);
    assert_eq!(sniffed_mapping(&path, options).names(), want);
}

#[test]
fn time_column_is_chosen_by_its_values_if_names_are_ambiguous() {
    check_time(
        "observed_at,t,rh\n2024-01-02 00:00,12.5,80\n2024-01-02 01:00,13.5,81\n",
        "observed_at",
    );
    let boot = "timestamp,datetime\n0,2024-01-02 00:00:00\n1000,2024-01-02 00:00:01\n";
    check_time(boot, "datetime");
    let id = "id,created_at\n1742345678901234567,2024-01-02\n1742345678901234568,2024-01-03\n";
    check_time(id, "created_at");
    let expiry =
        "expiration,quote_time\n2024-03-15,2024-01-02 00:00\n2024-03-15,2024-01-02 00:01\n";
    check_time(expiry, "quote_time");
    // Each row expires later than the previous row, so both fields are ordered, but the name is
    // decisive.
    let weekly = "quoted_at,expiry\n2024-01-01,2024-01-08\n2024-01-08,2024-01-15\n";
    check_time(weekly, "quoted_at");
    check_time("open_time,close_time\n1704153600000,1704153659999\n", "open_time");
    check_time("step,valid_time\n1,2024-01-02 01:00\n2,2024-01-02 02:00\n", "valid_time");
    check_time(
        "date,recorded_at\n2024-01-02,2024-01-02 01:00\n2024-01-02,2024-01-02 02:00\n",
        "recorded_at",
    );
    // Both columns have the same timestamps.
    check_time("unix,date\n1704153600000,2024-01-02 00:00:00\n", "date");
}

#[test]
fn file_with_two_likely_time_columns_is_rejected_with_an_example_of_each() {
    let text = "event_time,ingest_time,x\n2024-01-02 00:00:00,2024-01-02 00:00:07,1\n\
                2024-01-02 00:01:00,2024-01-02 00:01:09,2\n";
    let want = [
        "event_time (2024-01-02 00:00:00)",
        "ingest_time (2024-01-02 00:00:07)",
        "--time-column event_time",
    ];
    check_rejected(text, &want);
    check_named_time(text, Some("ingest_time"), "ingest_time");
    let ndjson = "{\"event_time\":\"2024-01-02T00:00:00Z\",\"ingest_time\":1704153607}\n";
    let (_folder, path, options) = file("a.ndjson", ndjson.as_bytes());
    let why = try_sniffed_mapping(&path, options, TimeTexts::default()).unwrap_err();
    assert!(why.contains("ingest_time (1704153607)"), "{why}");
}

#[test]
fn numbers_before_1971_are_rejected_with_a_hint() {
    check_rejected("Date,x\n192607,1\n192608,2\n", &["--time-column", "--time-unit month"]);
    check_rejected("Date,x\n45293,1\n45294,2\n", &["--time-unit excel"]);
    check_rejected("year,x\n2020,1\n2021,2\n", &["no column with timestamps among year, x"]);
    check_rejected("market_cap,rank\n3000000000,1\n2000000000,2\n", &["no column with timestamps"]);
    check_rejected("date,time,x\n2024-01-02,930,1\n2024-01-02,1000,2\n", &["column time (930)"]);
}

#[test]
fn time_unit_is_detected_for_each_number() {
    check_csv(
        "unix,close\n1704153600000,0\n1704153660000,1\n1704153720,2\n",
        &["2: 2024-01-02T00:00:00Z 0", "3: 2024-01-02T00:01:00Z 1", "4: 2024-01-02T00:02:00Z 2"],
    );
    check_csv(
        "ts,close\n1704153600000000,0\n1704153660000,1\n",
        &["2: 2024-01-02T00:00:00Z 0", "3: 2024-01-02T00:01:00Z 1"],
    );
}

#[test]
fn header_is_detected_by_the_values_below_it() {
    check_csv(
        "timestamp,0.1,0.5\n2024-01-02T00:00:00Z,1,2\n2024-01-02T00:01:00Z,3,4\n",
        &["2: 2024-01-02T00:00:00Z 1 2", "3: 2024-01-02T00:01:00Z 3 4"],
    );
    check_csv(
        "A,2024-01-02,1\nA,2024-01-03,2\n",
        &["1: 2024-01-02T00:00:00Z 'A' 1", "2: 2024-01-03T00:00:00Z 'A' 2"],
    );
    check_csv(
        "1381095240,122.0,1\n1381095300,122.5,2\n",
        &["1: 2013-10-06T21:34:00Z 122 1", "2: 2013-10-06T21:35:00Z 122.5 2"],
    );
    // Bars without a header, with the times of their beginning and end.
    check_csv(
        "1704153600000,1.5,1704153659999\n1704153660000,2.5,1704153719999\n",
        &["1: 2024-01-02T00:00:00Z 1.5 1704153659999", "2: 2024-01-02T00:01:00Z 2.5 1704153719999"],
    );
    check_rejected(
        "2024-01-02,n/k\n2024-01-03,1\n2024-01-04,2\n",
        &["line 1", "--header", "--no-header"],
    );
}

#[test]
fn lines_before_the_header_are_skipped() {
    let want = ["3: 2024-01-02T00:00:00Z 1.5", "4: 2024-01-01T23:59:00Z 1.4"];
    let rows = "unix,close\n1704153600000,1.5\n1704153540000,1.4\n";
    for banner in ["https://www.example.com\n", "Prices of the day,\n", "# by hand, for you, x\n"] {
        check_csv(&format!("{banner}{rows}"), &want);
    }
    let text = format!("Prices, by us, today\n{rows}");
    check_rejected(&text, &["line 1 has 3 fields", "--skip-lines 1"]);
    let (_folder, path, options) = csv(&text);
    let options = ReadOptions { skip_lines: 1, ..options };
    assert_eq!(all(&path, options, sniffed_mapping(&path, options), Place::default()), want);
}

#[test]
fn comment_lines_are_skipped_unless_they_name_the_columns() {
    check_csv(
        "# source: x\n#date,x\n2024-01-02,1\n# a gap\n2024-01-04,2\n",
        &["3: 2024-01-02T00:00:00Z 1", "5: 2024-01-04T00:00:00Z 2"],
    );
    check_names("#date,x\n2024-01-02,1\n2024-01-04,2\n", &["x"]);
    // A text may begin with `#`, the character of comments.
    check_csv(
        "tag,date\n#a,2024-01-02\n#b,2024-01-03\n",
        &["2: 2024-01-02T00:00:00Z '#a'", "3: 2024-01-03T00:00:00Z '#b'"],
    );
}

#[test]
fn header_of_several_lines_results_in_unique_column_names() {
    let one = "Price,Close,High\nTicker,AAPL,AAPL\nDate,,\n2024-01-02,1,2\n2024-01-03,3,4\n";
    check_csv(one, &["4: 2024-01-02T00:00:00Z 1 2", "5: 2024-01-03T00:00:00Z 3 4"]);
    check_names(one, &["Close", "High"]);
    let (_folder, path, options) = csv(one);
    check_resumes(&path, options);
    let two = "Price,Close,Close\nTicker,AAPL,MSFT\nDate,,\n2024-01-02,1,2\n";
    check_names(two, &["AAPL", "MSFT"]);
    let both = "Price,Close,Close,High,High\nTicker,A,B,A,B\nDate,,,,\n2024-01-02,1,2,3,4\n";
    check_names(both, &["Close_A", "Close_B", "High_A", "High_B"]);
    // Rows without values are not a header.
    check_csv(
        "Date,a,b\n2024-01-01,,\n2024-01-02,1,2\n",
        &["2: 2024-01-01T00:00:00Z - -", "3: 2024-01-02T00:00:00Z 1 2"],
    );
}

#[test]
fn csv_file_in_utf16_is_read_and_resumed() {
    let text =
        "<DATE>\t<TIME>\t<CLOSE>\r\n2024.01.02\t00:00:00\t1.15\r\n2024.01.02\t00:01:00\t1.16\r\n";
    let want = ["2: 2024-01-02T00:00:00Z 1.15", "3: 2024-01-02T00:01:00Z 1.16"];
    for (mark, to_bytes) in
        [([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]), ([0xfe, 0xff], u16::to_be_bytes)]
    {
        let units = text.encode_utf16().flat_map(to_bytes);
        let bytes: Vec<u8> = mark.into_iter().chain(units).collect();
        let (_folder, path, options) = file("a.csv", &bytes);
        assert_eq!(all(&path, options, sniffed_mapping(&path, options), Place::default()), want);
        check_resumes(&path, options);
    }
}

#[test]
fn date_column_is_combined_with_a_column_of_times_of_day_or_of_hours() {
    check_csv(
        "Date;Time;CO\n2004-03-10;18.00.00;2,6\n2004-03-10;19.00.00;2\n",
        &["2: 2004-03-10T18:00:00Z 2.6", "3: 2004-03-10T19:00:00Z 2"],
    );
    check_rejected("Date;Time;CO\n10/03/2004;18.00.00;2,6\n", &["'%d/%m/%Y %H.%M.%S'"]);
    let hours = |first: u32| {
        let lines = (first..first + 24).map(|hour| format!("2024-01-02,{hour},{hour}.5\n"));
        format!("date,hour,price\n{}", lines.collect::<String>())
    };
    for first in [0, 1] {
        let mut want = Vec::new();
        for hour in 0..24 {
            let value = f64::from(hour + first) + 0.5;
            want.push(format!("{}: 2024-01-02T{hour:02}:00:00Z {value}", hour + 2));
        }
        let want: Vec<_> = want.iter().map(String::as_str).collect();
        check_csv(&hours(first), &want);
    }
    let part = "date,hour,price\n2024-01-02,7,1\n2024-01-02,8,2\n";
    check_rejected(part, &["column hour, 7 to 8", "--first-hour 0 or --first-hour 1"]);
    assert_eq!(sniff_csv(part).unwrap().time(None, Some(1)).unwrap().first_hour, Some(1));
}

#[test]
fn year_month_and_day_are_combined_with_hours_and_minutes() {
    // The layout of UCI's air quality data. A row without a part of the time is invalid.
    check_csv(
        "No,year,month,day,hour,pm2.5\n1,2010,1,2,0,NA\n2,2010,1,2,23,7\n3,2010,1,,1,8\n",
        &[
            "2: 2010-01-02T00:00:00Z 1 -",
            "3: 2010-01-02T23:00:00Z 2 7",
            "4: bad: date or time of day is missing",
        ],
    );
    check_csv(
        "y,m,d,h,x\n2024,2,29,1,1\n2024,2,29,24,2\n2024,2,30,1,3\n",
        &[
            "2: 2024-02-29T00:00:00Z 1",
            "3: 2024-02-29T23:00:00Z 2",
            "4: bad: `2024-2-30` is not a date",
        ],
    );
    check_csv("Month,Day,Year,x\n12,31,2023.0,1\n", &["2: 2023-12-31T00:00:00Z 1"]);
    check_csv(
        "year,month,day,hour,min,x\n2024,1,2,9,5,1\n2024,1,2,10,30,2\n",
        &["2: 2024-01-02T09:05:00Z 1", "3: 2024-01-02T10:30:00Z 2"],
    );
    check_csv("date,hour,minute,x\n2024-01-02,9,5,1\n", &["2: 2024-01-02T09:05:00Z 1"]);
    check_csv("year,month,day,time,x\n2024,1,2,0930,1\n", &["2: 2024-01-02T09:30:00Z 1"]);
    check(
        "a.ndjson",
        "{\"year\":2024,\"month\":1.0,\"day\":2,\"x\":1}\n",
        &["1: 2024-01-02T00:00:00Z 1"],
    );
}

#[test]
fn numeric_columns_are_not_parts_of_the_timestamp_if_other_columns_are_a_complete_timestamp() {
    // Features of a model are columns.
    check_time("timestamp,year,month,day\n1704153600,2024,1,2\n1704153660,2024,1,2\n", "timestamp");
    check_csv(
        "date,y,m,d,h\n2024-01-02,2000,1,2,3\n2024-01-03,2000,1,2,3\n",
        &["2: 2024-01-02T00:00:00Z 2000 1 2 3", "3: 2024-01-03T00:00:00Z 2000 1 2 3"],
    );
    check_csv("date,hour,min,avg\n2024-01-02,0,5,7\n", &["2: 2024-01-02T00:00:00Z 5 7"]);
    check_csv("year,month,day,hour,min,max\n2024,1,2,0,5,9\n", &["2: 2024-01-02T00:00:00Z 5 9"]);
    check_csv("year,month,day,o,h\n2024,1,2,5,9\n", &["2: 2024-01-02T00:00:00Z 5 9"]);
    let both = "updated_at,year,month,day\n2024-03-01 10:00,2024,1,2\n2024-03-02 10:00,2024,1,3\n";
    check_rejected(both, &["updated_at (2024-03-01 10:00)", "--time-column year"]);
    check_rejected("year,month,day,hhmm,x\n2024,1,2,930,1\n", &["column hhmm (930)"]);
    check_rejected("year,month,x\n2024,1,2\n", &["no column with timestamps among year, month"]);
    check_rejected("d,k\n13-Jan-24,1\n14-Jan-24,2\n", &["--time-column", "--time-format"]);
}

#[test]
fn skipped_local_time_in_a_short_file_is_reported() {
    let (_folder, path, options) = csv("d,k\n2024-03-10 02:30,1\n2024-03-10 03:30,2\n");
    let why = try_sniffed_mapping(&path, options, new_york(Ambiguous::default())).unwrap_err();
    assert!(
        why.ends_with("; d: `2024-03-10 02:30`: the clock skips it in this time zone"),
        "{why}"
    );
}

/// Hours of the night in which the clock of New York is set back, in local time.
fn local_hours(is_descending: bool) -> String {
    let mut hours: Vec<_> = (22..24).map(|hour| format!("2024-11-02 {hour}:00")).collect();
    hours.extend([0, 1, 1, 2].map(|hour| format!("2024-11-03 0{hour}:00")));
    if is_descending {
        hours.reverse();
    }
    let mut text = "time,x\n".to_owned();
    for (idx, hour) in hours.iter().enumerate() {
        writeln!(text, "{hour},{idx}").unwrap();
    }
    text
}

fn new_york(ambiguous: Ambiguous) -> TimeTexts {
    let zone: Zone = "America/New_York".parse().unwrap();
    TimeTexts { zone, ambiguous, ..TimeTexts::default() }
}

/// Reads all of a CSV file with local times of New York.
fn in_new_york(text: &str, ambiguous: Ambiguous) -> Vec<String> {
    let (_folder, path, options) = csv(text);
    let mapping = try_sniffed_mapping(&path, options, new_york(ambiguous)).unwrap();
    all(&path, options, mapping, Place::default())
}

#[test]
fn order_of_rows_resolves_the_repeated_hour_at_the_end_of_summer_time() {
    let starts = ["02:00", "03:00", "04:00", "05:00", "06:00", "07:00"];
    for is_descending in [false, true] {
        let (_folder, path, options) = csv(&local_hours(is_descending));
        let mapping = try_sniffed_mapping(&path, options, new_york(Ambiguous::ByOrder)).unwrap();
        let rows = all(&path, options, mapping.clone(), Place::default());
        let mut want: Vec<_> = starts.iter().map(|at| format!("2024-11-03T{at}:00Z")).collect();
        if is_descending {
            want.reverse();
        }
        let want: Vec<_> =
            want.iter().enumerate().map(|(idx, at)| format!("{}: {at} {idx}", idx + 2)).collect();
        assert_eq!(rows, want);
        let mut rows = Rows::open(&path, options, mapping, Place::default()).unwrap();
        let mut resumable = Vec::new();
        while let Some(row) = rows.next_row().unwrap() {
            resumable.push(row.unwrap().is_resumable);
        }
        let first = if is_descending { 1 } else { 3 };
        let is_second = |idx| idx != first;
        assert_eq!(resumable, (0..6).map(is_second).collect::<Vec<_>>());
    }
}

#[test]
fn repeated_hour_that_the_order_does_not_resolve_requires_an_option() {
    let text = "time,x\n2024-11-03 00:00,0\n2024-11-03 01:00,1\n2024-11-03 02:00,2\n";
    let read = |ambiguous| in_new_york(text, ambiguous);
    let open = read(Ambiguous::ByOrder);
    assert!(open[1].contains("3: bad:") && open[1].contains("--ambiguous earlier"), "{open:?}");
    assert_eq!(open.len(), 3);
    assert_eq!(read(Ambiguous::Earlier)[1], "3: 2024-11-03T05:00:00Z 1");
    assert_eq!(read(Ambiguous::Later)[1], "3: 2024-11-03T06:00:00Z 1");
    assert!(read(Ambiguous::Reject)[1].contains("the clock shows it twice"));
}

#[test]
fn duplicate_or_late_row_is_not_taken_for_the_clock_change() {
    let texts = ["01:10:05,1\n2024-11-03 01:10:05,2", "01:10:05,1\n2024-11-03 01:10:03,2"];
    for pair in texts {
        let text = format!(
            "time,x\n2024-11-03 00:59:58,0\n2024-11-03 {pair}\n2024-11-03 01:20,3\n\
             2024-11-03 02:00,4\n"
        );
        let rows = in_new_york(&text, Ambiguous::ByOrder);
        assert_eq!(rows.iter().filter(|row| row.contains("--ambiguous")).count(), 3, "{rows:?}");
    }
}

#[test]
fn repeated_hour_of_rows_at_irregular_minutes_is_resolved_by_their_order() {
    let mut text = "time,x\n".to_owned();
    for (idx, hour) in ["00", "01", "01", "02"].iter().enumerate() {
        writeln!(text, "2024-11-03 {hour}:00,{idx}\n2024-11-03 {hour}:05,{idx}").unwrap();
    }
    let rows = in_new_york(&text, Ambiguous::ByOrder);
    let starts: Vec<_> = rows.iter().filter_map(|row| row.split(' ').nth(1)).collect();
    let want = ["04:00", "04:05", "05:00", "05:05", "06:00", "06:05", "07:00", "07:05"];
    assert_eq!(starts, want.map(|at| format!("2024-11-03T{at}:00Z")));
}

#[test]
fn numbers_that_are_all_dates_with_an_hour_are_read_as_dates() {
    check_csv(
        "dateHour,sessions\n2026010113,5\n2026010114,6\n",
        &["2: 2026-01-01T13:00:00Z 5", "3: 2026-01-01T14:00:00Z 6"],
    );
    check_csv(
        "dateHourMinute,sessions\n202601010005,5\n202601010106,6\n",
        &["2: 2026-01-01T00:05:00Z 5", "3: 2026-01-01T01:06:00Z 6"],
    );
    // The second number is not a date.
    check_csv(
        "sent_at,x\n2026010113,5\n2026013313,6\n",
        &["2: 2034-03-15T04:35:13Z 5", "3: 2034-03-15T05:28:33Z 6"],
    );
}

#[test]
fn field_with_a_single_repeated_time_is_not_the_timestamp() {
    let rows = "2026-01-01T00:10:00Z,64.3\n2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,\
                2026-01-01T00:20:00Z,65.3\n2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,\
                2026-01-01T00:10:00Z,4.3\n";
    check_csv(
        &format!("_start,_stop,_time,_value\n2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,{rows}"),
        &[
            "2: 2026-01-01T00:10:00Z '2026-01-01T00:00:00Z' '2026-01-02T00:00:00Z' 64.3",
            "3: 2026-01-01T00:20:00Z '2026-01-01T00:00:00Z' '2026-01-02T00:00:00Z' 65.3",
            "4: 2026-01-01T00:10:00Z '2026-01-01T00:00:00Z' '2026-01-02T00:00:00Z' 4.3",
        ],
    );
}

#[test]
fn row_with_an_unclosed_quote_is_rejected() {
    check_csv(
        "time,x,note\n2026-01-01,1,\"a\" b\n2026-01-02,2,\"oops\n2026-01-03,3,c\n",
        &["2: 2026-01-01T00:00:00Z 1 'a b'", "3: bad: quoted field is not closed"],
    );
}

#[test]
fn duplicate_member_of_a_json_row_is_rejected() {
    let at = "\"timestamp\":\"2024-01-02T00:00:00Z\"";
    check(
        "a.ndjson",
        &format!(
            "{{{at},\"x\":1}}\n{{{at},\"x\":1,\"x\":2}}\n{{{at},\"values\":{{\"y\":1,\"y\":1}}}}\n"
        ),
        &[
            "1: 2024-01-02T00:00:00Z 1 -",
            "2: bad: duplicate column x",
            "3: bad: duplicate column y",
        ],
    );
}

#[test]
fn numbers_that_can_be_times_of_day_or_other_dates_are_rejected() {
    let of_day = "they can be times of day";
    check_rejected("ms_of_day,close,date\n34200000,1,20240102\n34260000,2,20240102\n", &[of_day]);
    check_rejected("date,time,price\n20240102,93000000,1\n20240102,93000500,2\n", &[of_day]);
    check_rejected("TIME_M,PRICE\n34200000000000,1\n34200000100000,2\n", &[of_day]);
    check_rejected("time,k\n638396640000000000,1\n638396640600000000,2\n", &["ticks of .NET"]);
    check_rejected("time,k\n133484688000000000,1\n133484688600000000,2\n", &["unclear numbers"]);
    check_rejected("time,k\n2401020900,1\n2401020901,2\n", &["--time-format %y%m%d%H%M"]);
    check_time("time,k\n34200000,1\n1704067200,2\n", "time");
    check_time("time,k\n633830400,1\n636508800,2\n", "time");
    check_time("date,k\n19750102,1\n19750103,2\n", "date");
}

#[test]
fn large_integers_are_read_exactly_or_rejected() {
    let at = |second: usize| format!("2024-01-02T00:{:02}:{:02}Z", second / 60 % 60, second % 60);
    let mut text = "timestamp,id\n".to_owned();
    for second in 0..sniff::SNIFFED_RECORDS {
        writeln!(text, "{},{second}", at(second)).unwrap();
    }
    writeln!(text, "{},9007199254740993", at(1)).unwrap();
    let (_folder, path, options) = csv(&text);
    let rows = all(&path, options, sniffed_mapping(&path, options), Place::default());
    let why =
        "bad: column id: `9007199254740993` is not exact as a float: --type id=integer keeps it";
    assert!(rows.last().unwrap().ends_with(why), "{rows:?}");
    let at = at(0);
    check_csv(
        &format!("timestamp,id\n{at},18446744073709551615\n{at},1\n"),
        &[
            "2: bad: column id: `18446744073709551615` is not exact as a float: --type id=string keeps it",
            "3: 2024-01-02T00:00:00Z 1",
        ],
    );
    // -2^63 stands for missing values in some programs.
    check_csv(
        &format!("timestamp,id\n{at},-9223372036854775808\n"),
        &["2: 2024-01-02T00:00:00Z -9223372036854775808i"],
    );
    check_csv(
        &format!("timestamp,id\n{at},9007199254740995.0\n{at},1\n"),
        &[
            "2: bad: column id: `9007199254740995.0` is not exact as a float: --type id=integer keeps it",
            "3: 2024-01-02T00:00:00Z 1",
        ],
    );
    let line = |id: &str| format!("{{\"timestamp\":\"{at}\",\"id\":{id}}}\n");
    let lines = [
        "18446744073709551615",
        "1e19",
        "123456789012345678901",
        "12345678901234567000",
        "9007199254740993.0",
    ];
    check(
        "a.ndjson",
        &lines.map(line).concat(),
        &[
            "1: bad: column id: 18446744073709551615 is not exact as a float: --type id=string keeps it",
            "2: 2024-01-02T00:00:00Z 10000000000000000000",
            "3: bad: 123456789012345678901 is not exact as a float; write it as a text",
            "4: 2024-01-02T00:00:00Z 12345678901234567000",
            "5: bad: 9007199254740993.0 is not exact as a float; write it as a text",
        ],
    );
}

/// A row can have an exact integer and a large float, as in exported rows.
#[test]
fn integer_next_to_a_large_float_is_read_exactly() {
    let at = "2024-01-02T00:00:00Z";
    let line = |id: &str| format!("{{\"timestamp\":\"{at}\",\"f\":1e+22,\"id\":{id}}}\n");
    let lines = ["9007199254740993", "-9007199254740993", "123456789012345678901"].map(line);
    let (_folder, path, options) = file("a.ndjson", lines.concat().as_bytes());
    let mut mapping = ColumnMapping::new("timestamp", None);
    mapping.column("f", MappedColumn::exact("f", Dtype::Float));
    mapping.column("id", MappedColumn::exact("id", Dtype::Integer));
    assert_eq!(
        all(&path, options, mapping, Place::default()),
        [
            format!("1: {at} 10000000000000000000000 9007199254740993i"),
            format!("2: {at} 10000000000000000000000 -9007199254740993i"),
            "3: bad: 123456789012345678901 is not exact as a float; write it as a text".to_owned(),
        ]
    );
}

#[test]
fn whole_number_becomes_a_text_if_the_user_chose_the_type() {
    let text = "{\"t\":1700000000,\"id\":18446744073709551615}\n{\"t\":1700000001,\"id\":7}\n";
    let (_folder, path, options) = file("a.ndjson", text.as_bytes());
    let read = |is_chosen| {
        let mut mapping = ColumnMapping::new("t", None);
        let (name, dtype) = ("id".to_owned(), Dtype::String);
        mapping.column("id", MappedColumn { name, dtype, is_chosen });
        let rows = all(&path, options, mapping, Place::default());
        rows.into_iter().map(|row| row.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(read(true), ["'18446744073709551615'", "'7'"]);
    assert_eq!(read(false), ["string", "string"]);
}

#[test]
fn number_can_represent_a_missing_value() {
    let at = "2024-01-02T00:00:00Z";
    let line = |x: &str| format!("{{\"timestamp\":\"{at}\",\"x\":{x}}}\n");
    let large = "18446744073709551615";
    let lines = ["-999", "-999.0", "1.5", "\"?\"", large].map(line);
    let (_folder, path, options) = file("a.ndjson", lines.concat().as_bytes());
    for text in ["-999", "-999.0"] {
        let nulls = [text, "?", large].map(str::to_owned).to_vec();
        let mut mapping = ColumnMapping::new("timestamp", None).with_numbers(Decimal::Point, nulls);
        mapping.column("x", MappedColumn::exact("x", Dtype::Float));
        let rows = all(&path, options, mapping, Place::default());
        let want = ["-", "-", "1.5", "-", "-"];
        let want = (1..).zip(want).map(|(line, value): (u32, _)| format!("{line}: {at} {value}"));
        assert_eq!(rows, want.collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn number_can_represent_a_missing_value_of_parquet() {
    let mut mapping =
        ColumnMapping::new("open_time", None).with_numbers(Decimal::Point, vec!["-1.0".to_owned()]);
    mapping.column("n", MappedColumn::exact("n", Dtype::Integer));
    let rows = all(&parquet("delta"), PARQUET, mapping, Place::default());
    // The values are -5, -4, -1, 4, …
    let missing: Vec<_> = (0..rows.len()).filter(|idx| rows[*idx].ends_with(" -")).collect();
    assert_eq!(missing, [2], "{rows:?}");
}

#[test]
fn number_of_a_missing_value_can_be_part_of_a_time() {
    let (_folder, path, options) = csv("date,hour,minute,x\n2024-01-02,0,5,0\n2024-01-02,1,0,1\n");
    let mapping =
        sniffed_mapping(&path, options).with_numbers(Decimal::Point, vec!["0".to_owned()]);
    let rows = all(&path, options, mapping, Place::default());
    assert_eq!(rows, ["2: 2024-01-02T00:05:00Z -", "3: 2024-01-02T01:00:00Z 1"]);
}

#[test]
fn quoted_texts_that_look_like_missing_values_are_texts() {
    check_csv(
        "timestamp,note,x\n2024-01-02,\"NA\",\"1.5\"\n2024-01-03,\"\",\"NA\"\n2024-01-04,NA,\n\
         2024-01-05,,2\n2024-01-06,\"null\",2\n",
        &[
            "2: 2024-01-02T00:00:00Z 'NA' 1.5",
            "3: 2024-01-03T00:00:00Z '' -",
            "4: 2024-01-04T00:00:00Z - -",
            "5: 2024-01-05T00:00:00Z - 2",
            "6: 2024-01-06T00:00:00Z 'null' 2",
        ],
    );
}

#[test]
fn table_of_1024_columns_is_read() {
    let names: Vec<_> =
        (0..1024).map(|idx| format!("a_rather_long_name_of_column_{idx}")).collect();
    let values: Vec<_> = (0..1024).map(|idx| idx.to_string()).collect();
    let text = format!("timestamp,{}\n2024-01-02,{}\n", names.join(","), values.join(","));
    check_csv(&text, &[&format!("2: 2024-01-02T00:00:00Z {}", values.join(" "))]);
}
