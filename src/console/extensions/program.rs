//! A program to run beside the console, and how it is written where people read it.

use std::fmt;

use crate::resource::ObjectRef;

/// A program with its arguments, never run by a shell unless it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Program and arguments.
    pub(crate) words: Vec<String>,
    /// What is set for it beside the console's own environment.
    pub(crate) environment: Vec<(String, String)>,
}

impl fmt::Display for Program {
    /// As one would type it into a shell.
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

/// Where a program of a plugin runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a terminal pane.
    Pane,
    /// Out of sight, and its end is told: with its exit code, or by the first line of its output alone.
    Background(Told),
}

/// What is told of a program that ended well out of sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its exit code, and the first line.
    Code,
    /// The first line alone.
    Output,
}

/// A run of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The plugin's name.
    pub(crate) name: String,
    /// What it is about.
    pub(crate) target: ObjectRef,
    /// What runs.
    pub(crate) program: Program,
    /// Where.
    pub(crate) place: Place,
}

impl Run {
    /// `plugin logs on Pod default/web`.
    pub(crate) fn title(&self) -> String {
        format!("plugin {} on {}", self.name, self.target.describe())
    }
}
