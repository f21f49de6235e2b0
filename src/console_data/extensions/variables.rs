//! The variables of plugins and hotkeys for the selection: `$NAME`, `${COL-IP}`, `$!READY`, as in k9s.
//!
//! A value replaces its variable once and is never expanded again. In a script for a shell or another interpreter (`sh
//! -c TEXT`) only values of plain characters are allowed: text from the server must not become a command.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Names that are always variables, with or without a value; any other name is left for the program.
const BUILTIN_NAMES: [&str; 14] = [
    "RESOURCE_GROUP", "RESOURCE_VERSION", "RESOURCE_NAME", "NAMESPACE", "NAME", "CONTAINER", "POD", "FILTER",
    "KUBECONFIG", "CLUSTER", "CONTEXT", "USER", "GROUPS", "COL",
];

/// Programs that run a script given after `-c` or the like.
const INTERPRETERS: [&str; 17] = [
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "pwsh", "powershell", "python",
    "python3", "perl", "ruby", "node",
];

static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$(?:(!?)([\w\-]+)|\{(!?)([\w\-%/: ]+)\})").expect("a sound expression"));

/// Variables with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Sets a variable; names do not depend on case.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_uppercase(), value.into());
    }

    /// Returns the value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Replaces the variables in a text.
    pub fn fill(&self, text: &str) -> Result<String, String> {
        self.fill_as(text, |_, value| Ok(value))
    }

    /// Replaces the variables in the words of a command.
    pub(crate) fn fill_words(&self, words: &[String]) -> Result<Vec<String>, String> {
        let mut filled = Vec::new();
        let (mut interpreter, mut is_script) = (None, false);
        for (at, word) in words.iter().enumerate() {
            let text = if is_script { self.fill_script(word)? } else { self.fill_word(word)? };
            if text.contains('\0') {
                return Err(format!("argument {at} contains a zero byte"));
            }
            let base = text.rsplit('/').next().unwrap_or_default().trim_end_matches(".exe");
            is_script = interpreter.is_some() && is_script_flag(&text);
            if INTERPRETERS.contains(&base) {
                interpreter = Some(at);
            }
            filled.push(text);
        }
        Ok(filled)
    }

    /// Fills in a single word. A value from a column must not look like an option to the program.
    fn fill_word(&self, word: &str) -> Result<String, String> {
        let filled = self.fill(word)?;
        let is_column = word.starts_with("$COL-") || word.starts_with("${COL-");
        if is_column && filled.starts_with('-') && filled.parse::<f64>().is_err() {
            return Err(format!("{word} is {filled:?}, which a program would read as an option"));
        }
        Ok(filled)
    }

    fn fill_script(&self, script: &str) -> Result<String, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
        self.fill_as(script, |name, value| {
            if value.chars().all(plain) {
                return Ok(value);
            }
            Err(format!("${name} is {value:?}, which a shell would split or expand; pass it as an argument: sh -c '… \"$0\"' ${name}"))
        })
    }

    fn fill_as(
        &self,
        text: &str,
        mut take: impl FnMut(&str, String) -> Result<String, String>,
    ) -> Result<String, String> {
        let mut wrong = None;
        let filled = NAME.replace_all(text, |found: &Captures<'_>| {
            let of = |at: usize| found.get(at).map(|found| found.as_str());
            let name = of(2).or_else(|| of(4)).unwrap_or_default().to_uppercase();
            let inverse = of(1).or_else(|| of(3)) == Some("!");
            let known = BUILTIN_NAMES.contains(&name.as_str())
                || name.starts_with("COL-")
                || name.starts_with("INPUT_");
            match self.0.get(&name) {
                Some(value) => {
                    let value = match value.to_lowercase().as_str() {
                        "true" => (!inverse).to_string(),
                        "false" => inverse.to_string(),
                        _ => value.clone(),
                    };
                    take(&name, value).unwrap_or_else(|why| {
                        wrong.get_or_insert(why);
                        String::new()
                    })
                }
                None if known => {
                    wrong.get_or_insert(format!("unknown variable ${name}"));
                    String::new()
                }
                None => found[0].to_owned(),
            }
        });
        match wrong {
            Some(why) => Err(why),
            None => Ok(filled.into_owned()),
        }
    }
}

