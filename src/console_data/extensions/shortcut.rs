//! Keys in k9s' notation: `Ctrl-L`, `Shift-B`, `Shift-0`, `F1`, `a`.

use serde::Deserialize;

use console_toolkit::keys::Key;

/// The characters of Shift with a digit on the keyboard that k9s assumes.
const SHIFTED: [char; 10] = [')', '!', '@', '#', '$', '%', '^', '&', '*', '('];

/// A YAML scalar of any type, which is used as text.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Scalar {
    Text(String),
    Number(serde_json::Number),
    Bool(bool),
}

impl Scalar {
    /// Returns the scalar as text.
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
            Self::Bool(is) => is.to_string(),
        }
    }

    /// Parses the scalar as a key. YAML reads the keys `y` and `n` as true and false.
    pub(super) fn key(self) -> Result<Key, String> {
        match self {
            Self::Bool(true) => key("y"),
            Self::Bool(false) => key("n"),
            other => key(&other.text()),
        }
    }
}

/// Parses the name of a key.
fn key(name: &str) -> Result<Key, String> {
    let shifted = name.get(..6).filter(|start| start.eq_ignore_ascii_case("shift-"));
    let digit = shifted.and_then(|_| match name.as_bytes()[6..] {
        [digit @ b'0'..=b'9'] => Some(SHIFTED[usize::from(digit - b'0')]),
        _ => None,
    });
    let key = match digit {
        Some(sign) => Key::parse(&sign.to_string()),
        None => Key::parse(name),
    };
    key.ok_or_else(|| format!("no key {name:?}; keys are a, Shift-A, Ctrl-A, Alt-A, F1, Shift-0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_k9s_are_ours_con_16() {
        for (name, ours) in [
            ("Ctrl-L", "ctrl-l"),
            ("Shift-B", "B"),
            ("shift-s", "S"),
            ("Shift-0", ")"),
            ("Shift-1", "!"),
            ("F1", "f1"),
            ("a", "a"),
            ("Ctrl-Space", "ctrl-space"),
        ] {
            assert_eq!(key(name).ok(), Key::parse(ours), "{name}");
        }
        for name in ["", "Hyper-X", "Shift-", "Ctrl-LL"] {
            assert!(key(name).is_err(), "{name}");
        }
    }
}
