//! Recognizes lines that differ from an earlier line only in the content of one string. A model streams hundreds of such
//! lines in a row; they need not be parsed again.

use memchr::memmem;

/// The name of the string member that differs, with its colon.
const MEMBER: &[u8] = b"\"text\":";

/// A line without the content of its last member `text`.
#[derive(Debug, PartialEq, Eq)]
pub struct LineTemplate {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl LineTemplate {
    /// Makes a template of a line that is valid JSON. `None` if the line has no string member `text`.
    #[must_use]
    pub fn of(line: &[u8]) -> Option<Self> {
        // Quotes inside a string are escaped. So the last quote of `MEMBER` ends a name, and a string after the colon is a
        // value.
        let value = memmem::rfind(line, MEMBER)? + MEMBER.len();
        let blanks = line[value..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let start = value + blanks + 1;
        if line.get(start - 1) != Some(&b'"') {
            return None;
        }
        let end = start + end_of_string(&line[start..])?;
        Some(Self { before: line[..start].to_vec(), after: line[end..].to_vec() })
    }

    /// Returns the content of the string, still JSON-escaped, if the line equals the template in everything else. Such a
    /// line is valid JSON with the same structure. Rare escapes and invalid UTF-8 return `None`, and so take the general
    /// path.
    #[must_use]
    pub fn content_of<'a>(&self, line: &'a [u8]) -> Option<&'a str> {
        let content = line.strip_prefix(&self.before[..])?.strip_suffix(&self.after[..])?;
        let plain = end_of_string(content).is_none() && is_string_content(content);
        plain.then_some(())?;
        str::from_utf8(content).ok()
    }
}

/// The position of the first quote that is not escaped.
fn end_of_string(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', &bytes[at..])?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at = (at + 2).min(bytes.len());
    }
}

/// Returns whether bytes without an unescaped quote are the content of a JSON string, with no other escapes than those of
/// one character.
fn is_string_content(bytes: &[u8]) -> bool {
    let mut bytes = bytes.iter();
    while let Some(byte) = bytes.next() {
        let good = match byte {
            b'\\' => bytes.next().is_some_and(|escaped| b"\"\\/bfnrt".contains(escaped)),
            byte => *byte >= 0x20,
        };
        if !good {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> String {
        format!(r#"{{"method":"session/update","params":{{"content":{{"text": "{text}","type":"text"}}}}}}"#)
    }

    #[test]
    fn a_line_with_another_text_is_recognized() {
        let template = LineTemplate::of(line("one").as_bytes()).expect("it has a text");
        for text in ["", "two", r#"a \"quoted\" word\n"#, "ä €", r"back\\slash\\"] {
            assert_eq!(template.content_of(line(text).as_bytes()), Some(text));
        }
    }

    #[test]
    fn a_line_that_differs_elsewhere_is_not() {
        let template = LineTemplate::of(line("one").as_bytes()).expect("it has a text");
        let other = line("one").replace("session/update", "session/other");
        for other in [
            other,
            line("one") + " ",
            line(r#"x","type":"image"#),
            line(r#"x","more":"y"#),
            line("line\nbreak"),
            line(r"\x"),
            line(r"\ud800"),
            line("odd\\"),
        ] {
            assert_eq!(template.content_of(other.as_bytes()), None, "{other}");
        }
        let mut broken = line("one").into_bytes();
        let at = memmem::find(&broken, b"one").expect("it is there");
        broken[at] = 0xff;
        assert_eq!(template.content_of(&broken), None);
    }

    #[test]
    fn a_line_without_a_text_has_no_template() {
        for line in
            [r#"{"a":1}"#, r#"{"text":1}"#, r#"{"text":null,"b":"c"}"#, r#"{"a":"text"}"#, r#"{"text":"#]
        {
            assert_eq!(LineTemplate::of(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_recognized_parses_to_the_same_structure(text in "[a-z\"\\\\{}:,\u{1}\u{7f}é]{0,12}") {
            let template = LineTemplate::of(line("one").as_bytes()).expect("it has a text");
            let line = line(&text);
            if let Some(content) = template.content_of(line.as_bytes()) {
                let mut parsed: serde_json::Value = serde_json::from_str(&line).expect("valid JSON");
                let expected: String = serde_json::from_str(&format!("\"{content}\"")).expect("a string");
                let found = parsed["params"]["content"]["text"].take();
                prop_assert_eq!(found, serde_json::json!(expected));
                let mut first: serde_json::Value = serde_json::from_str(&super::tests::line("one")).expect("valid JSON");
                first["params"]["content"]["text"].take();
                prop_assert_eq!(parsed, first);
            }
        }
    }
}
