//! `hotkeys.yaml`: keys for commands after `:`, in k9s' format.

use manifest::{ConfigText, ManifestError};
use serde::Deserialize;

use super::shortcut::Scalar;
use console_toolkit::keys::Key;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct HotKeyEntry {
    short_cut: Scalar,
    command: String,
    #[serde(default)]
    description: String,
    #[serde(default, rename = "override")]
    overrides: bool,
    #[serde(default)]
    keep_history: bool,
}

/// A key for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKey {
    /// The name in the file.
    pub name: String,
    /// The key.
    pub key: Key,
    /// The description for the help.
    pub description: String,
    /// The command after `:`, with variables.
    pub command: String,
    /// The key takes precedence over a command with the same key.
    pub overrides: bool,
    /// The hotkey's view opens above the present one; otherwise it starts a new stack, as a table after `:` does.
    pub keeps_history: bool,
}

/// Parses a file; an invalid entry does not hide the others.
pub(super) fn parse(text: &str, file: &str) -> (Vec<HotKey>, Vec<ManifestError>) {
    let text = match ConfigText::parse(text, file) {
        Ok(text) => text,
        Err(error) => return (Vec::new(), vec![error]),
    };
    let (all, mut errors) = text.decode_entries::<HotKeyEntry>(Some("hotKeys"));
    let mut keys = Vec::new();
    for (name, written) in all {
        if written.command.trim().is_empty() {
            errors.push(text.fault(&format!("hotKeys.{name}.command"), "required"));
            continue;
        }
        match written.short_cut.key() {
            Ok(key) => keys.push(HotKey {
                description: Some(written.description)
                    .filter(|text| !text.is_empty())
                    .unwrap_or_else(|| format!(":{}", written.command)),
                name,
                key,
                command: written.command.trim_start_matches(':').to_owned(),
                overrides: written.overrides,
                keeps_history: written.keep_history,
            }),
            Err(why) => errors.push(text.fault(&format!("hotKeys.{name}.shortCut"), why)),
        }
    }
    (keys, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hotkeys_are_parsed_and_errors_reported_con_16() {
        let text = "hotKeys:\n  shift-0:\n    shortCut: Shift-0\n    description: Viewing pods\n    command: pods\n  x:\n    shortCut: Shift-X\n    command: xray deploy\n    keepHistory: true\n    override: true\n";
        let (keys, errors) = parse(text, "h.yaml");
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!((keys[0].command.as_str(), keys[0].key), ("pods", Key::parse(")").expect("a key")));
        assert_eq!(keys[1].description, ":xray deploy");
        assert!(keys[1].overrides && keys[1].keeps_history && !keys[0].overrides);
        for (text, error) in [
            ("hotkeys: {}\n", "h.yaml:1:1: hotkeys: unknown field \"hotkeys\", did you mean hotKeys?"),
            (
                "hotKeys:\n  a:\n    shortCut: Nope-1\n    command: x\n",
                "h.yaml:3:5: hotKeys.a.shortCut: no key \"Nope-1\"",
            ),
            (
                "hotKeys:\n  a:\n    shortCut: a\n    command: ' '\n",
                "h.yaml:4:5: hotKeys.a.command: required",
            ),
            ("hotKeys:\n  a:\n    shortCut: a\n", "h.yaml:2:3: hotKeys.a: missing field `command`"),
        ] {
            let (_, errors) = parse(text, "h.yaml");
            assert!(errors[0].to_string().starts_with(error), "{}\n{error}", errors[0]);
        }
        let text = "hotKeys:\n  a:\n    shortCut: a\n  b:\n    shortCut: b\n    command: pods\n";
        let (keys, errors) = parse(text, "h.yaml");
        assert_eq!((keys.len(), keys[0].name.as_str(), errors.len()), (1, "b", 1), "{errors:?}");
    }
}
