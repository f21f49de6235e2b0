//! Environment files (`fileKeyRef`), by Kubernetes' rules: a strict subset of a shell's syntax.
//!
//! A variable is declared as `NAME='value'`. The value is everything between the single quotes, including line ends;
//! references in it are not expanded. Blank lines, blanks before a name and lines that begin with `#` are ignored, and
//! a comment may follow a value after a blank. If a name is declared twice, the first declaration applies.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::FileKeySelector;

use super::EnvError;

const BLANKS: [char; 2] = [' ', '\t'];

/// The variables of an environment file, up to its first mistake.
#[derive(Debug, Default)]
pub(crate) struct EnvFile {
    values: HashMap<String, String>,
    /// The first mistake, or the reason why the file cannot be read.
    error: Option<String>,
}

/// Names a file in messages: its volume and its path in that volume.
pub(super) fn display_path(reference: &FileKeySelector) -> String {
    format!("{}/{}", reference.volume_name, reference.path)
}

impl EnvFile {
    /// Creates the result for a file that cannot be read.
    pub(crate) fn unreadable(reason: String) -> Self {
        Self { values: HashMap::new(), error: Some(reason) }
    }

    /// Parses the declarations of a file.
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.replace("\r\n", "\n");
        let (mut rest, mut line, mut file) = (text.as_str(), 1, Self::default());
        while !rest.is_empty() {
            let start = rest.trim_start_matches(BLANKS);
            if start.is_empty() || start.starts_with(['\n', '#']) {
                rest = after_line(start);
                line += 1;
                continue;
            }
            match declaration(start) {
                Ok(Declaration { name, value, after }) => {
                    line += 1 + value.matches('\n').count();
                    file.values.entry(name.to_owned()).or_insert_with(|| value.to_owned());
                    rest = after;
                }
                Err(why) => {
                    file.error = Some(format!("invalid environment variable format at line {line}{why}"));
                    break;
                }
            }
        }
        file
    }

    /// Returns the value of a key, empty if the file lacks it; an error if the mistake in the file may have hidden it.
    pub(crate) fn value(&self, reference: &FileKeySelector) -> Result<String, EnvError> {
        match (self.values.get(&reference.key), &self.error) {
            (Some(value), _) => Ok(value.clone()),
            (None, None) => Ok(String::new()),
            (None, Some(why)) => {
                Err(EnvError::EnvFile { path: display_path(reference), reason: why.clone() })
            }
        }
    }

    /// Returns the size of the names and values in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.values.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Drops the keys that no container uses.
    pub(crate) fn retain(&mut self, is_retained: impl Fn(&str) -> bool) {
        self.values.retain(|name, _| is_retained(name));
    }
}

struct Declaration<'t> {
    name: &'t str,
    value: &'t str,
    /// The text from the next line on.
    after: &'t str,
}

/// Parses the declaration at the start of a text; an error is the last part of the error message.
fn declaration(text: &str) -> Result<Declaration<'_>, &'static str> {
    let line = &text[..text.find('\n').unwrap_or(text.len())];
    let (name, _) = line.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("")?;
    if name.ends_with(BLANKS) {
        return Err(": whitespace before '=' is not allowed");
    }
    let quoted =
        text[name.len() + 1..].strip_prefix('\'').ok_or(": value must be enclosed in single quotes")?;
    let (value, after) = quoted.split_once('\'').ok_or(": unclosed single quote")?;
    let end_of_line = &after[..after.find('\n').unwrap_or(after.len())];
    let comment = end_of_line.trim_start_matches(BLANKS);
    if comment.is_empty() || (comment.starts_with('#') && comment.len() < end_of_line.len()) {
        Ok(Declaration { name, value, after: after_line(after) })
    } else {
        Err(": unexpected content after closing quote")
    }
}

fn after_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, key: &str) -> Result<String, String> {
        let reference = FileKeySelector {
            key: key.into(),
            path: "e".into(),
            volume_name: "v".into(),
            ..FileKeySelector::default()
        };
        EnvFile::parse(text).value(&reference).map_err(|error| error.to_string())
    }

    #[test]
    fn environment_files_are_read_by_kubernetes_rules_pod_13() {
        let invalid = |line: u32, reason: &str| {
            Err(format!(
                "couldn't parse env file \"v/e\": invalid environment variable format at line {line}{reason}"
            ))
        };
        for (text, key, expected) in [
            ("K='v'", "K", Ok("v".into())),
            ("K='v'\n", "L", Ok(String::new())),
            ("# a note\n\n \t\n  K='v' # more\n", "K", Ok("v".into())),
            ("A='1'\r\nB='2'\r\n", "B", Ok("2".into())),
            ("A='one\n  two\n\nthree'\nB='x'", "A", Ok("one\n  two\n\nthree".into())),
            ("A='one\n  two'\nB='x'", "B", Ok("x".into())),
            (r#"A='$X ${Y} \n "q" # = \\'"#, "A", Ok(r#"$X ${Y} \n "q" # = \\"#.into())),
            ("A='  é '", "A", Ok("  é ".into())),
            ("A='1'\nA='2'", "A", Ok("1".into())),
            ("A=''", "A", Ok(String::new())),
            // The parser ignores the lines after the key.
            ("A='1'\nnonsense", "A", Ok("1".into())),
            ("A='1'\nnonsense\nB='2'", "B", invalid(2, "")),
            ("='1'\nB='2'", "B", invalid(1, "")),
            ("A='1\n2'\nB =\'2\'", "B", invalid(3, ": whitespace before '=' is not allowed")),
            ("B= 'x'", "B", invalid(1, ": value must be enclosed in single quotes")),
            ("B=x", "B", invalid(1, ": value must be enclosed in single quotes")),
            ("B=\"x\"", "B", invalid(1, ": value must be enclosed in single quotes")),
            ("B='x''y'", "B", invalid(1, ": unexpected content after closing quote")),
            ("B='x'#y", "B", invalid(1, ": unexpected content after closing quote")),
            ("A='x\nB='y'", "B", invalid(1, ": unexpected content after closing quote")),
            ("B='x", "B", invalid(1, ": unclosed single quote")),
        ] {
            assert_eq!(value(text, key), expected, "{text:?}");
        }
    }

    #[test]
    fn no_environment_file_makes_the_parser_panic_or_hang_sec_2() {
        for text in ["=", "'", "\n", "\r\n\r", "é", "A='", "A='\n", "A=é'", "#", "\0='\0'", "A='x'\u{a0}#"]
        {
            let _ = EnvFile::parse(text);
        }
        let _ = EnvFile::parse(&"A='x'\n".repeat(1 << 16));
        let _ = EnvFile::parse(&"A='".repeat(1 << 18));
    }
}
