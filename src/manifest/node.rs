//! The tree of a YAML document: values with their positions, built from the parser's events.
//!
//! Anchored nodes are shared, not copied. The conversion of the tree to a value limits the number of values it creates,
//! so that a few lines of aliases cannot fill the memory.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use granit_parser::{Event, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

use super::error::{Fault, Position};
use super::scalar;
use base::quote::quote;

/// The maximum depth of values.
pub(super) const MAX_DEPTH: usize = 100;

/// The maximum number of values in one document, aliases expanded.
const MAX_VALUES: usize = 1_000_000;

/// The maximum number of duplicate keys that are recorded.
const MAX_DUPLICATES: usize = 32;

/// The maximum size of one document's text, in bytes, aliases expanded.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A value and its start position.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) start: Position,
    /// The number of levels below this node. It is limited, because dropping a long chain of aliases would overflow the
    /// stack.
    height: usize,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Scalar(Value),
    List(Vec<Arc<Node>>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The position of the key.
    pub(super) start: Position,
    pub(super) value: Arc<Node>,
}

/// A key that its map sets again. The text is that of Kubernetes' YAML decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateKey {
    /// The line of the later value, counted from 1.
    line: usize,
    key: String,
}

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: key {} already set in map", self.line, quote(&self.key))
    }
}

/// The treatment of a key that its map sets again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DuplicateKeys {
    /// The document is refused.
    Refused,
    /// The last value counts.
    LastWins,
}

/// Builds one document from its events.
pub(super) struct Builder {
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Arc<Node>>,
    /// The number of lines before the text that the parser sees.
    lines_before: usize,
    /// The number of further entries that `<<` may visit.
    remaining_merges: usize,
    root: Option<Arc<Node>>,
    duplicate_keys: DuplicateKeys,
    /// The keys that were set again; a limited number.
    duplicates: Vec<DuplicateKey>,
}

/// A collection that has not ended yet.
struct OpenCollection {
    start: Position,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Arc<Node>>),
    Map {
        entries: Vec<Entry>,
        /// The keys so far, with the positions of their entries.
        indexes: HashMap<String, usize>,
        merges: Vec<(Position, Arc<Node>)>,
        key: Option<Key>,
    },
}

enum Key {
    Name(String, Position),
    Merge(Position),
}

impl Builder {
    pub(super) fn new(lines_before: usize, duplicate_keys: DuplicateKeys) -> Self {
        Self {
            open: Vec::new(),
            anchors: HashMap::new(),
            lines_before,
            remaining_merges: MAX_VALUES,
            root: None,
            duplicate_keys,
            duplicates: Vec::new(),
        }
    }

    /// Returns the keys that were set again, in the order of their values' ends.
    pub(super) fn into_duplicates(self) -> Vec<DuplicateKey> {
        self.duplicates
    }

    /// The finished tree; `None` if the document was empty.
    pub(super) fn take(&mut self) -> Option<Arc<Node>> {
        self.anchors.clear();
        self.open.clear();
        self.root.take()
    }

    pub(super) fn position(&self, span: &Span) -> Position {
        Position { line: span.start.line() + self.lines_before, column: span.start.col() + 1 }
    }

