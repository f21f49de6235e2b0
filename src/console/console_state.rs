//! State that the console saves between runs, beside `console.toml`, which belongs to the user and is never written.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The saved state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleState {
    /// The theme that the user selected last.
    #[serde(default)]
    pub theme: Option<String>,
    /// The theme in `console.toml` when the user selected `theme`. If the file names a different theme now, the file
    /// was edited later and wins.
    #[serde(default)]
    pub theme_over: Option<String>,
}

impl ConsoleState {
    /// Reads the saved state; empty if the file is absent or unreadable, because it is a convenience only.
    pub(crate) fn read(dir: Option<&Path>) -> Self {
        let text = dir.and_then(|dir| std::fs::read_to_string(path(dir)).ok());
        text.and_then(|text| base::json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Returns the selected theme, unless `configured`, the theme in `console.toml`, has changed since the selection.
    pub(crate) fn theme(&self, configured: Option<&str>) -> Option<&str> {
        self.theme.as_deref().filter(|_| self.theme_over.as_deref() == configured)
    }

    /// Writes the state atomically, so that other consoles may start or stop at any time.
    pub(crate) fn write(&self, dir: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(dir)?;
        let beside = dir.join(format!("console-state.{}.tmp", std::process::id()));
        std::fs::write(&beside, serde_json::to_string_pretty(self)?)?;
        std::fs::rename(&beside, path(dir)).inspect_err(|_| drop(std::fs::remove_file(&beside)))
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("console-state.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_wish_for_a_theme_wins_con_13() {
        let picked = |theme: &str, over: Option<&str>| ConsoleState {
            theme: Some(theme.into()),
            theme_over: over.map(Into::into),
        };
        for (memory, configured, theme) in [
            (ConsoleState::default(), None, None),
            (ConsoleState::default(), Some("paper"), None),
            (picked("nord", None), None, Some("nord")),
            (picked("nord", Some("paper")), Some("paper"), Some("nord")),
            (picked("nord", Some("paper")), Some("dusk"), None),
            (picked("nord", None), Some("dusk"), None),
        ] {
            assert_eq!(memory.theme(configured), theme, "{memory:?} {configured:?}");
        }
    }

    #[test]
    fn it_is_read_as_written_and_a_broken_file_is_no_reason_to_stop_con_13() {
        let dir = tempfile::tempdir().expect("a directory");
        let inside = dir.path().join("podium");
        assert_eq!(ConsoleState::read(Some(&inside)), ConsoleState::default());
        let memory = ConsoleState { theme: Some("my \"own\"".into()), theme_over: None };
        memory.write(&inside).expect("written");
        assert_eq!(ConsoleState::read(Some(&inside)), memory);
        assert_eq!(
            std::fs::read_dir(&inside).expect("a directory").count(),
            1,
            "nothing else is left behind"
        );
        std::fs::write(inside.join("console-state.json"), "{ half").expect("written");
        assert_eq!(ConsoleState::read(Some(&inside)), ConsoleState::default());
        assert_eq!(ConsoleState::read(None), ConsoleState::default());
    }
}
