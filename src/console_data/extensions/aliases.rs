//! `aliases.yaml`: the user's abbreviations for commands after `:`, in k9s' format.

use std::collections::BTreeMap;

use manifest::{ConfigText, ManifestError};

/// The maximum number of aliases that are expanded one after the other, because an alias may begin with another alias.
const DEPTH: usize = 8;

/// Aliases with their expansions.
pub(crate) type Aliases = BTreeMap<String, String>;

/// Parses a file; an invalid alias does not hide the others.
pub(super) fn parse(text: &str, file: &str) -> (Aliases, Vec<ManifestError>) {
    let text = match ConfigText::parse(text, file) {
        Ok(text) => text,
        Err(error) => return (Aliases::new(), vec![error]),
    };
    let (all, mut errors) = text.decode_entries::<String>(Some("aliases"));
    let mut aliases = Aliases::new();
    for (word, stands_for) in all {
        if word.is_empty() || word.contains(char::is_whitespace) {
            errors.push(text.fault(&format!("aliases.{word}"), "an alias is one word"));
        } else if stands_for.trim().is_empty() {
            errors.push(text.fault(&format!("aliases.{word}"), "the command is required"));
        } else {
            aliases.insert(word, stands_for.trim().to_owned());
        }
    }
    (aliases, errors)
}

/// Expands the first word of a text if it is an alias.
pub(super) fn expand(aliases: &Aliases, text: &str) -> String {
    let mut text = text.trim_start().to_owned();
    let mut seen: Vec<String> = Vec::new();
    while seen.len() < DEPTH {
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        // An alias that expands to its own name gives the word its original meaning.
        if seen.iter().any(|known| known == first) {
            break;
        }
        let Some(stands_for) = aliases.get(first) else { break };
        seen.push(first.to_owned());
        text = if rest.is_empty() { stands_for.clone() } else { format!("{stands_for} {rest}") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_stand_for_what_they_say_con_16() {
        let text = "aliases:\n  dp: deployments\n  sec: v1/secrets\n  mine: pods -l team=me\n  me: mine\n  po: po -n shop\n  a: b\n  b: a\n";
        let (aliases, errors) = parse(text, "a.yaml");
        assert!(errors.is_empty(), "{errors:?}");
        for (typed, meant) in [
            ("dp", "deployments"),
            ("dp shop", "deployments shop"),
            ("sec", "v1/secrets"),
            ("me /x", "pods -l team=me /x"),
            ("po", "po -n shop"),
            ("nodes dp", "nodes dp"),
            ("a", "a"),
        ] {
            assert_eq!(expand(&aliases, typed), meant, "{typed}");
        }
        for (text, error) in [
            ("alias: {}\n", "a.yaml:1:1: alias: unknown field \"alias\", did you mean aliases?"),
            ("aliases:\n  a: ''\n", "a.yaml:2:3: aliases.a: the command is required"),
            ("aliases:\n  'a b': c\n", "a.yaml:2:3: aliases.a b: an alias is one word"),
        ] {
            assert_eq!(parse(text, "a.yaml").1[0].to_string(), error);
        }
        let (aliases, errors) = parse("aliases:\n  a: [b]\n  c: d\n", "a.yaml");
        assert_eq!(aliases, [("c".to_owned(), "d".to_owned())].into());
        assert_eq!(errors[0].to_string(), "a.yaml:2:3: aliases.a: invalid type: sequence, expected a string");
    }
}
