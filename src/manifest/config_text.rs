//! A text that consists of one document in a format of Podium's own, such as a config file. It is decoded strictly, and
//! every error has a position.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::ManifestError;
use super::node::{self, DuplicateKey, DuplicateKeys, Node};
use super::parse;
use base::did_you_mean::nearest;

/// One document of any shape.
#[derive(Debug)]
pub struct ConfigText {
    source: Arc<str>,
    value: Value,
    /// The root of the document; `None` for an empty text.
    tree: Option<Arc<Node>>,
}

impl ConfigText {
    /// Reads YAML or JSON; `source` names the file in errors.
    pub fn parse(text: &str, source: &str) -> Result<Self, ManifestError> {
        Self::parse_with(text, source, DuplicateKeys::Refused).map(|(text, _)| text)
    }

    fn parse_with(
        text: &str,
        source: &str,
        duplicate_keys: DuplicateKeys,
    ) -> Result<(Self, Vec<DuplicateKey>), ManifestError> {
        let source: Arc<str> = source.into();
        let (tree, duplicates) = parse::single(text, &source, duplicate_keys)?;
        let value = match &tree {
            Some(tree) => node::to_value(tree).map_err(|fault| ManifestError::of_fault(&source, fault))?,
            None => Value::Null,
        };
        Ok((Self { source, value, tree }, duplicates))
    }

    /// Returns the content as an owned value.
    pub(crate) fn into_value(self) -> Value {
        self.value
    }

    /// Returns an error about the value of a field; `field` is a path such as `spec.containers[0].name`.
    pub fn fault(&self, field: &str, message: impl Into<String>) -> ManifestError {
        ManifestError {
            source: self.source.clone(),
            position: self.tree.as_ref().map(|tree| node::find(tree, field)),
            field: Some(field.to_string()).filter(|field| !field.is_empty()),
            message: message.into(),
        }
    }

    /// Decodes the document as a `T`; `None` for an empty text.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<Option<T>, ManifestError> {
        if self.tree.is_none() {
            return Ok(None);
        }
        self.decode_at("", self.value.clone()).map(Some)
    }

    /// Decodes each entry of a map for itself: the map of this name, which is all that the document may have, or the
    /// document. The errors are those of invalid entries, which are left out, and of other names beside the map.
    pub fn decode_entries<T: DeserializeOwned>(
        &self,
        section: Option<&str>,
    ) -> (BTreeMap<String, T>, Vec<ManifestError>) {
        let (mut entries, mut errors) = (BTreeMap::new(), Vec::new());
        let all = match self.written_entries(section, &mut errors) {
            Ok(all) => all,
            Err(error) => return (entries, vec![error]),
        };
        for (name, value) in all {
            let field = section.map_or_else(|| name.clone(), |section| format!("{section}.{name}"));
            match self.decode_at(&field, value) {
                Ok(entry) => drop(entries.insert(name, entry)),
                Err(error) => errors.push(error),
            }
        }
        (entries, errors)
    }

    fn written_entries(
        &self,
        section: Option<&str>,
        errors: &mut Vec<ManifestError>,
    ) -> Result<BTreeMap<String, Value>, ManifestError> {
        let mut document: BTreeMap<String, Value> = self.decode()?.unwrap_or_default();
        let Some(section) = section else { return Ok(document) };
        let entries = document.remove(section).filter(|entries| !entries.is_null());
        errors.extend(document.keys().map(|name| {
            let message = format!("unknown field `{name}`, expected `{section}`");
            self.fault(name, with_the_nearest_name(&message))
        }));
        entries.map_or_else(|| Ok(BTreeMap::new()), |entries| self.decode_at(section, entries))
    }

    /// Decodes the value of a field; `field` is empty for the document.
    fn decode_at<T: DeserializeOwned>(&self, field: &str, value: Value) -> Result<T, ManifestError> {
        base::json::from_value(value).map_err(|error| {
            let error = if field.is_empty() { error } else { error.below(field) };
            self.fault(error.path(), with_the_nearest_name(&error.to_string()))
        })
    }
}

/// Reads a text of one document, such as an editor's or a config file's; an empty text gives null.
pub fn from_yaml(text: &str) -> Result<Value, ManifestError> {
    ConfigText::parse(text, "yaml").map(ConfigText::into_value)
}