    pub(super) fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Fault> {
        let start = self.position(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), start)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(OpenCollection { start, anchor, items: Items::List(Vec::new()) })
            }
            Event::MappingStart(_, anchor, _) => {
                let items = Items::Map {
                    entries: Vec::new(),
                    indexes: HashMap::new(),
                    merges: Vec::new(),
                    key: None,
                };
                self.begin(OpenCollection { start, anchor, items })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => self.attach(node, start),
                None => Err((start, "an alias cannot refer to a node that contains it".to_string())),
            },
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        start: Position,
    ) -> Result<(), Fault> {
        let is_plain = style == ScalarStyle::Plain;
        if self.awaits_key() && anchor == 0 {
            let key =
                if is_plain && text == "<<" { Key::Merge(start) } else { Key::Name(text.to_string(), start) };
            self.set_key(key);
            return Ok(());
        }
        let core = tag.and_then(Tag::core_suffix);
        let value = if core == Some("str") || (core.is_none() && !is_plain) {
            Value::String(text.to_string())
        } else {
            scalar::resolve(text)
                .map_err(|_| (start, format!("{text} is a number that JSON cannot represent")))?
        };
        let node = Arc::new(Node { start, height: 0, content: Content::Scalar(value) });
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node, start)
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some(OpenCollection { items: Items::Map { key: None, .. }, .. }))
    }

    fn set_key(&mut self, next: Key) {
        if let Some(OpenCollection { items: Items::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some(next);
        }
    }

    fn begin(&mut self, open: OpenCollection) -> Result<(), Fault> {
        if self.awaits_key() {
            return Err((open.start, "a key must be a string, not a list or a map".to_string()));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err((open.start, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(OpenCollection { start, anchor, items }) = self.open.pop() else { return Ok(()) };
        let content = match items {
            Items::List(list) => Content::List(list),
            Items::Map { entries, merges, .. } => {
                Content::Map(merged(entries, &merges, &mut self.remaining_merges)?)
            }
        };
        let below = match &content {
            Content::Scalar(_) => None,
            Content::List(list) => list.iter().map(|n| n.height).max(),
            Content::Map(entries) => entries.iter().map(|e| e.value.height).max(),
        };
        let height = below.map_or(0, |h| h + 1);
        if height > MAX_DEPTH {
            return Err((start, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let node = Arc::new(Node { start, height, content });
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.attach(node, start)
    }

    /// Adds a finished node to its parent.
    fn attach(&mut self, node: Arc<Node>, start: Position) -> Result<(), Fault> {
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.root = Some(node),
            Some(Items::List(list)) => list.push(node),
            Some(Items::Map { entries, indexes, merges, key }) => match key.take() {
                Some(Key::Merge(start)) => merges.push((start, node)),
                Some(Key::Name(name, key_start)) => match indexes.get(&name) {
                    None => {
                        indexes.insert(name.clone(), entries.len());
                        entries.push(Entry { key: name, start: key_start, value: node });
                    }
                    Some(index) if self.duplicate_keys == DuplicateKeys::LastWins => {
                        if self.duplicates.len() < MAX_DUPLICATES {
                            self.duplicates.push(DuplicateKey { line: start.line, key: name.clone() });
                        }
                        entries[*index] = Entry { key: name, start: key_start, value: node };
                    }
                    Some(index) => {
                        let line = entries[*index].start.line;
                        return Err((key_start, format!("key \"{name}\" is already set at line {line}")));
                    }
                },
                None => match &node.content {
                    Content::Scalar(value) => {
                        let name = value.as_str().map_or_else(|| value.to_string(), str::to_string);
                        *key = Some(Key::Name(name, start));
                    }
                    _ => return Err((start, "a key must be a string, not a list or a map".to_string())),
                },
            },
        }
        Ok(())
    }
}

/// Adds the entries that `<<` merges to a map's own entries: they come last and never replace one of these.
fn merged(
    mut entries: Vec<Entry>,
    merges: &[(Position, Arc<Node>)],
    remaining: &mut usize,
) -> Result<Vec<Entry>, Fault> {
    if merges.is_empty() {
        return Ok(entries);
    }
    let mut seen: HashSet<String> = entries.iter().map(|e| e.key.clone()).collect();
    for (at, node) in merges {
        let sources: Vec<&Arc<Node>> = match &node.content {
            Content::List(list) => list.iter().collect(),
            _ => vec![node],
        };
        for source in sources {
            let Content::Map(inherited) = &source.content else {
                return Err((*at, "<< must refer to a map, or to a list of maps".to_string()));
            };
            *remaining =
                remaining.checked_sub(inherited.len() + 1).ok_or_else(|| (*at, TOO_LARGE.to_string()))?;
            for Entry { key, start, value } in inherited {
                if seen.insert(key.clone()) {
                    entries.push(Entry { key: key.clone(), start: *start, value: value.clone() });
                }
            }
        }
    }
    Ok(entries)
}

const TOO_LARGE: &str = "the document is too large after its aliases are expanded";

/// Converts the tree to JSON.
pub(super) fn to_value(root: &Node) -> Result<Value, Fault> {
    let mut budget = Budget { values: MAX_VALUES, bytes: MAX_BYTES };
    value_of(root, &mut budget)
}

struct Budget {
    values: usize,
    bytes: usize,
}

impl Budget {
    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.values = self.values.checked_sub(1)?;
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(())
    }
}

fn value_of(node: &Node, budget: &mut Budget) -> Result<Value, Fault> {
    let text = if let Content::Scalar(Value::String(text)) = &node.content { text.len() } else { 0 };
    budget.spend(text).ok_or_else(|| (node.start, TOO_LARGE.to_string()))?;
    Ok(match &node.content {
        Content::Scalar(value) => value.clone(),
        Content::List(list) => {
            Value::Array(list.iter().map(|n| value_of(n, budget)).collect::<Result<_, _>>()?)
        }
        Content::Map(entries) => {
            let mut map = Map::new();
            for entry in entries {
                budget.spend(entry.key.len()).ok_or_else(|| (entry.start, TOO_LARGE.to_string()))?;
                map.insert(entry.key.clone(), value_of(&entry.value, budget)?);
            }
            Value::Object(map)
        }
    })
}

/// Finds the position of the field with this path, or of its nearest existing part.
///
/// Paths are written as in field errors: `spec.containers[0].name`, `data[a.b]`, `metadata.labels.a.b/c`.
pub(super) fn find(root: &Node, path: &str) -> Position {
    let (mut node, mut found, mut rest) = (root, root.start, path);
    loop {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if rest.is_empty() {
            return found;
        }
        match &node.content {
            Content::Map(entries) => {
                let (bracketed, text) = match rest.strip_prefix('[') {
                    Some(inner) => (true, inner),
                    None => (false, rest),
                };
                // Keys may contain dots and brackets themselves, so the longest matching key is taken.
                let fits = |entry: &&Entry| match text.strip_prefix(entry.key.as_str()) {
                    Some(after) if bracketed => after.starts_with(']'),
                    Some(after) => after.is_empty() || after.starts_with(['.', '[']),
                    None => false,
                };
                let Some(entry) = entries.iter().filter(fits).max_by_key(|e| e.key.len()) else {
                    return found;
                };
                rest = &text[entry.key.len() + usize::from(bracketed)..];
                found = entry.start;
                node = &entry.value;
            }
            Content::List(list) => {
                let Some((index, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) else {
                    return found;
                };
                let Some(item) = index.parse().ok().and_then(|i: usize| list.get(i)) else { return found };
                rest = after;
                found = item.start;
                node = item;
            }
            Content::Scalar(_) => return found,
        }
    }
}
