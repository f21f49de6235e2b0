//! A program to run beside the console, and its text form for people.

use std::fmt;

use crate::resource::ObjectRef;

/// A program with its arguments. It is started directly: a shell runs only if it is the program itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Variables set in addition to the console's own environment.
    pub environment: Vec<(String, String)>,
}

impl fmt::Display for Program {
    /// Formats the program and its arguments as a shell's command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, word) in self.words.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            let plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
            if !word.is_empty() && word.chars().all(plain) {
                f.write_str(word)?;
            } else {
                write!(f, "'{}'", word.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

/// The place where a plugin's program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramTarget {
    /// In a terminal pane.
    Pane,
    /// In the background; its end is reported with the exit code, or by the first line of its output alone.
    Background(BackgroundReport),
}

/// The report on a background program that ended successfully.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundReport {
    /// The exit code, and the first line.
    Code,
    /// The first line alone.
    Output,
}

/// A run of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginRun {
    /// The name of the plugin.
    pub name: String,
    /// The object on which the plugin runs.
    pub target: ObjectRef,
    /// The program with its arguments.
    pub program: Program,
    /// The target: a terminal pane or the background.
    pub run_target: ProgramTarget,
}

impl PluginRun {
    /// Describes the run: `plugin logs on Pod default/web`.
    pub fn title(&self) -> String {
        format!("plugin {} on {}", self.name, self.target.describe())
    }
}
