//! The example agent: that it stays as small as `docs/agents.md` says, that the document shows it as it is, and how many
//! scenarios of the suite run with it. The scenarios themselves are in the other files, by `pairings!`.

use std::fs;

use rethread_testkit::checkout::{sources, text};

/// A list of scenarios: its file, what stands before its colon, and its lines.
struct List {
    file: String,
    which: String,
    lines: Vec<String>,
}

impl List {
    fn of_wire(&self) -> bool {
        self.which.starts_with("wire")
    }

    fn of_core(&self) -> bool {
        self.file.contains("/rules_")
    }

    fn with_library(&self) -> bool {
        !self.of_wire() && self.which != "agent V1"
    }

    fn scenarios(&self) -> usize {
        let named = self.lines.iter().filter(|line| !line.starts_with("//"));
        named.flat_map(|line| line.split(',')).filter(|name| !name.trim().is_empty()).count()
    }
}

fn lists() -> Vec<List> {
    let mut lists = Vec::new();
    for path in ["lib/tests", "assistant/tests", "cli/tests"].into_iter().flat_map(sources) {
        let source = fs::read_to_string(&path).expect("a test can be read");
        let file = path.to_string_lossy().into_owned();
        lists.extend(source.split("\npairings!(").skip(1).map(|text| list(&file, text)));
    }
    lists
}

fn list(file: &str, text: &str) -> List {
    let inside = text.split(");").next().unwrap_or_default();
    let (which, names) = match inside.split_once(':') {
        Some((which, names)) if !which.contains("//") && !which.contains(',') => (which.trim(), names),
        _ => ("", inside),
    };
    let lines = names.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty());
    List { file: file.to_owned(), which: which.to_owned(), lines: lines.collect() }
}

#[test]
fn the_example_has_less_than_60_lines() {
    let lines = text("lib/examples/scripted.rs").lines().count();
    assert!(lines < 60, "it has {lines}");
}

#[test]
fn the_document_shows_the_example_as_it_is() {
    let document = text("docs/agents.md");
    let shown: Vec<_> = document.split("```").skip(1).step_by(2).collect();
    assert_eq!(shown.len(), 1, "one piece of code");
    let shown = shown[0].trim_start_matches("rust\n");
    assert!(shown.lines().count() > 10 && text("lib/examples/scripted.rs").contains(shown), "{shown}");
}

#[test]
fn the_document_says_how_many_scenarios_run_with_it() {
    let lists = lists();
    let count = |fits: fn(&List) -> bool| -> usize {
        lists.iter().filter(|list| fits(list)).map(List::scenarios).sum()
    };
    let said =
        format!("{} scenarios run with it, {} do not", count(List::with_library), count(List::of_wire));
    assert!(text("docs/agents.md").contains(&said), "{said}");
    let core = format!("{} scenarios, none left out", count(|list| list.of_core() && list.with_library()));
    assert!(text("docs/agents.md").contains(&core), "{core}");
    let left_out: Vec<_> = lists.iter().filter(|list| list.of_core() && list.of_wire()).collect();
    assert!(left_out.is_empty(), "{:?}", left_out.iter().map(|list| &list.lines).collect::<Vec<_>>());
}

#[test]
fn what_does_not_run_with_it_has_its_reason() {
    for list in lists().iter().filter(|list| list.of_wire()) {
        for pair in list.lines.chunks(2) {
            let reason = pair.len() == 2 && pair[0].starts_with("// ") && !pair[1].starts_with("//");
            assert!(reason, "one line of reason for each: {pair:?}");
        }
    }
}
