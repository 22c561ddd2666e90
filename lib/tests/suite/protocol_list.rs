//! Checks that `docs/protocol.md` is complete and correct: every rule has its row, every test that a row names exists and is
//! run, and every test of the rules is named by a row.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rethread_testkit::checkout::{root, sources, text};

/// The rules by section: how many each has.
const SECTIONS: [(u32, u32); 8] = [(1, 22), (2, 16), (3, 23), (4, 26), (5, 13), (6, 12), (7, 9), (8, 17)];
/// The rule that was put between two others.
const BETWEEN: (&str, &str) = ("1.7", "1.7b");

/// One row of the list.
struct Row {
    rule: String,
    asks: String,
    kept_by: String,
}

fn rows() -> Vec<Row> {
    let text = text("docs/protocol.md");
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule"));
    rows.map(|line| match cells(line).as_slice() {
        [rule, asks, kept_by] => Row { rule: rule.clone(), asks: asks.clone(), kept_by: kept_by.clone() },
        _ => panic!("a row has three cells: {line}"),
    })
    .collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The test suites of the crates.
const SUITES: [&str; 4] = ["core/tests/suite", "lib/tests/suite", "assistant/tests/suite", "cli/tests/suite"];

/// The tests of each test file by its name, with those of the folder of that name; no two files have the same.
fn all_tests() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    for folder in SUITES {
        let mut here: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in sources(folder) {
            let below = path.strip_prefix(root().join(folder)).expect("it is in the folder");
            let file = Path::new(below.iter().next().expect("a name")).file_stem().expect("a name");
            let found = tests(&fs::read_to_string(&path).expect("a test can be read"));
            if file == "main" {
                continue;
            }
            here.entry(file.to_string_lossy().into_owned()).or_default().extend(found);
        }
        for (name, found) in here {
            assert!(!all.contains_key(&name), "two files are named {name}");
            all.insert(name, found);
        }
    }
    all
}

/// The tests of the rules, each with its file.
fn tests_of_rules() -> Vec<String> {
    let files = all_tests().into_iter().filter(|(file, _)| file.starts_with("rules_"));
    files.flat_map(|(file, tests)| tests.into_iter().map(move |test| format!("{file}::{test}"))).collect()
}

/// The tests of a file: functions with a test's attribute, and scenarios that something runs.
fn tests(source: &str) -> BTreeSet<String> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for word in source.split(|c: char| !c.is_alphanumeric() && c != '_') {
        *named.entry(word).or_default() += 1;
    }
    let lines: Vec<_> = source.lines().collect();
    let mut tests = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(signature) = line.trim_start_matches("async ").strip_prefix("fn ") else { continue };
        let Some((name, parameters)) = signature.split_once('(') else { continue };
        let mut above = lines[..at].iter().rev().take_while(|line| line.starts_with('#'));
        let marked = above.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
        if marked || (parameters.contains(": Pairing) {") && named[name] > 1) {
            tests.insert(name.to_owned());
        }
    }
    tests
}

/// How the names of tests write a rule: `r1_07b` for 1.7b.
fn mark(rule: &str) -> String {
    let (section, number) = rule.split_once('.').expect("a rule has two numbers");
    let digits = number.trim_end_matches(char::is_alphabetic);
    format!("r{section}_{digits:0>2}{}", &number[digits.len()..])
}

/// Says whether a test has this mark in its name, where several may stand in a row.
fn is_marked(test: &str, mark: &str) -> bool {
    let name = test.split("::").nth(1).unwrap_or_default();
    let parts: Vec<_> = name.split('_').collect();
    let marks =
        parts.chunks(2).take_while(|pair| pair[0].starts_with('r') && pair[0][1..].parse::<u32>().is_ok());
    marks.into_iter().any(|pair| pair.join("_") == mark)
}

#[test]
fn every_rule_has_one_row() {
    let mut expected = Vec::new();
    for (section, count) in SECTIONS {
        for number in 1..=count {
            let rule = format!("{section}.{number}");
            let between = (rule == BETWEEN.0).then(|| BETWEEN.1.to_owned());
            expected.push(rule);
            expected.extend(between);
        }
    }
    assert_eq!(expected.len(), 139);
    let listed: Vec<_> = rows().into_iter().map(|row| row.rule).collect();
    assert_eq!(listed, expected);
}

#[test]
fn every_row_says_what_keeps_it() {
    for row in rows() {
        assert!(!row.asks.is_empty(), "{} asks nothing", row.rule);
        match row.kept_by.strip_prefix("not ours: ") {
            Some(reason) => assert!(!reason.is_empty(), "{} has no reason", row.rule),
            None => assert!(!quoted(&row.kept_by).is_empty(), "{} names no test", row.rule),
        }
    }
}

#[test]
fn every_test_that_is_named_is_run() {
    let all = all_tests();
    for row in rows() {
        for test in quoted(&row.kept_by) {
            let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{}: {test}", row.rule));
            let tests = all.get(file).unwrap_or_else(|| panic!("{}: there is no file {file}", row.rule));
            assert!(tests.contains(name), "{}: {file} has no test {name}", row.rule);
        }
    }
}

#[test]
fn every_test_of_the_rules_is_named() {
    let rows = rows();
    let named: BTreeSet<_> = rows.iter().flat_map(|row| quoted(&row.kept_by)).collect();
    let tests = tests_of_rules();
    assert!(tests.len() > 150, "only {} tests were found", tests.len());
    for test in tests {
        assert!(named.contains(test.as_str()), "no row names {test}");
    }
}

#[test]
fn a_row_names_the_tests_that_are_named_after_it() {
    let tests = tests_of_rules();
    for row in rows() {
        let (mark, kept_by) = (mark(&row.rule), quoted(&row.kept_by));
        for test in tests.iter().filter(|test| is_marked(test, &mark)) {
            assert!(kept_by.contains(&test.as_str()), "{} does not name {test}", row.rule);
        }
    }
}
