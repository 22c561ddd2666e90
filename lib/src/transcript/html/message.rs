//! Markdown of messages as HTML. HTML inside it is shown as text, links lead only to web and mail addresses, and images of
//! other places become links.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::escape::{escaped, image, is_safe_address, link};

/// Deeper elements are not nested any more.
const MAX_DEPTH: usize = 32;

/// Writes Markdown as HTML.
pub(super) fn markdown(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = HtmlWriter::default();
    for event in Parser::new_ext(text, options) {
        writer.event(event);
    }
    writer.html
}

/// Writes the events of a Markdown parser.
#[derive(Default)]
struct HtmlWriter {
    html: String,
    /// The end tags of the open elements.
    open: Vec<&'static str>,
    /// Elements that are too deep to be written.
    skipped: usize,
    columns: Vec<Alignment>,
    column: usize,
    row: RowKind,
    /// The address and the text so far of a link or an image.
    links: Vec<OpenLink>,
}

/// What the cells of a table's row are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum RowKind {
    Head,
    #[default]
    Body,
}

struct OpenLink {
    address: String,
    /// Where its text begins.
    start: usize,
    kind: LinkKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkKind {
    Link,
    Image,
}

impl HtmlWriter {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.html += &escaped(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.html += &format!("<code>{}</code>", escaped(&text));
            }
            Event::FootnoteReference(name) => self.html += &format!("[{}]", escaped(&name)),
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html += "<br>\n",
            Event::Rule => self.html += "<hr>\n",
            Event::TaskListMarker(true) => self.html += "☑ ",
            Event::TaskListMarker(false) => self.html += "☐ ",
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open("<p dir=\"auto\">", "</p>\n"),
            Tag::Heading { level, .. } => self.heading(level),
            Tag::BlockQuote(_) => self.open("<blockquote>", "</blockquote>\n"),
            Tag::CodeBlock(kind) => self.code_block(&kind),
            Tag::List(None) => self.open("<ul>\n", "</ul>\n"),
            Tag::List(Some(first)) => self.open(&format!("<ol start=\"{first}\">\n"), "</ol>\n"),
            Tag::Item => self.open("<li dir=\"auto\">", "</li>\n"),
            Tag::Table(columns) => {
                self.columns = columns;
                self.open("<div class=\"wide\"><table>\n", "</tbody></table></div>\n");
            }
            Tag::TableHead => {
                (self.row, self.column) = (RowKind::Head, 0);
                self.open("<thead><tr>", "</tr></thead><tbody>\n");
            }
            Tag::TableRow => {
                (self.row, self.column) = (RowKind::Body, 0);
                self.open("<tr>", "</tr>\n");
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => self.open("<em>", "</em>"),
            Tag::Strong => self.open("<strong>", "</strong>"),
            Tag::Strikethrough => self.open("<del>", "</del>"),
            Tag::Link { dest_url, .. } => self.begin_link(&dest_url, LinkKind::Link),
            Tag::Image { dest_url, .. } => self.begin_link(&dest_url, LinkKind::Image),
            Tag::HtmlBlock => self.open("<p class=\"source\">", "</p>\n"),
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => self.open("", ""),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        if matches!(tag, TagEnd::Link | TagEnd::Image) {
            self.end_link();
        } else {
            self.close();
        }
    }

    /// Headings of messages are below those of the page.
    fn heading(&mut self, level: HeadingLevel) {
        match level {
            HeadingLevel::H1 | HeadingLevel::H2 => self.open("<h4 dir=\"auto\">", "</h4>\n"),
            HeadingLevel::H3 | HeadingLevel::H4 => self.open("<h5 dir=\"auto\">", "</h5>\n"),
            HeadingLevel::H5 | HeadingLevel::H6 => self.open("<h6 dir=\"auto\">", "</h6>\n"),
        }
    }

    fn code_block(&mut self, kind: &CodeBlockKind<'_>) {
        let language = match kind {
            CodeBlockKind::Fenced(info) => info.split([' ', ',']).next().unwrap_or_default().to_owned(),
            CodeBlockKind::Indented => String::new(),
        };
        let label =
            if language.is_empty() { String::new() } else { format!("<b>{}</b>", escaped(&language)) };
        self.open(&format!("<pre class=\"code\">{label}<code>"), "</code></pre>\n");
    }

    fn cell(&mut self) {
        let class = match self.columns.get(self.column) {
            Some(Alignment::Right) => " class=\"right\"",
            Some(Alignment::Center) => " class=\"center\"",
            Some(Alignment::None | Alignment::Left) | None => "",
        };
        self.column += 1;
        match self.row {
            RowKind::Head => self.open(&format!("<th{class}>"), "</th>"),
            RowKind::Body => self.open(&format!("<td{class}>"), "</td>"),
        }
    }

    fn open(&mut self, start: &str, end: &'static str) {
        if self.open.len() >= MAX_DEPTH {
            self.skipped += 1;
            return;
        }
        self.html += start;
        self.open.push(end);
    }

    fn close(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if let Some(end) = self.open.pop() {
            self.html += end;
        }
    }

    fn begin_link(&mut self, address: &str, kind: LinkKind) {
        self.links.push(OpenLink { address: address.to_owned(), start: self.html.len(), kind });
    }

    fn end_link(&mut self) {
        let Some(OpenLink { address, start, kind }) = self.links.pop() else { return };
        let text = self.html.split_off(start);
        self.html += &match kind {
            LinkKind::Image => picture(&address, &text),
            LinkKind::Link if is_safe_address(&address) || address == text => link(&address, &text),
            LinkKind::Link => format!("{} ({})", link(&address, &text), escaped(&address)),
        };
    }
}

/// An image that is part of the text, or a link to it. `text` is HTML.
fn picture(address: &str, text: &str) -> String {
    let data = address.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
    let included = data.and_then(|(mime, data)| image(mime, data, "image"));
    let shown = if address.len() > 200 { "image" } else { address };
    included.unwrap_or_else(|| match text {
        "" => format!("[image: {}]", link(address, &escaped(shown))),
        text => format!("[image: {}]", link(address, text)),
    })
}
