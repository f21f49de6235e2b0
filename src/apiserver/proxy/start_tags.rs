//! Finds the start tags of an HTML page that arrives in pieces, and the values of their attributes with links.
//!
//! Follows the tokenization of the HTML standard (<https://html.spec.whatwg.org/multipage/parsing.html#tokenization>)
//! as far as tags depend on it: comments, quoted values, and elements whose content is text, scripts included. All else
//! passes on byte by byte, so that only an unfinished start tag is held. As in kube-apiserver's proxy, the content of
//! `svg` and `math` is read like any other.

use base::sort::SliceOrder;
use std::ops::Range;

/// A longer start tag passes unchanged: values this long are data, not links.
const MAX_TAG: usize = 256 << 10;

/// The elements whose content is text up to their own end tag.
const TEXT_ELEMENTS: [&str; 9] =
    ["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "noscript"];

/// The state of the tokenizer after a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Outside of tags.
    Text,
    /// After `<`.
    TagOpen,
    /// After `</`.
    EndTagOpen,
    /// After `<!`.
    Declaration,
    /// After `<!-`.
    DeclarationDash,
    /// After `<!--`, with this many dashes.
    CommentStart(u8),
    /// In a comment, after this many dashes; two end it together with `>`.
    Comment(u8),
    /// After `--!` in a comment.
    CommentBang,
    /// In a declaration or another construct that ends at the next `>`.
    BogusComment,
    TagName,
    BeforeAttribute,
    AttributeName,
    AfterAttributeName,
    BeforeValue,
    UnquotedValue,
    /// With its quote.
    QuotedValue(u8),
    /// In the content of this text element.
    Content(&'static str),
    /// After `<plaintext>`: no tag follows.
    PlainText,
}

/// The state of a script's content; in comments, a script can contain start and end tags of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptState {
    Plain,
    /// In `<!--`.
    Comment,
    /// In `<script>` in `<!--`.
    CommentedScript,
}

/// The end of a text element's content, in lowercase.
#[derive(Default)]
struct ContentEnd([u8; 10]);

impl ContentEnd {
    fn push(&mut self, byte: u8) {
        self.0.rotate_left(1);
        self.0[9] = byte.to_ascii_lowercase();
    }

    /// Returns whether the content ends with `</NAME`.
    fn is_end_tag(&self, name: &str) -> bool {
        self.0.strip_suffix(name.as_bytes()).is_some_and(|rest| rest.ends_with(b"</"))
    }
}

/// A value of an attribute in a start tag.
struct Value {
    /// The place of the value in the tag, without quotes.
    text: Range<usize>,
    is_quoted: bool,
}

/// Passes a page on, with the values of some attributes replaced.
pub(super) struct StartTags<R> {
    /// Returns the attributes to be replaced of an element; names are in lowercase.
    attributes: fn(element: &str) -> &'static [&'static str],
    /// Returns the new value of an attribute; `None` leaves it unchanged.
    replace: R,
    state: State,
    /// True in an end tag, whose attributes have no meaning.
    is_end_tag: bool,
    /// The unfinished start tag.
    tag: Vec<u8>,
    /// The name of the tag's element in lowercase; empty if the tag was too long.
    element: String,
    attribute_start: usize,
    /// The attribute whose value is read: its place in `attributes` of the element.
    attribute: Option<usize>,
    value_start: usize,
    /// The first value of each attribute, by its place in `attributes` of the element.
    values: Vec<Option<Value>>,
    script: ScriptState,
    content_end: ContentEnd,
}

