//! Key names in configuration and help: `ctrl-d`, `shift-j`, `space`, `?`.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// One key press, normalised so that different terminals' reports of it compare equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl Key {
    /// Returns the key of an event. Shift is part of a letter (`J`), not a modifier.
    pub fn of(event: KeyEvent) -> Self {
        let mut modifiers =
            event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        let mut code = event.code;
        match code {
            KeyCode::Char(c) => {
                if modifiers.contains(KeyModifiers::CONTROL) {
                    code = KeyCode::Char(c.to_ascii_lowercase());
                } else if modifiers.contains(KeyModifiers::SHIFT) {
                    code = KeyCode::Char(c.to_ascii_uppercase());
                }
                modifiers -= KeyModifiers::SHIFT;
                // Terminals report the bytes 0x1c to 0x1f as Ctrl-4 to Ctrl-7, and Ctrl-Space as Ctrl-@.
                if modifiers.contains(KeyModifiers::CONTROL) {
                    code = match code {
                        KeyCode::Char('4') => KeyCode::Char('\\'),
                        KeyCode::Char('5') => KeyCode::Char(']'),
                        KeyCode::Char('6') => KeyCode::Char('^'),
                        KeyCode::Char('@' | '2') => KeyCode::Char(' '),
                        KeyCode::Char('7' | '/') => KeyCode::Char('_'),
                        other => other,
                    };
                }
            }
            KeyCode::BackTab => {
                code = KeyCode::Tab;
                modifiers |= KeyModifiers::SHIFT;
            }
            _ => {}
        }
        Self { code, modifiers }
    }

    /// Returns an event of this key, for scripts and tests.
    pub fn event(self) -> KeyEvent {
        let code = match self.code {
            KeyCode::Tab if self.modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
            code => code,
        };
        KeyEvent::new(code, self.modifiers)
    }

    /// Parses `ctrl-d`, `shift-left`, `J`, `space`, `f5`, and every key as it is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        loop {
            let lower = rest.to_ascii_lowercase();
            let (modifier, length) = match () {
                () if lower.starts_with("ctrl-") && rest.len() > 5 => (KeyModifiers::CONTROL, 5),
                () if lower.starts_with("shift-") && rest.len() > 6 => (KeyModifiers::SHIFT, 6),
                () if lower.starts_with("alt-") && rest.len() > 4 => (KeyModifiers::ALT, 4),
                () => break,
            };
            modifiers |= modifier;
            rest = &rest[length..];
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some('←'), None) => KeyCode::Left,
            (Some('→'), None) => KeyCode::Right,
            (Some('↑'), None) => KeyCode::Up,
            (Some('↓'), None) => KeyCode::Down,
            (Some(c), None) => KeyCode::Char(c),
            _ => match rest.to_ascii_lowercase().as_str() {
                "space" => KeyCode::Char(' '),
                "enter" => KeyCode::Enter,
                "esc" => KeyCode::Esc,
                "tab" => KeyCode::Tab,
                "backspace" => KeyCode::Backspace,
                "delete" => KeyCode::Delete,
                "insert" => KeyCode::Insert,
                "left" => KeyCode::Left,
                "right" => KeyCode::Right,
                "up" => KeyCode::Up,
                "down" => KeyCode::Down,
                "home" => KeyCode::Home,
                "end" => KeyCode::End,
                "pageup" => KeyCode::PageUp,
                "pagedown" => KeyCode::PageDown,
                other => KeyCode::F(other.strip_prefix('f')?.parse().ok().filter(|n| (1..=12).contains(n))?),
            },
        };
        Some(Self::of(KeyEvent::new(code, modifiers)))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.modifiers.contains(KeyModifiers::CONTROL) {
            f.write_str("ctrl-")?;
        }
        if self.modifiers.contains(KeyModifiers::ALT) {
            f.write_str("alt-")?;
        }
        if self.modifiers.contains(KeyModifiers::SHIFT) {
            f.write_str("shift-")?;
        }
        match self.code {
            KeyCode::Char(' ') => f.write_str("space"),
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(n) => write!(f, "f{n}"),
            KeyCode::PageUp => f.write_str("pageup"),
            KeyCode::PageDown => f.write_str("pagedown"),
            KeyCode::Left => f.write_str("←"),
            KeyCode::Right => f.write_str("→"),
            KeyCode::Up => f.write_str("↑"),
            KeyCode::Down => f.write_str("↓"),
            other => f.write_str(&format!("{other:?}").to_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_events_meet() {
        for (text, code, modifiers, shown) in [
            ("ctrl-d", KeyCode::Char('d'), KeyModifiers::CONTROL, "ctrl-d"),
            ("ctrl-d", KeyCode::Char('D'), KeyModifiers::CONTROL | KeyModifiers::SHIFT, "ctrl-d"),
            ("shift-j", KeyCode::Char('J'), KeyModifiers::SHIFT, "J"),
            ("J", KeyCode::Char('J'), KeyModifiers::NONE, "J"),
            ("?", KeyCode::Char('?'), KeyModifiers::SHIFT, "?"),
            ("space", KeyCode::Char(' '), KeyModifiers::NONE, "space"),
            ("ctrl-space", KeyCode::Char(' '), KeyModifiers::CONTROL, "ctrl-space"),
            ("ctrl-\\", KeyCode::Char('4'), KeyModifiers::CONTROL, "ctrl-\\"),
            ("ctrl-]", KeyCode::Char('5'), KeyModifiers::CONTROL, "ctrl-]"),
            ("shift-left", KeyCode::Left, KeyModifiers::SHIFT, "shift-←"),
            ("shift-tab", KeyCode::BackTab, KeyModifiers::NONE, "shift-tab"),
            ("-", KeyCode::Char('-'), KeyModifiers::NONE, "-"),
            ("f5", KeyCode::F(5), KeyModifiers::NONE, "f5"),
        ] {
            let key = Key::parse(text).expect(text);
            assert_eq!(key, Key::of(KeyEvent::new(code, modifiers)), "{text}");
            assert_eq!(key.to_string(), shown);
            assert_eq!(Key::parse(shown), Some(key), "{shown}");
        }
        for bad in ["", "ctrl-", "meta-x", "f13", "spacebar"] {
            assert_eq!(Key::parse(bad).filter(|_| bad != "ctrl-"), None, "{bad}");
        }
    }
}
