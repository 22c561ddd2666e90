//! Prints what was found: by area, one line each, with the remedy below.

use super::{Area, Finding, Level};
use crate::output::escape::visible;
use crate::output::paragraph::paragraph;
use crate::output::target::{OutputTarget, Paint};

/// The width of the column for levels.
const LEVELS: usize = 9;

/// The lines for people.
pub(crate) fn text(target: OutputTarget, findings: &[Finding], repaired: &[String]) -> String {
    let mut text = String::new();
    for area in Area::ALL {
        let of_area: Vec<_> = findings.iter().filter(|finding| finding.area == area).collect();
        if of_area.is_empty() {
            continue;
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        text += &format!("{gap}{}\n", target.paint(Paint::Bold, area.heading()));
        for finding in of_area {
            text += &lines(target, finding);
        }
    }
    text.push('\n');
    for message in repaired {
        text += &format!("{} {}\n", target.paint(Paint::Green, "Repaired:"), visible(message));
    }
    text + &summary(target, findings)
}

fn lines(target: OutputTarget, finding: &Finding) -> String {
    let (word, paint) = match finding.level {
        Level::Ok => ("ok", Paint::Green),
        Level::Note => ("note", Paint::Cyan),
        Level::Warning => ("warning", Paint::Yellow),
        Level::Broken => ("broken", Paint::Red),
    };
    let space = " ".repeat(LEVELS.saturating_sub(word.len()));
    let indent = 2 + LEVELS;
    let message = paragraph(target, &visible(&finding.message), indent);
    let mut text = format!("  {}{space}{message}\n", target.paint(paint, word));
    if let Some(hint) = &finding.hint {
        let hint = paragraph(target, &format!("hint: {}", visible(hint)), indent);
        text += &format!("{}{hint}\n", " ".repeat(indent));
    }
    text
}

fn summary(target: OutputTarget, findings: &[Finding]) -> String {
    let count = |level: Level| findings.iter().filter(|finding| finding.level == level).count();
    match (count(Level::Broken), count(Level::Warning)) {
        (0, 0) => target.paint(Paint::Green, "Nothing is broken.") + "\n",
        (0, 1) => "Nothing is broken; there is 1 warning.\n".to_owned(),
        (0, warnings) => format!("Nothing is broken; there are {warnings} warnings.\n"),
        (1, _) => target.paint(Paint::Red, "1 thing is broken.") + "\n",
        (broken, _) => target.paint(Paint::Red, &format!("{broken} things are broken.")) + "\n",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::super::output::target::Color;
    use super::*;

    #[test]
    fn long_findings_are_wrapped_and_hostile_ones_escaped() {
        let long =
            "process 4711 on a machine with a rather long name has ended and is registered with 3 sessions";
        let findings = [
            Finding::new(Area::System, Level::Ok, "20.0 GB free"),
            Finding::new(Area::Store, Level::Warning, long).hint("run `rethread doctor --repair`"),
            Finding::new(Area::Agent, Level::Broken, "\u{1b}[2J said the agent"),
        ];
        let target = OutputTarget::Terminal { width: 60, color: Color::Off };
        expect![[r#"
            Store
              warning  process 4711 on a machine with a rather long name
                       has ended and is registered with 3 sessions
                       hint: run `rethread doctor --repair`

            System
              ok       20.0 GB free

            This agent
              broken   \u{1b}[2J said the agent

            Repaired: 1 lock file
            1 thing is broken.
        "#]]
        .assert_eq(&text(target, &findings, &["1 lock file".to_owned()]));
    }
}
