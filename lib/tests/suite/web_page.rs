//! The web page of a transcript, with text that tries to leave its place: markup, scripts, addresses, styles, control
//! characters and deep nesting.

use expect_test::{Expect, expect};
use rethread::store::Archived;
use rethread::transcript::{
    AgentPeriod, JournalDamage, SessionOutline, TranscriptTurn, TurnFold, TurnOutline, html, markdown,
};
use rethread_core::{Binding, Entry, Json, MessageId, Seq, Stop, TurnNo, Update};
use serde_json::{Value, json};

fn turn_of(updates: Vec<Value>) -> TranscriptTurn {
    let mut fold = TurnFold::default();
    let state = || Json::from(json!({}));
    fold.push(&Entry::TurnStarted { turn: TurnNo(1), at: 0, state: state() });
    for body in updates {
        let known = false;
        assert_eq!(fold.push(&Entry::Updated { update: Update::read(body.into()), known }), None);
    }
    let ended = Entry::TurnEnded { turn: TurnNo(1), stop: Stop::plain("end_turn"), at: 0, state: state() };
    fold.push(&ended).expect("the turn has ended")
}

fn message(text: &str) -> String {
    let body = json!({"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "text", "text": text}]});
    html::turn(&turn_of(vec![body]))
}

/// Compares the message without what surrounds it.
fn check(text: &str, expected: &Expect) {
    let page = message(text);
    let inner = page.split("<h3>Agent</h3>\n").nth(1).and_then(|rest| rest.split("</article>").next());
    expected.assert_eq(inner.expect("a message"));
}

#[test]
fn markup_in_messages_is_text() {
    check(
        "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> <b onclick='x'>b</b> &lt; \" '",
        &expect![[r#"
            <p class="source">&lt;script&gt;alert(1)&lt;/script&gt;
            </p>
            <p dir="auto">&lt;img src=x onerror=alert(1)&gt; &lt;b onclick=&#39;x&#39;&gt;b&lt;/b&gt; &lt; &quot; &#39;</p>
        "#]],
    );
    check(
        "<style>*{display:none}</style>\n<svg onload=alert(1)>\n<!-- x -->",
        &expect![[r#"
        <p class="source">&lt;style&gt;*{display:none}&lt;/style&gt;
        </p>
        <p class="source">&lt;svg onload=alert(1)&gt;
        &lt;!-- x --&gt;</p>
    "#]],
    );
    check(
        "```html\"><script>\n</code></pre><script>alert(1)</script>\n```",
        &expect![[r#"
        <pre class="code"><b>html&quot;&gt;&lt;script&gt;</b><code>&lt;/code&gt;&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;
        </code></pre>
    "#]],
    );
}

#[test]
fn addresses_lead_only_to_the_web_and_to_mail() {
    check(
        "[a](https://a.example/?x=1&y=\"2\") [b](javascript:alert(1)) [c](JaVaScRiPt:x) [d](data:text/html,x) \
         [e](mailto:a@b.example) [f](vbscript:x) [g](/etc/passwd) <javascript:alert(1)> <https://x.example>",
        &expect![[r#"
            <p dir="auto"><a href="https://a.example/?x=1&amp;y=&quot;2&quot;" rel="noopener noreferrer">a</a> <span class="address">b</span> (javascript:alert(1)) <span class="address">c</span> (JaVaScRiPt:x) <span class="address">d</span> (data:text/html,x) <a href="mailto:a@b.example" rel="noopener noreferrer">e</a> <span class="address">f</span> (vbscript:x) <span class="address">g</span> (/etc/passwd) <span class="address">javascript:alert(1)</span> <a href="https://x.example" rel="noopener noreferrer">https://x.example</a></p>
        "#]],
    );
    check(
        "![remote](https://x.example/p.png) ![](javascript:x) ![in](data:image/png;base64,AAAA) \
         ![svg](data:image/svg+xml;base64,AAAA) ![bad](data:image/png;base64,AA\"onload=x)",
        &expect![[r#"
            <p dir="auto">[image: <a href="https://x.example/p.png" rel="noopener noreferrer">remote</a>] [image: <span class="address">javascript:x</span>] <img src="data:image/png;base64,AAAA" alt="image"> [image: <span class="address">svg</span>] [image: <span class="address">bad</span>]</p>
        "#]],
    );
}

#[test]
fn control_characters_are_shown() {
    check(
        "a\u{1b}[31mred \u{202e}evil\u{2066} \u{0} \u{9b}",
        &expect![[r#"
        <p dir="auto">a\u{1b}[31mred \u{202e}evil\u{2066} \u{0} \u{9b}</p>
    "#]],
    );
}

#[test]
fn markdown_is_rendered() {
    check(
        "# One\n\n- [x] a\n- b *c* **d** ~~e~~ `f<g>`\n\n1. x\n\n> q\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n---\n",
        &expect![[r#"
            <h4 dir="auto">One</h4>
            <ul>
            <li dir="auto">☑ a</li>
            <li dir="auto">b <em>c</em> <strong>d</strong> <del>e</del> <code>f&lt;g&gt;</code></li>
            </ul>
            <ol start="1">
            <li dir="auto">x</li>
            </ol>
            <blockquote><p dir="auto">q</p>
            </blockquote>
            <div class="wide"><table>
            <thead><tr><th>a</th><th class="right">b</th></tr></thead><tbody>
            <tr><td>1</td><td class="right">2</td></tr>
            </tbody></table></div>
            <hr>
        "#]],
    );
}

#[test]
fn deep_nesting_is_flattened() {
    for deep in [">".repeat(20_000), "- ".repeat(5_000), "*a ".repeat(20_000), "[".repeat(20_000)] {
        let page = message(&format!("{deep}x"));
        let depth = page.matches("<blockquote>").count().max(page.matches("<ul>").count());
        assert!(depth <= 32, "{depth} levels");
        for tag in ["blockquote", "ul", "li", "em", "p"] {
            let opened =
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}

#[test]
fn titles_statuses_paths_and_outputs_are_text() {
    let evil = "\"><script>alert(1)</script>\u{1b}";
    let page = html::turn(&turn_of(vec![
        json!({"sessionUpdate": "tool_call_update", "toolCallId": evil, "title": evil, "kind": evil, "status": evil,
            "locations": [{"path": evil, "line": 1}], "content": [
                {"type": "content", "content": {"type": "text", "text": evil}},
                {"type": "content", "content": {"type": "image", "mimeType": evil, "data": evil}},
                {"type": "content", "content": {"type": "resource_link", "uri": evil, "name": evil}},
                {"type": "content", "content": {"type": "resource", "resource": {"uri": evil, "text": evil}}},
                {"type": "content", "content": {"type": evil}},
                {"type": "diff", "changes": [{"operation": evil, "path": evil}]},
                {"type": "diff", "changes": [], "patch": {"text": format!("+{evil}\n-{evil}")}},
                {"type": "terminal", "terminalId": "t"}]}),
        json!({"sessionUpdate": "terminal_update", "terminalId": "t", "command": evil, "exitStatus": {"signal": evil}}),
        json!({"sessionUpdate": "plan_update", "plan": {"planId": "p", "entries": [{"content": evil, "status": evil}]}}),
        json!({"sessionUpdate": "subagent_update", "sessionId": "c", "title": evil, "state": {"state": evil}}),
        json!({"sessionUpdate": "compaction_update", "compactionId": "x", "status": evil,
            "summary": [{"type": "text", "text": evil}]}),
    ]));
    assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains("\"\">"), "{page}");
    assert!(page.matches("&lt;script").count() >= 15, "{page}");
}

#[test]
fn the_head_of_the_page_is_text_and_allows_nothing_from_elsewhere() {
    let evil = "\"><script>alert(1)</script><!--\u{1b}\u{202e}";
    let turn = |number| TurnOutline { number, prompt: evil.to_owned(), ..TurnOutline::default() };
    let binding = Binding::Reseeded;
    let page = html::head(&SessionOutline {
        id: evil.into(),
        title: Some(evil.to_owned()),
        cwd: evil.to_owned(),
        agent: evil.to_owned(),
        created_at: Some(0),
        updated_at: 0,
        archived: Archived::Yes,
        parent: Some(evil.into()),
        agents: vec![AgentPeriod {
            agent: evil.to_owned(),
            native_id: evil.to_owned(),
            binding,
            from_turn: 1,
        }],
        turns: vec![turn(1), turn(2)],
        context: None,
        damage: None,
    });
    let page = page + &html::foot(Some(&JournalDamage { at: Seq(1), message: evil.to_owned() }));
    assert!(!page.contains("<script") && !page.contains("<!--") && !page.contains('\u{1b}'), "{page}");
    assert_eq!(page.matches("&lt;script&gt;").count(), 10, "{page}");
    assert!(page.contains("content=\"default-src 'none'; style-src 'sha256-"), "{page}");
    for absent in ["http://", "https://", "url(", "@import", " src=", "<link", "style="] {
        assert!(!page.contains(absent), "{absent}");
    }
}

#[test]
fn a_turn_of_many_megabytes_is_given_out_in_parts() {
    let mut fold = TurnFold::default();
    fold.push(&Entry::TurnStarted { turn: TurnNo(1), at: 0, state: json!({}).into() });
    let content = Json::from(json!([{"type": "text", "text": "hi"}]));
    let message = MessageId("p".to_owned());
    fold.push(&Entry::PromptInserted { message, turn: TurnNo(1), content, at: 0 });
    let text = "word ".repeat(20_000);
    let mut parts = Vec::new();
    for no in 0..60 {
        let body = json!({"sessionUpdate": "agent_message_chunk", "messageId": format!("m{}", no / 45),
            "content": {"type": "text", "text": text}});
        parts.extend(fold.push(&Entry::Updated { update: Update::read(body.into()), known: false }));
    }
    parts.extend(fold.finish());
    assert_eq!(parts.len(), 2);
    assert!(parts.iter().all(|part| part.number == Some(1)));
    let continued: Vec<_> = parts.iter().map(|part| part.continued).collect();
    assert!(!continued[0] && continued[1..].iter().all(|continued| *continued));
    let words: usize = parts.iter().map(|part| html::turn(part).matches("word").count()).sum();
    assert_eq!(words, 60 * 20_000, "nothing is lost");
    let text: String = parts.iter().map(|part| markdown::turn(part, markdown::ToolDetail::Full)).collect();
    assert_eq!(text.matches("## Turn 1").count(), 1);
}
