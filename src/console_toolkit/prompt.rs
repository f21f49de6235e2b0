//! The `:` and `/` line: editing, history and completion. The module `palette` interprets the text.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::text::one_line;

/// The maximum length; a user may paste a whole file by mistake.
const LONGEST: usize = 1_000;

/// The type of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptKind {
    /// A command or a kind.
    Command,
    /// A filter or a search.
    Filter,
}

impl PromptKind {
    /// Returns the sign at the start of the line.
    pub fn sign(self) -> char {
        match self {
            Self::Command => ':',
            Self::Filter => '/',
        }
    }
}

/// The open prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The type of input.
    pub kind: PromptKind,
    /// The typed text.
    pub text: String,
    /// The error in the text.
    pub error: Option<String>,
    /// Completions, the best first; each is a complete text for the prompt.
    pub suggestions: Vec<String>,
    /// The suggestion selected with the arrow keys.
    pub picked: Option<usize>,
    /// The text is a default: typing replaces it, an editing key retains it.
    pub replaceable: bool,
    history_at: Option<usize>,
}

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The text changed.
    Changed,
    /// No change outside the prompt.
    Same,
    /// Enter.
    Done(String),
    /// Escape.
    Left,
}

impl Prompt {
    /// Opens a prompt with an initial text.
    pub fn new(kind: PromptKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            error: None,
            suggestions: Vec::new(),
            picked: None,
            replaceable: false,
            history_at: None,
        }
    }

    /// Makes the initial text replaceable by the first letter typed.
    #[must_use]
    pub fn replaceable(mut self) -> Self {
        self.replaceable = !self.text.is_empty();
        self
    }

    /// Returns the rest of the best suggestion, shown dim behind the cursor.
    pub fn ghost(&self) -> &str {
        let best = self.picked.or(Some(0)).and_then(|index| self.suggestions.get(index));
        best.and_then(|best| best.strip_prefix(self.text.as_str())).unwrap_or("")
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent, history: &[String]) -> Reply {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let starts_over = match key.code {
            // A command that could not be parsed is not the start of the next one.
            KeyCode::Char(':')
                if self.error.is_some() && self.kind == PromptKind::Command && !self.text.contains('=') =>
            {
                true
            }
            KeyCode::Char(_) if !control => std::mem::take(&mut self.replaceable),
            _ => {
                self.replaceable = false;
                false
            }
        };
        if starts_over {
            self.text.clear();
            if key.code == KeyCode::Char(self.kind.sign()) {
                return self.changed();
            }
        }
        match key.code {
            KeyCode::Esc => return Reply::Left,
            KeyCode::Char('c' | 'g') if control => return Reply::Left,
            KeyCode::Enter => {
                let picked = self.picked.and_then(|index| self.suggestions.get(index).cloned());
                return Reply::Done(picked.unwrap_or_else(|| self.text.clone()));
            }
            KeyCode::Tab | KeyCode::Right => return self.complete(),
            KeyCode::Char('f' | 'e') if control => return self.complete(),
            KeyCode::Backspace if self.text.is_empty() => return Reply::Left,
            KeyCode::Backspace => {
                self.text.pop();
            }
            KeyCode::Char('w') if control => {
                let end = self.text.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.text.truncate(end);
            }
            KeyCode::Char('u') if control => self.text.clear(),
            KeyCode::Down | KeyCode::Up
                if !self.suggestions.is_empty() && self.history_at.is_none() && !self.text.is_empty() =>
            {
                let last = self.suggestions.len() - 1;
                self.picked = match (key.code, self.picked) {
                    (KeyCode::Down, Some(at)) if at < last => Some(at + 1),
                    (KeyCode::Down, _) => Some(0),
                    (_, Some(at)) if at > 0 => Some(at - 1),
                    _ => Some(last),
                };
                return Reply::Same;
            }
            KeyCode::Up => return self.recall(history, self.history_at.map_or(0, |at| at + 1)),
            KeyCode::Down => match self.history_at {
                Some(at) if at > 0 => return self.recall(history, at - 1),
                _ => return Reply::Same,
            },
            KeyCode::Char(c) if !control && !c.is_control() && self.text.chars().count() < LONGEST => {
                self.text.push(c);
            }
            _ => return Reply::Same,
        }
        self.history_at = None;
        self.changed()
    }

    /// Inserts pasted text.
    pub fn paste(&mut self, text: &str) -> Reply {
        let capacity = LONGEST.saturating_sub(self.text.chars().count());
        self.text.extend(one_line(text).chars().take(capacity));
        self.changed()
    }

    fn complete(&mut self) -> Reply {
        let Some(best) = self.suggestions.get(self.picked.unwrap_or(0)).cloned() else { return Reply::Same };
        self.text = best;
        self.changed()
    }

    fn recall(&mut self, history: &[String], back: usize) -> Reply {
        let Some(text) = history.iter().rev().nth(back) else { return Reply::Same };
        self.text.clone_from(text);
        self.history_at = Some(back);
        self.changed()
    }

    fn changed(&mut self) -> Reply {
        self.error = None;
        self.picked = None;
        Reply::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;

    fn press(prompt: &mut Prompt, keys: &str) -> Reply {
        let history = ["pods".to_owned(), "nodes".to_owned()];
        let mut last = Reply::Same;
        for word in keys.split(' ') {
            last = prompt.key(Key::parse(word).expect("a key").event(), &history);
        }
        last
    }

    /// Neither an invalid command nor an active filter becomes a part of the next command.
    #[test]
    fn the_next_command_is_not_appended_to_the_last_one_con_3() {
        let mut prompt = Prompt::new(PromptKind::Command, "deploy shop");
        prompt.error = Some("no namespace".into());
        press(&mut prompt, ": p o");
        assert_eq!((prompt.text.as_str(), prompt.error.as_deref()), ("po", None));
        for (keys, text) in
            [("a b", "ab"), ("backspace", "we"), ("/", ""), ("right x", "webx"), ("ctrl-w", "")]
        {
            let mut prompt = Prompt::new(PromptKind::Filter, "web").replaceable();
            press(&mut prompt, keys);
            assert_eq!(prompt.text, text, "{keys}");
        }
    }

    #[test]
    fn the_prompt_edits_completes_and_remembers_con_3() {
        for (before, keys, after, reply) in [
            ("", "p o", "po", Reply::Changed),
            ("po", "backspace", "p", Reply::Changed),
            ("", "backspace", "", Reply::Left),
            ("pods kube", "ctrl-w", "pods ", Reply::Changed),
            ("de", "tab", "deployments", Reply::Changed),
            ("de", "down enter", "de", Reply::Done("deployments".into())),
            ("", "up", "nodes", Reply::Changed),
            ("", "up up", "pods", Reply::Changed),
            ("", "up up down", "nodes", Reply::Changed),
            ("x", "esc", "x", Reply::Left),
            ("x", "enter", "x", Reply::Done("x".into())),
        ] {
            let mut prompt = Prompt::new(PromptKind::Command, before);
            if before == "de" {
                prompt.suggestions = vec!["deployments".into()];
            }
            assert_eq!(press(&mut prompt, keys), reply, "{before} {keys}");
            assert_eq!(prompt.text, after, "{before} {keys}");
        }
    }
}
