//! Keeps the house in order: file headers, the dependency tables of ARCHITECTURE.md, and the paths that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rethread_testkit::checkout::{root, sources, text};

/// The rows of the first table whose header starts with `header`, each as its cells.
fn table(text: &str, header: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn names(cell: &str) -> BTreeSet<String> {
    cell.split(',')
        .map(|name| name.trim().trim_matches('`').to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

fn architecture() -> String {
    text("ARCHITECTURE.md")
}

#[test]
fn every_file_says_what_it_owns() {
    let found = sources("");
    assert!(found.len() > 50, "the sources were found");
    let silent: Vec<_> =
        found.iter().filter(|path| !fs::read_to_string(path).unwrap().starts_with("//!")).collect();
    assert!(silent.is_empty(), "no `//!` header: {silent:#?}");
}

#[test]
fn crates_depend_as_the_table_says() {
    let packages = BTreeMap::from([
        ("core", "rethread-core"),
        ("lib", "rethread"),
        ("cli", "rethread-cli"),
        ("testkit", "rethread-testkit"),
    ]);
    let rows = table(&architecture(), "| crate | holds |");
    assert_eq!(rows.len(), packages.len(), "each crate has a row");
    for row in rows {
        let folder = row[0].trim_matches('`');
        let manifest = text(&format!("{folder}/Cargo.toml"));
        let own = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        let named: BTreeSet<String> = own
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .filter_map(|name| packages.iter().find(|(_, package)| **package == name))
            .map(|(folder, _)| (*folder).to_owned())
            .collect();
        assert_eq!(named, names(&row[3]), "crates that `{folder}` depends on");
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let reasons: BTreeSet<String> =
        table(&architecture(), "| crate | why |").iter().flat_map(|row| names(&row[0])).collect();
    let manifest = text("Cargo.toml");
    let list = manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let used: BTreeSet<String> = list
        .lines()
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name.to_owned()))
        .filter(|name| !name.starts_with("rethread"))
        .collect();
    assert_eq!(used, reasons, "dependencies of the workspace, and those with a reason in ARCHITECTURE.md");
}

#[test]
fn modules_name_only_what_the_table_says() {
    let rows = table(&architecture(), "| module | owns |");
    let allowed: BTreeMap<String, BTreeSet<String>> =
        rows.iter().map(|row| (row[0].trim_matches('`').to_owned(), names(&row[2]))).collect();
    let source = root().join("lib/src");
    let mut seen = BTreeSet::new();
    for path in sources("lib/src") {
        let below = path.strip_prefix(&source).unwrap().components().next().unwrap();
        let module = Path::new(&below).file_stem().unwrap().to_string_lossy().into_owned();
        if module == "lib" {
            continue;
        }
        let may = allowed.get(&module).unwrap_or_else(|| panic!("module `{module}` has no row"));
        for named in named_modules(&fs::read_to_string(&path).unwrap()) {
            let fits = named == module || may.contains(&named);
            assert!(fits, "{} names `{named}`, which its row does not allow", path.display());
            seen.insert((module.clone(), named));
        }
    }
    for (module, may) in &allowed {
        for named in may {
            assert!(seen.contains(&(module.clone(), named.clone())), "`{module}` does not name `{named}`");
        }
    }
}

/// The modules of the crate that a text names by `crate::`.
fn named_modules(text: &str) -> BTreeSet<String> {
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    code.split("crate::").skip(1).map(word).filter(|name| !name.is_empty()).collect()
}

#[test]
fn paths_in_the_documents_exist() {
    let root = root();
    let documents = [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "README.md",
        "docs/agents.md",
        "docs/durability.md",
        "docs/models.md",
        "docs/protocol.md",
        "docs/tools.md",
    ];
    for document in documents {
        let text = text(document);
        let mut checked = 0;
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path =
                quoted.contains('/') && !quoted.contains([' ', '$', '*', '{']) && !quoted.starts_with('/');
            let known = ["core/", "lib/", "cli/", "testkit/", "docs/", ".ci/"];
            if is_path && known.iter().any(|folder| quoted.starts_with(folder)) {
                assert!(root.join(quoted).exists(), "{document} names {quoted}, which is not there");
                checked += 1;
            }
        }
        assert!(checked > 0 || document == "README.md", "{document} names no path at all");
    }
}
