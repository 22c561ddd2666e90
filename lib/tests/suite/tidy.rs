//! Checks file headers, type names, the dependency tables of ARCHITECTURE.md, and the paths in the documents.

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

/// Type names that occur more than once in a crate. This list may only become shorter.
const REPEATED_TYPES: &[(&str, &[&str])] =
    &[("assistant", &[]), ("cli", &[]), ("core", &[]), ("http", &[]), ("lib", &[]), ("testkit", &[])];

#[test]
fn a_type_name_occurs_once_in_a_crate() {
    for (folder, known) in REPEATED_TYPES {
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in sources(&format!("{folder}/src")) {
            let text = fs::read_to_string(&path).unwrap();
            for name in text.lines().filter_map(declared_type) {
                files.entry(name.to_owned()).or_default().push(path.display().to_string());
            }
        }
        assert!(!files.is_empty(), "the types of `{folder}` were found");
        files.retain(|_, files| files.len() > 1);
        let new: Vec<_> = files.iter().filter(|(name, _)| !known.contains(&name.as_str())).collect();
        assert!(new.is_empty(), "type names that occur more than once in `{folder}`: {new:#?}");
        let gone: Vec<_> = known.iter().filter(|name| !files.contains_key(**name)).collect();
        assert!(gone.is_empty(), "remove these from the list of `{folder}`: {gone:?}");
    }
}

/// The type that a line declares. An indented alias is an associated type, which has the name of its trait's.
fn declared_type(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let indented = item.len() < line.len();
    let item = item.strip_prefix("pub").map_or(item, |rest| match rest.split_once(") ") {
        Some((scope, item)) if scope.starts_with('(') => item,
        Some(_) | None => rest.trim_start(),
    });
    let (keyword, rest) = item.split_once(' ')?;
    let declares = matches!(keyword, "struct" | "enum" | "trait") || (keyword == "type" && !indented);
    let name = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    (declares && name.starts_with(char::is_uppercase)).then_some(name)
}