impl<R: Fn(&str) -> Option<String>> StartTags<R> {
    /// Replaces these attributes.
    pub(super) fn new(attributes: fn(&str) -> &'static [&'static str], replace: R) -> Self {
        Self {
            attributes,
            replace,
            state: State::Text,
            is_end_tag: false,
            tag: Vec::new(),
            element: String::new(),
            attribute_start: 0,
            attribute: None,
            value_start: 0,
            values: Vec::new(),
            script: ScriptState::Plain,
            content_end: ContentEnd::default(),
        }
    }

    /// Takes a piece of the page and appends what is complete to the output.
    pub(super) fn write(&mut self, data: &[u8], output: &mut Vec<u8>) {
        for byte in data {
            let was_held = !self.tag.is_empty();
            if was_held || *byte == b'<' && self.state == State::Text {
                self.tag.push(*byte);
            } else {
                output.push(*byte);
            }
            self.state = self.next(*byte);
            if was_held && self.is_tag_over() {
                self.release(output);
            }
        }
    }

    /// Appends an unfinished tag to the output; no data follows.
    pub(super) fn end(mut self, output: &mut Vec<u8>) {
        output.append(&mut self.tag);
    }

    /// Returns whether the held bytes are a whole start tag, no start tag, or too many.
    fn is_tag_over(&self) -> bool {
        match self.state {
            State::TagOpen => self.tag.len() > 1,
            State::TagName
            | State::BeforeAttribute
            | State::AttributeName
            | State::AfterAttributeName
            | State::BeforeValue
            | State::UnquotedValue
            | State::QuotedValue(_) => self.tag.len() > MAX_TAG,
            _ => true,
        }
    }

    /// Appends the held bytes to the output, with new values.
    fn release(&mut self, output: &mut Vec<u8>) {
        // The second `<` of `<<a>` begins a tag.
        let begins_tag = self.state == State::TagOpen;
        if begins_tag {
            self.tag.pop();
        }
        let mut values: Vec<Value> = self.values.drain(..).flatten().collect();
        values.order_by_key(|value| value.text.start);
        let mut done = 0;
        for Value { text, is_quoted } in values {
            let new = std::str::from_utf8(&self.tag[text.clone()]).ok().and_then(&self.replace);
            let Some(new) = new else { continue };
            let quotes = usize::from(is_quoted);
            output.extend_from_slice(&self.tag[done..text.start - quotes]);
            output.push(b'"');
            output.extend_from_slice(new.replace('"', "&quot;").as_bytes());
            output.push(b'"');
            done = text.end + quotes;
        }
        output.extend_from_slice(&self.tag[done..]);
        self.tag.clear();
        if begins_tag {
            self.tag.push(b'<');
        }
    }

    /// Returns the state after a byte, which is the last of the held ones if it is part of a tag.
    fn next(&mut self, byte: u8) -> State {
        let is_space = matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ');
        match (self.state, byte) {
            (State::Text | State::TagOpen, b'<') => State::TagOpen,
            (State::TagOpen, b'!') => State::Declaration,
            (State::TagOpen, b'/') => State::EndTagOpen,
            (State::TagOpen, b'?') => State::BogusComment,
            (State::TagOpen | State::EndTagOpen, letter) if letter.is_ascii_alphabetic() => {
                self.is_end_tag = self.state == State::EndTagOpen;
                self.element.clear();
                self.attribute = None;
                State::TagName
            }
            (State::Text | State::TagOpen, _)
            | (State::EndTagOpen | State::Declaration | State::DeclarationDash | State::BogusComment, b'>') => {
                State::Text
            }

            (State::Declaration, b'-') => State::DeclarationDash,
            (State::DeclarationDash, b'-') => State::CommentStart(0),
            (State::EndTagOpen | State::Declaration | State::DeclarationDash | State::BogusComment, _) => {
                State::BogusComment
            }
            (State::CommentStart(0), b'-') => State::CommentStart(1),
            (State::CommentStart(_), b'-') => State::Comment(2),
            (State::CommentStart(_) | State::Comment(2) | State::CommentBang, b'>') => State::Text,
            (State::Comment(dashes), b'-') => State::Comment((dashes + 1).min(2)),
            (State::Comment(2), b'!') => State::CommentBang,
            (State::CommentBang, b'-') => State::Comment(1),
            (State::CommentStart(_) | State::Comment(_) | State::CommentBang, _) => State::Comment(0),

            (State::TagName, _) if is_space || matches!(byte, b'/' | b'>') => {
                self.end_name();
                if byte == b'>' { self.end_tag() } else { State::BeforeAttribute }
            }
            (State::TagName, _) => State::TagName,
            (State::BeforeAttribute | State::AfterAttributeName, b'/') => State::BeforeAttribute,
            (State::BeforeAttribute | State::AfterAttributeName | State::BeforeValue, b'>') => self.end_tag(),
            (State::BeforeAttribute | State::AfterAttributeName | State::BeforeValue, _) if is_space => {
                self.state
            }
            (State::AfterAttributeName, b'=') => State::BeforeValue,
            (State::BeforeAttribute | State::AfterAttributeName, _) => {
                self.attribute_start = self.tag.len().saturating_sub(1);
                State::AttributeName
            }
            (State::AttributeName, _) if is_space || matches!(byte, b'/' | b'>' | b'=') => {
                self.end_attribute_name();
                match byte {
                    b'/' => State::BeforeAttribute,
                    b'>' => self.end_tag(),
                    b'=' => State::BeforeValue,
                    _ => State::AfterAttributeName,
                }
            }
            (State::AttributeName, _) => State::AttributeName,
            (State::BeforeValue, b'"' | b'\'') => {
                self.value_start = self.tag.len();
                State::QuotedValue(byte)
            }
            (State::BeforeValue, _) => {
                self.value_start = self.tag.len().saturating_sub(1);
                State::UnquotedValue
            }
            (State::QuotedValue(quote), _) if byte == quote => {
                self.end_value(true);
                State::BeforeAttribute
            }
            (State::UnquotedValue, _) if is_space || byte == b'>' => {
                self.end_value(false);
                if byte == b'>' { self.end_tag() } else { State::BeforeAttribute }
            }
            (State::QuotedValue(_) | State::UnquotedValue, _) => self.state,

            (State::Content(name), _) => self.next_in_content(name, byte, is_space),
            (State::PlainText, _) => State::PlainText,
        }
    }

    fn end_name(&mut self) {
        self.values.clear();
        // End tags are not held.
        let Some(name) = self.tag.len().checked_sub(1).and_then(|end| self.tag.get(1..end)) else { return };
        self.element = String::from_utf8_lossy(name).to_ascii_lowercase();
        self.values.resize_with((self.attributes)(&self.element).len(), || None);
    }

    fn end_attribute_name(&mut self) {
        self.attribute = None;
        // Most elements have no links.
        if self.values.is_empty() || self.tag.is_empty() {
            return;
        }
        let name = &self.tag[self.attribute_start..self.tag.len() - 1];
        let mut known = (self.attributes)(&self.element).iter();
        let found = known.position(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        // Of two attributes with the same name, the first counts.
        self.attribute = found.filter(|found| self.values[*found].is_none());
    }

    fn end_value(&mut self, is_quoted: bool) {
        if let Some(attribute) = self.attribute.take()
            && let Some(value) = self.values.get_mut(attribute)
        {
            *value = Some(Value { text: self.value_start..self.tag.len() - 1, is_quoted });
        }
    }

    fn end_tag(&mut self) -> State {
        if self.is_end_tag {
            return State::Text;
        }
        if self.element == "plaintext" {
            return State::PlainText;
        }
        self.script = ScriptState::Plain;
        self.content_end = ContentEnd::default();
        TEXT_ELEMENTS.into_iter().find(|name| *name == self.element).map_or(State::Text, State::Content)
    }

    fn next_in_content(&mut self, name: &'static str, byte: u8, is_space: bool) -> State {
        let ends_name = is_space || matches!(byte, b'/' | b'>');
        if ends_name && self.content_end.is_end_tag(name) {
            if self.script != ScriptState::CommentedScript {
                self.is_end_tag = true;
                return if byte == b'>' { State::Text } else { State::BeforeAttribute };
            }
            self.script = ScriptState::Comment;
        } else if ends_name && self.script == ScriptState::Comment && self.content_end.0.ends_with(b"<script")
        {
            self.script = ScriptState::CommentedScript;
        }
        self.content_end.push(byte);
        if name == "script" {
            let content = &self.content_end.0;
            if self.script == ScriptState::Plain && content.ends_with(b"<!--") {
                self.script = ScriptState::Comment;
            } else if content.ends_with(b"-->") {
                self.script = ScriptState::Plain;
            }
        }
        State::Content(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rewritten(page: &[u8], piece: usize) -> Vec<u8> {
        let attributes = |element: &str| -> &'static [&'static str] {
            match element {
                "a" => &["href"],
                "img" => &["src", "usemap"],
                _ => &[],
            }
        };
        let replace = |value: &str| value.starts_with('/').then(|| format!("/p{value}"));
        let (mut tags, mut output) = (StartTags::new(attributes, replace), Vec::new());
        for data in page.chunks(piece.max(1)) {
            tags.write(data, &mut output);
        }
        tags.end(&mut output);
        output
    }

    fn check(page: &str, expected: &str) {
        for piece in [1, 2, 3, 7, usize::MAX] {
            let found = String::from_utf8(rewritten(page.as_bytes(), piece)).unwrap();
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn values_of_attributes_are_replaced_however_they_are_written_api_3() {
        for (page, expected) in [
            ("<a href=/x>", "<a href=\"/p/x\">"),
            ("<A HREF='/x'>", "<A HREF=\"/p/x\">"),
            ("<a\n href =\t\"/x\"/>", "<a\n href =\t\"/p/x\"/>"),
            ("<a/href=/x/>", "<a/href=\"/p/x/\">"),
            ("<a href='/\"x'>", "<a href=\"/p/&quot;x\">"),
            ("<a title='>' href=/x>", "<a title='>' href=\"/p/x\">"),
            ("<img usemap=/m alt src=/s>", "<img usemap=\"/p/m\" alt src=\"/p/s\">"),
            ("<a href=/x href=/y>", "<a href=\"/p/x\" href=/y>"),
            ("<<a href=/x>", "<<a href=\"/p/x\">"),
            ("a < b <a href=/x>", "a < b <a href=\"/p/x\">"),
            ("<!-- x --><a href=/x>", "<!-- x --><a href=\"/p/x\">"),
            ("<!--><a href=/x>", "<!--><a href=\"/p/x\">"),
            ("<!----!><a href=/x>", "<!----!><a href=\"/p/x\">"),
            ("<!a><a href=/x>", "<!a><a href=\"/p/x\">"),
            ("</a title='<a href=/y>'><a href=/x>", "</a title='<a href=/y>'><a href=\"/p/x\">"),
            ("<script></script ><a href=/x>", "<script></script ><a href=\"/p/x\">"),
            ("<title><a href=/y></title><a href=/x>", "<title><a href=/y></title><a href=\"/p/x\">"),
            ("<script><!-- --></script><a href=/x>", "<script><!-- --></script><a href=\"/p/x\">"),
            ("<script><!--</script><a href=/x>", "<script><!--</script><a href=\"/p/x\">"),
        ] {
            check(page, expected);
        }
    }

    #[test]
    fn only_values_in_start_tags_are_replaced_api_3() {
        for page in [
            "",
            "<",
            "<a href=/x",
            "<a href='/x>",
            "<a href>",
            "<a href=>",
            "<a hrefs=/x><ab href=/x><a data-href=/x>",
            "<a title=\"href=/x\" title='<a href=/x>'>",
            "</a href=/x>",
            "<!-- <a href=/x> -> <a href=/y> --",
            "<!---!><a href=/x>",
            "<!doctype <a href=/x>",
            "<script>'</scripts><a href=/x>'</script>",
            "<script><!--<script></script><a href=/x>--></script>",
            "<TEXTAREA><a href=/x></textarea>",
            "<plaintext></plaintext><a href=/x>",
            "< a href=/x>",
        ] {
            check(page, page);
        }
    }

    #[test]
    fn a_long_tag_passes_unchanged_and_is_not_held_api_3() {
        let long = "x".repeat(MAX_TAG);
        let tag = format!("<script title='<a href=/x>{long}'>");
        let page = format!("{tag}'<a href=/x>'</script><a href=/x>");
        let expected = format!("{tag}'<a href=/x>'</script><a href=\"/p/x\">");
        assert!(rewritten(page.as_bytes(), 1 << 10) == expected.as_bytes());
        let mut tags = StartTags::new(|_| &["href"], |_| None);
        let mut output = Vec::new();
        for _ in 0..100 {
            tags.write(format!("<a href='{long}").as_bytes(), &mut output);
        }
        assert!(tags.tag.capacity() <= 4 * MAX_TAG);
    }

    proptest! {
        #[test]
        fn any_bytes_pass_however_they_are_cut_api_3(
            page in "(<|</|<!--|-->|>|'|\"|=| |/|a|href|script|title|é|\\PC){0,40}",
            piece in 1..9_usize,
        ) {
            let whole = rewritten(page.as_bytes(), usize::MAX);
            prop_assert_eq!(&rewritten(page.as_bytes(), piece), &whole);
            if !page.contains('/') {
                prop_assert_eq!(&whole, page.as_bytes());
            }
        }
    }
}
