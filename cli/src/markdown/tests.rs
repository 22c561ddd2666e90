//! Markdown in, text out; whole and in pieces.

use expect_test::{Expect, expect};

use super::style::TextStyle;
use super::{DocumentPrinter, MarkdownStream};
use crate::output::target::{Color, OutputTarget};
use crate::output::width::width;

/// Codes of a terminal as short marks, so that they can be read in a snapshot.
fn render(text: &str, target: OutputTarget) -> String {
    let mut document = DocumentPrinter::new(target);
    document.push(text) + &document.finish()
}

fn readable(text: &str) -> String {
    text.replace("\u{1b}[0m", ">").replace("\u{1b}[", "<")
}

fn check(columns: usize, text: &str, expected: &Expect) {
    let shown = render(text, OutputTarget::Terminal { width: columns, color: Color::Off });
    expected.assert_eq(&shown);
    for size in [1, 3, 7] {
        assert_eq!(in_pieces(text, columns, size), shown, "in pieces of {size}");
    }
}

fn in_pieces(text: &str, columns: usize, size: usize) -> String {
    let mut stream = MarkdownStream::new(columns, Color::Off, TextStyle::PLAIN);
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters.chunks(size).map(|piece| piece.iter().collect::<String>());
    let mut shown: String = pieces.map(|piece| stream.push(&piece)).collect();
    shown += &stream.finish();
    shown
}