/// Like [`from_yaml`], but the last value of a key counts. Returns the keys that were set again, up to a limit.
pub fn from_yaml_with_duplicates(text: &str) -> Result<(Value, Vec<DuplicateKey>), ManifestError> {
    let (text, duplicates) = ConfigText::parse_with(text, "yaml", DuplicateKeys::LastWins)?;
    Ok((text.into_value(), duplicates))
}

/// Shortens serde's message about an unknown name: of the expected names, only the most similar one remains.
fn with_the_nearest_name(message: &str) -> String {
    // unknown field `a`, expected one of `b`, `c`
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let problem = ["unknown field", "unknown variant"].into_iter().find(|what| message.starts_with(what));
    match (problem, names.as_slice()) {
        (Some(what), [given, known @ ..]) => match nearest(given, known.iter().copied()) {
            Some(near) => format!("{what} \"{given}\", did you mean {near}?"),
            None if known.is_empty() => format!("{what} \"{given}\""),
            None => format!("{what} \"{given}\"; expected {}", known.join(", ")),
        },
        _ => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[expect(dead_code, reason = "only errors are looked at")]
    struct Config {
        timings: Option<Timings>,
        images: Option<Vec<Image>>,
        labels: Option<BTreeMap<String, u8>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[expect(dead_code, reason = "only errors are looked at")]
    struct Timings {
        back_off: Option<f64>,
        heartbeat: Option<f64>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only errors are looked at")]
    struct Image {
        name: String,
    }

    #[test]
    fn an_error_names_its_place_its_field_and_what_may_be_meant_cli_6() {
        for (text, expected) in [
            (
                "timings: {backOf: 1}\n",
                "c.yaml:1:11: timings.backOf: unknown field \"backOf\", did you mean backOff?",
            ),
            (
                "timings:\n  something: 1\n",
                "c.yaml:2:3: timings.something: unknown field \"something\"; expected backOff, heartbeat",
            ),
            (
                "timings:\n  backOff: soon\n",
                "c.yaml:2:3: timings.backOff: invalid type: string \"soon\", expected f64",
            ),
            (
                "images:\n- name: a\n- nam: b\n",
                "c.yaml:3:3: images[1].nam: unknown field \"nam\", did you mean name?",
            ),
            ("images:\n- name: a\n- {}\n", "c.yaml:3:3: images[1]: missing field `name`"),
            (
                "labels: {a.b/c: 300}\n",
                "c.yaml:1:10: labels.a.b/c: invalid value: integer `300`, expected u8",
            ),
            ("text\n", "c.yaml:1:1: invalid type: string \"text\", expected struct Config"),
            ("a: [\n", "c.yaml:1:4: unclosed"),
            ("a: 1\na: 2\n", "c.yaml:2:1: "),
            ("{}\n---\n{}\n", "c.yaml:3:1: the text has more than one document"),
        ] {
            let read = ConfigText::parse(text, "c.yaml").and_then(|text| text.decode::<Config>());
            let error = read.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\nis not {expected}");
        }
        assert!(ConfigText::parse("# nothing\n", "c.yaml").unwrap().decode::<Config>().unwrap().is_none());
    }

    #[test]
    fn an_invalid_entry_hides_no_other_cli_6() {
        for (text, section, names, expected) in [
            (
                "timings: {a: {backOff: 1}, b: {backOf: 1}, c: 5}\nother: 1\n",
                Some("timings"),
                &["a"][..],
                &[
                    "c.yaml:2:1: other: unknown field \"other\"; expected timings",
                    "c.yaml:1:32: timings.b.backOf: unknown field \"backOf\", did you mean backOff?",
                    "c.yaml:1:44: timings.c: invalid type: integer `5`, expected struct Timings",
                ][..],
            ),
            ("a: {}\nb: {}\n", None, &["a", "b"], &[]),
            (
                "timing: {}\n",
                Some("timings"),
                &[],
                &["c.yaml:1:1: timing: unknown field \"timing\", did you mean timings?"],
            ),
            (
                "timings: soon\n",
                Some("timings"),
                &[],
                &["c.yaml:1:1: timings: invalid type: string \"soon\", expected a map"],
            ),
            ("text\n", None, &[], &["c.yaml:1:1: invalid type: string \"text\", expected a map"]),
            ("timings:\n", Some("timings"), &[], &[]),
            ("# nothing\n", None, &[], &[]),
        ] {
            let read = ConfigText::parse(text, "c.yaml").unwrap();
            let (entries, errors) = read.decode_entries::<Timings>(section);
            assert_eq!(entries.keys().collect::<Vec<_>>(), names, "{text}");
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