/// Matches `-c`, `-lc`, `-e`, `-Command`.
fn is_script_flag(argument: &str) -> bool {
    let Some(letters) = argument.strip_prefix('-') else { return false };
    letters.eq_ignore_ascii_case("command")
        || (!letters.starts_with('-')
            && letters.len() <= 6
            && letters.ends_with(['c', 'e'])
            && letters.chars().all(|c| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let mut variables = Variables::default();
        for (name, value) in [
            ("NAME", "web-1"),
            ("NAMESPACE", "shop"),
            ("COL-READY", "true"),
            ("COL-%CPU/L", "12"),
            ("COL-NODE NAME", "node-1"),
            ("COL-EVIL", "$(reboot)"),
            ("COL-OPTION", "--all"),
            ("COL-BELOW", "-3"),
            ("FILTER", "$NAME"),
        ] {
            variables.set(name, value);
        }
        variables
    }

    #[test]
    fn names_are_filled_as_k9s_fills_them_con_16() {
        for (text, filled) in [
            ("$NAME", Ok("web-1")),
            ("$name", Ok("web-1")),
            ("${NAME}-x", Ok("web-1-x")),
            ("$NAMESPACE/$NAME", Ok("shop/web-1")),
            ("$COL-READY", Ok("true")),
            ("$!COL-READY", Ok("false")),
            ("${!COL-READY}", Ok("false")),
            ("${COL-%CPU/L}", Ok("12")),
            ("${COL-NODE NAME}", Ok("node-1")),
            // A value is not expanded again.
            ("$FILTER", Ok("$NAME")),
            // Names that are left for the program.
            ("$HOME/$i $1 $$ 5$", Ok("$HOME/$i $1 $$ 5$")),
            ("$NAME-x", Ok("$NAME-x")),
            ("$CONTAINER", Err("unknown variable $CONTAINER")),
            ("$COL-NOPE", Err("unknown variable $COL-NOPE")),
            ("$INPUT_X", Err("unknown variable $INPUT_X")),
        ] {
            assert_eq!(variables().fill(text), filled.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn values_from_a_server_never_become_shell_code_con_16() {
        for (words, filled) in [
            (&["sh", "-c", "kubectl get $NAME -n $NAMESPACE"][..], Some("kubectl get web-1 -n shop")),
            (&["bash", "-lc", "echo $COL-EVIL"], None),
            (&["/bin/sh", "-c", "echo \"$COL-EVIL\""], None),
            (&["env", "X=1", "zsh", "-c", "echo ${COL-EVIL}"], None),
            (&["kubectl", "exec", "p", "--", "sh", "-c", "echo $COL-EVIL"], None),
            (&["python3", "-c", "print('$COL-EVIL')"], None),
            (&["pwsh", "-Command", "echo $COL-EVIL"], None),
            (&["perl", "-ne", "$COL-EVIL"], None),
            // As an argument it is data.
            (&["sh", "-c", "echo \"$0\"", "$COL-EVIL"], Some("$(reboot)")),
            (&["echo", "$COL-EVIL"], Some("$(reboot)")),
            (&["bash", "script.sh", "$COL-EVIL"], Some("$(reboot)")),
            (&["kubectl", "get", "$COL-OPTION"], None),
            (&["kubectl", "get", "--x=$COL-OPTION"], Some("--x=--all")),
            (&["kubectl", "get", "$COL-BELOW"], Some("-3")),
        ] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let found = variables().fill_words(&words);
            assert_eq!(
                found.as_ref().ok().and_then(|words| words.last()).map(String::as_str),
                filled,
                "{words:?}: {found:?}"
            );
        }
    }
}