#[test]
fn blocks_are_set_apart() {
    check(
        40,
        "# Title\nA paragraph that is longer than one line of this terminal.\n\nText:\n- one\n- two\n\n---\nEnd",
        &expect![[r#"
            # Title

            A paragraph that is longer than one line
            of this terminal.

            Text:
            • one
            • two

            ────────────────────────────────────────

            End
        "#]],
    );
}

#[test]
fn lists_nest_and_keep_their_numbers() {
    check(
        30,
        "3. three\n4. four has a text that is wrapped below itself\n   - inner\n     and lazy\n     1. innermost\n\n- [ ] open\n- [x] done\n\n\n- loose\n\n  with a second paragraph\n- next",
        &expect![[r#"
            3. three
            4. four has a text that is
               wrapped below itself
               • inner and lazy
                 1. innermost

            ☐ open
            ☑ done

            • loose

              with a second paragraph
            • next
        "#]],
    );
}

#[test]
fn code_in_a_list_stays_in_it() {
    check(
        30,
        "1. Run:\n   ```sh\n   cargo test\n\n     --all\n   ```\n2. Then\n\n    indented\n\n    code\n\nend",
        &expect![[r#"
            1. Run:
                 cargo test

                   --all
            2. Then

               indented

               code

            end
        "#]],
    );
}

#[test]
fn quotes_have_a_bar() {
    check(
        24,
        "> a quote that is wrapped\ngoes on\n>\n> - item\n> > inner\n\nafter",
        &expect![[r#"
        │ a quote that is
        │ wrapped goes on
        │
        │ • item
        │ │ inner

        after
    "#]],
    );
}

#[test]
fn headings_and_rules_are_told_from_text() {
    check(
        40,
        "Title\n=====\nSub\n---\n#hashtag\n### Three ###\n* * *\ntext - dash\n1986. A year.\n-5 degrees\n# C#",
        &expect![[r#"
            # Title

            ## Sub

            #hashtag

            ### Three

            ────────────────────────────────────────

            text - dash 1986. A year. -5 degrees

            # C#
        "#]],
    );
}

#[test]
fn emphasis_code_and_links_keep_their_marks_without_colors() {
    check(
        60,
        "**bold** *it* ~~gone~~ `a * b` <https://x.org> [docs](https://y.org/a) ![pic](p.png) a\\*b a  \nnew &amp; <b>x</b><br>y",
        &expect![[r#"
            **bold** *it* ~~gone~~ `a * b` https://x.org docs
            (https://y.org/a) [image: pic] (p.png) a*b a
            new & <b>x</b>
            y
        "#]],
    );
}

#[test]
fn colors_are_codes_of_the_terminal() {
    let text = "# T\n## S\n**b** *i* `c` ~~s~~ [l](u)\n```rust\nlet x = \"s\"; // c\n```\n> q\n";
    let shown = render(text, OutputTarget::Terminal { width: 60, color: Color::On });
    expect![[r#"
        <1;4;34mT>

        <1;34mS>

        <1mb> <3mi> <36mc> <9ms> <4ml><2m (u)>

          <36mlet> x <35m=> <32m"s">; <2m// c>

        <2m│ >q
    "#]]
    .assert_eq(&readable(&shown));
}

#[test]
fn tables_fit() {
    let table = "| name | what it does | n |\n|:--|:-:|--:|\n| `a` | short | 1 |\n| b \\| c | a cell that is much longer than the others | 1000 |\n| 日本 | 👩\u{200d}🚀 |\n\nafter";
    check(
        80,
        table,
        &expect![[r#"
        name  │                what it does                │    n
        ──────┼────────────────────────────────────────────┼─────
        `a`   │                   short                    │    1
        b | c │ a cell that is much longer than the others │ 1000
        日本  │                     👩‍🚀                     │

        after
    "#]],
    );
    check(
        40,
        table,
        &expect![[r#"
        name  │       what it does        │    n
        ──────┼───────────────────────────┼─────
        `a`   │           short           │    1
        b | c │    a cell that is much    │ 1000
              │  longer than the others   │
        日本  │            👩‍🚀             │

        after
    "#]],
    );
    check(
        20,
        table,
        &expect![[r#"
        name: `a`
        what it does: short
        n: 1

        name: b | c
        what it does: a cell
        that is much longer
        than the others
        n: 1000

        name: 日本
        what it does: 👩‍🚀
        n:

        after
    "#]],
    );
}

#[test]
fn wide_and_joined_characters_count_as_they_are_shown() {
    let text = "日本語のテキストは、折り返されます。 👩\u{200d}🚀👩\u{200d}🚀👩\u{200d}🚀 e\u{301}e\u{301} שלום עולם مرحبا";
    check(
        20,
        text,
        &expect![[r#"
        日本語のテキストは、
        折り返されます。 👩‍🚀
        👩‍🚀👩‍🚀 éé שלום עולם
        مرحبا
    "#]],
    );
    let shown = render(text, OutputTarget::Terminal { width: 20, color: Color::Off });
    assert!(shown.lines().all(|line| width(line) <= 20), "{shown}");
}

#[test]
fn control_characters_are_shown_everywhere() {
    let text = "a\u{1b}[2Jb\u{9b}31m\u{7}\r\n```\n\u{1b}]0;x\u{7}\n```\n| \u{1b}c | b |\n|--|--|\n| \u{202e} | \u{8} |\n";
    check(
        60,
        text,
        &expect![[r#"
        a\u{1b}[2Jb\u{9b}31m\u{7}

          \u{1b}]0;x\u{7}

        \u{1b}c  │ b
        ─────────┼──────
        \u{202e} │ \u{8}
    "#]],
    );
}

#[test]
fn a_block_is_printed_as_soon_as_it_is_finished() {
    let mut stream = MarkdownStream::new(40, Color::Off, TextStyle::PLAIN);
    let mut push = |text: &str| stream.push(text);
    assert_eq!(push("A para"), "");
    assert_eq!(push("graph\n"), "");
    assert_eq!(push("\n"), "A paragraph\n");
    assert_eq!(push("- one\n- tw"), "");
    assert_eq!(push("o\n"), "\n• one\n");
    assert_eq!(push("\n```\nline 1\n"), "• two\n\n  line 1\n");
    assert_eq!(push("line 2\n"), "  line 2\n");
    assert_eq!(push("```\n# Head\n"), "\n# Head\n");
    assert_eq!(push("rest of it"), "");
    assert_eq!(stream.open_text(), "rest of it");
    assert_eq!(stream.finish(), "\nrest of it\n");
    assert_eq!(stream.push("new\n\n"), "new\n", "another document begins");
}

#[test]
fn endless_lines_and_deep_nesting_are_bounded() {
    let mut stream = MarkdownStream::new(80, Color::Off, TextStyle::PLAIN);
    let mut printed = 0;
    for _ in 0..40 {
        printed += stream.push(&"x".repeat(16 * 1024)).len();
    }
    assert!(printed > 256 * 1024, "{printed}");
    for text in [">".repeat(5000), "- ".repeat(3000), "[".repeat(3000), "*".repeat(3000), "`".repeat(3001)] {
        let shown = render(&text, OutputTarget::Terminal { width: 80, color: Color::On });
        assert!(shown.len() < 5_000_000);
    }
}

#[test]
fn a_resize_counts_for_what_comes() {
    let mut stream = MarkdownStream::new(80, Color::Off, TextStyle::PLAIN);
    assert_eq!(stream.push("one two three four\n\n"), "one two three four\n");
    stream.resize(10);
    assert_eq!(stream.push("one two three four\n\n"), "\none two\nthree four\n");
}