#[test]
fn crates_depend_as_the_table_says() {
    let packages = BTreeMap::from([
        ("core", "rethread-core"),
        ("lib", "rethread"),
        ("assistant", "rethread-assistant"),
        ("http", "rethread-http"),
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

/// The crates that have a table of their modules.
const CRATES_WITH_MODULES: [&str; 2] = ["lib", "assistant"];

/// The modules of a crate, each with the modules that its row allows it to name.
fn module_table(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let architecture = architecture();
    let section =
        architecture.split(&format!("## Modules of `{folder}`")).nth(1).expect("it has its section");
    let rows = table(section, "| module | owns |");
    rows.iter().map(|row| (row[0].trim_matches('`').to_owned(), names(&row[2]))).collect()
}

#[test]
fn modules_name_only_what_the_table_says() {
    for folder in CRATES_WITH_MODULES {
        let allowed = module_table(folder);
        let seen = named_in(folder, &allowed);
        for (module, may) in &allowed {
            for named in may {
                let used = seen.contains(&(module.clone(), named.clone()));
                assert!(used, "{folder}: `{module}` does not name `{named}`");
            }
        }
    }
}

/// Which modules of a crate name which others; fails if the table does not allow it.
fn named_in(folder: &str, allowed: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<(String, String)> {
    let folder = format!("{folder}/src");
    let mut seen = BTreeSet::new();
    for path in sources(&folder) {
        let below = path.strip_prefix(root().join(&folder)).expect("it is in the folder");
        let first = Path::new(below.iter().next().expect("it has a name"));
        let module = first.file_stem().expect("it has a name").to_string_lossy().into_owned();
        if module == "lib" {
            continue;
        }
        let may = allowed.get(&module).unwrap_or_else(|| panic!("module `{module}` has no row"));
        for named in named_modules(&fs::read_to_string(&path).expect("a source can be read")) {
            let fits = named == module || may.contains(&named);
            assert!(fits, "{} names `{named}`, which its row does not allow", path.display());
            seen.insert((module.clone(), named));
        }
    }
    seen
}

/// The modules of the crate that a text names by `crate::`, also in a list in braces.
fn named_modules(text: &str) -> BTreeSet<String> {
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    code.split("crate::").skip(1).flat_map(first_names).filter(|name| !name.is_empty()).collect()
}

/// The first name of a path, or of each path of a list in braces.
fn first_names(path: &str) -> Vec<String> {
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(list) = path.strip_prefix('{') else { return vec![word(path)] };
    let (mut names, mut depth) = (vec![word(list.trim_start())], 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(word(list[at + 1..].trim_start())),
            _ => {}
        }
    }
    names
}

#[test]
fn names_are_found_in_paths_and_lists() {
    let found =
        named_modules("use crate::{one, two::{a, b},\n three};\n// crate::no\nlet x = crate::four::f();");
    assert_eq!(found, BTreeSet::from(["four", "one", "three", "two"].map(str::to_owned)));
}

#[test]
fn files_of_the_first_level_name_other_modules_by_crate() {
    for folder in CRATES_WITH_MODULES {
        for module in module_table(folder).into_keys() {
            for path in [format!("{folder}/src/{module}.rs"), format!("{folder}/src/{module}/mod.rs")] {
                let code = fs::read_to_string(root().join(&path)).unwrap_or_default();
                let hidden = code.lines().find(|line| line.starts_with("use super::"));
                assert_eq!(hidden, None, "{path} names a module in a way that no test sees");
            }
        }
    }
}

#[test]
fn the_module_tables_have_no_cycles() {
    for folder in CRATES_WITH_MODULES {
        assert_eq!(
            cycles(&module_table(folder)),
            Vec::<Vec<String>>::new(),
            "modules of {folder} that name each other"
        );
    }
}

/// The sets of modules that reach each other, each sorted.
fn cycles(table: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        table.keys().map(|module| (module, reached_from(table, module))).collect();
    let found: BTreeSet<Vec<String>> = table
        .keys()
        .filter(|module| reached[module].contains(module))
        .map(|module| {
            let back = |other: &&&String| reached.get(**other).is_some_and(|all| all.contains(module));
            reached[module].iter().filter(back).map(|name| (*name).clone()).collect()
        })
        .collect();
    found.into_iter().collect()
}

fn reached_from<'a>(table: &'a BTreeMap<String, BTreeSet<String>>, module: &String) -> BTreeSet<&'a String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![module]);
    while let Some(module) = next.pop() {
        for named in table.get(module).into_iter().flatten() {
            if reached.insert(named) {
                next.push(named);
            }
        }
    }
    reached
}

#[test]
fn cycles_are_found() {
    let row =
        |module: &str, may: &[&str]| (module.to_owned(), may.iter().map(|&name| name.to_owned()).collect());
    let table = BTreeMap::from([
        row("a", &["b"]),
        row("b", &["c", "d"]),
        row("c", &["a"]),
        row("d", &["e"]),
        row("e", &["d"]),
        row("f", &["a"]),
    ]);
    assert_eq!(cycles(&table), [vec!["a", "b", "c"], vec!["d", "e"]]);
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
        "docs/performance.md",
        "docs/protocol.md",
        "docs/tools.md",
    ];
    for document in documents {
        let text = text(document);
        let mut checked = 0;
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path =
                quoted.contains('/') && !quoted.contains([' ', '$', '*', '{']) && !quoted.starts_with('/');
            let known = ["core/", "lib/", "assistant/", "cli/", "testkit/", "docs/", ".ci/"];
            if is_path && known.iter().any(|folder| quoted.starts_with(folder)) {
                assert!(root.join(quoted).exists(), "{document} names {quoted}, which is not there");
                checked += 1;
            }
        }
        assert!(checked > 0 || document == "README.md", "{document} names no path at all");
    }
}

/// The part of a source file before its tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

#[test]
fn versions_are_told_apart_only_in_the_edge() {
    let found = sources("lib/src");
    assert!(found.len() > 50, "the sources were found");
    let outside = found.iter().filter(|path| !path.display().to_string().contains("/src/edge/"));
    let matching: Vec<_> = outside
        .filter(|path| {
            let text = fs::read_to_string(path).unwrap();
            ["Version::V1", "Version::V2"].iter().any(|version| without_tests(&text).contains(version))
        })
        .collect();
    assert!(matching.is_empty(), "these name a version, put it into `edge::dialect`: {matching:#?}");
}

/// The number of fields of each struct in a source file.
fn field_counts(text: &str) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut inside = false;
    for line in without_tests(text).lines() {
        if inside {
            let item = line.trim_start().trim_start_matches("pub").trim_start_matches("(super)");
            let name = item.trim_start_matches("(crate)").trim_start().split(':').next().unwrap_or_default();
            let is_field = line.starts_with("    ") && line.contains(": ") && !name.contains(['/', ' ', '#']);
            if let (true, Some(last)) = (is_field, counts.last_mut()) {
                last.1 += 1;
            }
            inside = line != "}";
        } else if line.contains("struct ") && line.ends_with('{') {
            counts.extend(declared_type(line).map(|name| (name.to_owned(), 0)));
            inside = true;
        }
    }
    counts
}

#[test]
fn the_live_session_and_its_parts_stay_small() {
    let mut counts = Vec::new();
    for path in sources("lib/src/live_session") {
        counts.extend(field_counts(&fs::read_to_string(&path).unwrap()));
    }
    let of = |name: &str| counts.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
    assert_eq!((of("LiveSession"), of("AgentSide")), (Some(12), Some(11)), "fields are counted");
    let large: Vec<_> = counts.iter().filter(|(_, count)| *count > 12).collect();
    assert!(large.is_empty(), "more than 12 fields: {large:?}");
}
