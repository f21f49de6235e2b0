//! The user's `console.toml`: theme, mouse, read-only mode, display, restored tabs, k9s files, usage thresholds, node
//! shells, and keys. Read once, strictly.
//!
//! ```toml
//! theme = "dusk"
//! mouse = false
//! read_only = true
//! linear = true
//! ascii = true
//! animations = false
//! notifications = false
//! restore_tabs = false
//! k9s = true
//! hyperlinks = false
//! [clusters]
//! "prod-*" = "red bold"
//! [node_shell]
//! image = "alpine"
//! [thresholds]
//! cpu = { warning = 70, critical = 90 }
//! [keys]
//! delete = ["ctrl-x"]
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ratatui::style::Style;
use toml::de::{DeTable, DeValue};

use base::did_you_mean::nearest;
use console_data::node_shell::NodeShell;
use console_data::thresholds::{Threshold, Thresholds};
use console_toolkit::command::{BindError, Bindings, Command, TABLE, UserKeys};
use console_toolkit::keys::Key;
use console_toolkit::theme::style_of;

/// The content of the file.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The initial theme.
    pub(crate) theme: Option<String>,
    /// The console captures the mouse.
    pub(crate) mouse: Option<bool>,
    /// Changes of the cluster are refused.
    pub(crate) read_only: bool,
    /// The console prints line by line instead of drawing (linear mode).
    pub(crate) linear: bool,
    /// Draws with ASCII only; by default if the locale is not UTF-8.
    pub(crate) ascii: Option<bool>,
    /// Changed cells flash; by default yes.
    pub(crate) animations: Option<bool>,
    /// Sends desktop notifications for results while the terminal does not have the focus; by default yes.
    pub(crate) notifications: Option<bool>,
    /// Restores the tabs of the last run.
    pub(crate) restore_tabs: bool,
    /// Prints URLs as hyperlinks; by default on terminals known to support them.
    pub(crate) hyperlinks: Option<bool>,
    /// Reads k9s' files in addition to the console's own.
    pub(crate) k9s: K9sConfig,
    /// Colours for cluster names, in order of precedence; `*` is a wildcard.
    pub(crate) clusters: Vec<(String, Style)>,
    /// The thresholds from which CPU and memory usage are highlighted.
    pub(crate) thresholds: Thresholds,
    /// The pods for shells on nodes.
    pub(crate) node_shell: NodeShell,
    /// Key bindings that replace the default ones.
    pub(crate) keys: UserKeys,
    /// Notes about names of earlier versions in the file: `motion is now animations`.
    pub(crate) renamed: Vec<String>,
}

/// The k9s files to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum K9sConfig {
    /// None.
    #[default]
    No,
    /// Those in k9s' default directory.
    Usual,
    /// Those in this directory.
    In(PathBuf),
}

impl K9sConfig {
    /// Returns the directory: k9s' own default unless one is configured.
    pub(crate) fn directory(&self, variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        match self {
            Self::No => None,
            Self::In(directory) => Some(match directory.strip_prefix("~") {
                Ok(below) => set("HOME")?.join(below),
                Err(_) => directory.clone(),
            }),
            Self::Usual => set("K9S_CONFIG_DIR")
                .or_else(|| Some(set("XDG_CONFIG_HOME")?.join("k9s")))
                .or_else(|| Some(set("HOME")?.join(".config/k9s"))),
        }
    }
}

/// The keys that the file may have.
const KEYS: [&str; 14] = [
    "theme", "mouse", "read_only", "linear", "ascii", "animations", "notifications", "restore_tabs",
    "hyperlinks", "k9s", "clusters", "thresholds", "node_shell", "keys",
];

/// The keys of earlier versions, which are still read, and the present ones.
const RENAMED: [(&str, &str); 4] = [
    ("motion", "animations"),
    ("notices", "notifications"),
    ("restore", "restore_tabs"),
    ("links", "hyperlinks"),
];

impl Default for Config {
    fn default() -> Self {
        Self {
            theme: None,
            mouse: None,
            read_only: false,
            linear: false,
            ascii: None,
            animations: None,
            notifications: None,
            restore_tabs: true,
            hyperlinks: None,
            k9s: K9sConfig::No,
            clusters: Vec::new(),
            thresholds: Thresholds::default(),
            node_shell: NodeShell::default(),
            keys: BTreeMap::new(),
            renamed: Vec::new(),
        }
    }
}

/// Reads `DIR/console.toml`; an absent file is not an error.
pub(crate) fn read(dir: Option<&Path>) -> Result<Config, String> {
    let Some(path) = dir.map(|dir| dir.join("console.toml")) else { return Ok(Config::default()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text).map_err(|(line, what)| format!("{}:{line}: {what}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn parse(text: &str) -> Result<Config, (usize, String)> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let document = DeTable::parse(text)
        .map_err(|error| (line(error.span().map_or(0, |span| span.start)), error.message().to_owned()))?;
    let mut config = Config::default();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    let mut read: BTreeSet<&str> = BTreeSet::new();
    for (key, value) in document.get_ref() {
        let at = line(value.span().start);
        let written: &str = key.get_ref();
        let name = match RENAMED.iter().find(|(old, _)| *old == written) {
            Some(&(old, new)) => {
                config.renamed.push(format!("{old} is now {new}"));
                new
            }
            None => written,
        };
        if !read.insert(name) {
            return Err((at, format!("{name} is set twice: in its old and its new spelling")));
        }
        match (name, value.get_ref()) {
            ("theme", DeValue::String(name)) => config.theme = Some(name.to_string()),
            ("mouse", DeValue::Boolean(on)) => config.mouse = Some(*on),
            ("read_only", DeValue::Boolean(on)) => config.read_only = *on,
            ("linear", DeValue::Boolean(on)) => config.linear = *on,
            ("ascii", DeValue::Boolean(on)) => config.ascii = Some(*on),
            ("animations", DeValue::Boolean(on)) => config.animations = Some(*on),
            ("notifications", DeValue::Boolean(on)) => config.notifications = Some(*on),
            ("restore_tabs", DeValue::Boolean(on)) => config.restore_tabs = *on,
            ("hyperlinks", DeValue::Boolean(on)) => config.hyperlinks = Some(*on),
            ("k9s", DeValue::Boolean(on)) => config.k9s = if *on { K9sConfig::Usual } else { K9sConfig::No },
            ("k9s", DeValue::String(directory)) => {
                config.k9s = K9sConfig::In(PathBuf::from(directory.as_ref()));
            }
            ("keys", DeValue::Table(table)) => {
                for (command, keys) in table {
                    let at = line(command.span().start);
                    let name: &str = command.get_ref();
                    let (known, place) = Command::named_with_context(name).ok_or_else(|| {
                        let near = nearest(name, TABLE.iter().map(|entry| entry.name));
                        let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                        (at, format!("[keys] unknown command {name:?}{hint}"))
                    })?;
                    let texts: Vec<&str> = match keys.get_ref() {
                        DeValue::String(one) => vec![one],
                        DeValue::Array(all) => all.iter().filter_map(|key| key.get_ref().as_str()).collect(),
                        _ => return Err((at, format!("{name} must be a list of keys, like [\"ctrl-x\"]"))),
                    };
                    let mut bound = Vec::new();
                    for text in texts {
                        bound.push(
                            Key::parse(text).ok_or_else(|| (at, format!("{name}: unknown key {text:?}")))?,
                        );
                    }
                    let present = known.name();
                    if name != present {
                        let scope = if place.is_some() { ", which has its keys in every view" } else { "" };
                        config.renamed.push(format!("[keys] {name} is now {present}{scope}"));
                    }
                    let last = lines.entry(present).or_default();
                    *last = at.max(*last);
                    if config.keys.insert((known, place), bound).is_some() {
                        return Err((at, format!("{present} is set twice: in its old and its new spelling")));
                    }
                }
            }
            ("clusters", DeValue::Table(table)) => {
                for (cluster, style) in table {
                    let at = line(cluster.span().start);
                    let name: &str = cluster.get_ref();
                    let text = style.get_ref().as_str().ok_or_else(|| {
                        (at, format!("[clusters] {name} must be a style in quotes, like \"red bold\""))
                    })?;
                    let style = style_of(text).map_err(|what| (at, format!("[clusters] {name}: {what}")))?;
                    config.clusters.push((name.to_owned(), style));
                }
            }
            ("thresholds", DeValue::Table(table)) => {
                config.thresholds = thresholds(table).map_err(|(at, what)| (line(at), what))?;
            }
            ("node_shell", DeValue::Table(table)) => {
                config.node_shell = NodeShell::read(table).map_err(|(at, what)| (line(at), what))?;
            }
            (known, _) if KEYS.contains(&known) => {
                return Err((at, format!("{name} has a value of the wrong type")));
            }
            _ => {
                let near = nearest(name, KEYS);
                let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                return Err((line(key.span().start), format!("unknown key {name:?}{hint}")));
            }
        }
    }
    Bindings::with(&config.keys).map_err(|error| {
        let BindError::Conflict { first, second, .. } = &error;
        // The later of the two lines causes the conflict; one of them may be a default binding.
        let at = [first, second].into_iter().filter_map(|name| lines.get(*name)).max();
        (at.copied().unwrap_or(1), error.to_string())
    })?;
    Ok(config)
}

/// Reads `cpu = { warning = 70, critical = 90 }` and the same for memory; absent values stay unchanged. Errors have a
/// byte offset in the text and a message.
fn thresholds(table: &DeTable<'_>) -> Result<Thresholds, (usize, String)> {
    let mut thresholds = Thresholds::default();
    for (resource, levels) in table {
        let at = resource.span().start;
        let name: &str = resource.get_ref();
        let threshold = match name {
            "cpu" => &mut thresholds.cpu,
            "memory" => &mut thresholds.memory,
            _ => {
                let near = nearest(name, ["cpu", "memory"]);
                let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                return Err((
                    at,
                    format!("[thresholds] unknown name {name:?}: only cpu and memory have thresholds{hint}"),
                ));
            }
        };
        let Some(levels) = levels.get_ref().as_table() else {
            let message = format!("[thresholds] {name} must be like {{ warning = 70, critical = 90 }}");
            return Err((at, message));
        };
        let Threshold { mut warning, mut critical } = *threshold;
        for (level, percent) in levels {
            let (at, known): (_, &str) = (level.span().start, level.get_ref());
            let number = percent.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
            let Some(number) = number else {
                let message = format!("[thresholds] {name}: {known} must be a whole number of percent");
                return Err((at, message));
            };
            match known {
                "warning" => warning = number,
                "critical" => critical = number,
                _ => {
                    let message = format!(
                        "[thresholds] {name}: unknown key {known:?}; the keys are warning and critical"
                    );
                    return Err((at, message));
                }
            }
        }
        *threshold =
            Threshold::new(warning, critical).map_err(|what| (at, format!("[thresholds] {name}: {what}")))?;
    }
    Ok(thresholds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use console_toolkit::command::KeyContext;

    #[test]
    fn files_of_k9s_are_read_only_if_configured_con_16() {
        for (text, set, found) in [
            ("", &[("HOME", "/h")][..], None),
            ("k9s = false", &[("HOME", "/h")], None),
            ("k9s = true", &[("HOME", "/h")], Some("/h/.config/k9s")),
            ("k9s = true", &[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")], Some("/x/k9s")),
            ("k9s = true", &[("XDG_CONFIG_HOME", "/x"), ("K9S_CONFIG_DIR", "/k")], Some("/k")),
            ("k9s = true", &[], None),
            ("k9s = \"/mine\"", &[("K9S_CONFIG_DIR", "/k")], Some("/mine")),
            ("k9s = \"~/mine\"", &[("HOME", "/h")], Some("/h/mine")),
        ] {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let config = parse(text).expect("good");
            assert_eq!(config.k9s.directory(variable), found.map(PathBuf::from), "{text} {set:?}");
        }
        assert_eq!(parse("hyperlinks = false").expect("good").hyperlinks, Some(false));
        assert_eq!(parse("k9s = 3").expect_err("3").1, "k9s has a value of the wrong type");
    }

    /// The documented example is valid and shows every key.
    #[test]
    fn the_documented_configuration_is_valid_and_complete_con_3() {
        let page = include_str!("../../docs/use/console-config.md");
        let example = page.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```"));
        let (example, _) = example.expect("an example of the file");
        let parsed = parse(example);
        assert!(parsed.is_ok(), "{parsed:?}");
        let document = DeTable::parse(example).expect("TOML");
        let shown: Vec<&str> = document.get_ref().iter().map(|(key, _)| key.get_ref().as_ref()).collect();
        let missing: Vec<_> = KEYS.iter().filter(|key| !shown.contains(key)).collect();
        assert!(missing.is_empty(), "{missing:?} are not documented");
    }

    #[test]
    fn keys_are_rebound_strictly_con_3() {
        let config =
            parse("theme = \"dusk\"\nread_only = true\n[keys]\ndelete = [\"ctrl-x\"]\n").expect("good");
        assert!(config.read_only && config.restore_tabs);
        assert!(!parse("restore_tabs = false\n").expect("good").restore_tabs);
        assert_eq!(config.theme.as_deref(), Some("dusk"));
        assert_eq!(config.keys[&(Command::Delete, None)], [Key::parse("ctrl-x").expect("a key")]);
        let coloured = parse("[clusters]\n\"prod-*\" = \"red bold\"\n").expect("good");
        assert_eq!(coloured.clusters[0].0, "prod-*");
        assert!(parse("[clusters]\na = \"no such colour\"\n").is_err());
        for (text, error) in [
            ("tehme = \"x\"\n", (1, "unknown key \"tehme\"; did you mean \"theme\"?")),
            ("ascii = 1\n", (1, "ascii has a value of the wrong type")),
            ("read_only = \"yes\"\n", (1, "read_only has a value of the wrong type")),
            ("[keys]\ndelet = \"x\"\n", (2, "[keys] unknown command \"delet\"; did you mean \"delete\"?")),
            ("[keys]\ndelete = \"hyper-x\"\n", (2, "delete: unknown key \"hyper-x\"")),
            (
                "[keys]\nwide = \"x\"\nlogs = \"f1\"\ndescribe = \"x\"\n",
                (4, "key x is bound to both describe and wide in Any table"),
            ),
            (
                "[clusters]\n\"prod-*\" = 3\n",
                (2, "[clusters] prod-* must be a style in quotes, like \"red bold\""),
            ),
            ("[keys]\ndelete = \"d\"\n", (2, "key d is bound to both describe and delete in Any table")),
        ] {
            let (line, what) = parse(text).expect_err(text);
            assert_eq!((line, what.as_str()), error);
        }
    }

    #[test]
    fn the_names_of_earlier_versions_are_still_read_and_reported_con_3() {
        let config = parse(
            "motion = false\nnotices = false\nrestore = false\nlinks = false\n[keys]\nclash-mine = \"x\"\n",
        )
        .expect("good");
        assert_eq!(
            (config.animations, config.notifications, config.restore_tabs, config.hyperlinks),
            (Some(false), Some(false), false, Some(false))
        );
        assert_eq!(config.keys[&(Command::ConflictMine, None)], [Key::parse("x").expect("a key")]);
        assert_eq!(config.renamed.len(), 5);
        for note in ["restore is now restore_tabs", "[keys] clash-mine is now conflict-mine"] {
            assert!(config.renamed.iter().any(|renamed| renamed == note), "{note}: {:?}", config.renamed);
        }
        assert!(parse("animations = true\n").expect("good").renamed.is_empty());
        // A view's own name of a command that is the same everywhere now still sets the keys of that view.
        let config =
            parse("[keys]\ntree-describe = \"x\"\ndescribe = \"f5\"\nversions-all = \"d\"\n").expect("good");
        let key = |text: &str| Key::parse(text).expect("a key");
        assert_eq!(config.keys[&(Command::Describe, Some(KeyContext::Tree))], [key("x")]);
        assert_eq!(config.keys[&(Command::Describe, None)], [key("f5")]);
        let bindings = Bindings::with(&config.keys).expect("no conflict");
        for (context, text, command) in [
            (KeyContext::Tree, "x", Some(Command::Describe)),
            (KeyContext::Tree, "f5", None),
            (KeyContext::Objects, "f5", Some(Command::Describe)),
            (KeyContext::Explain, "f5", Some(Command::Describe)),
            (KeyContext::Versions, "d", Some(Command::ShowAll)),
        ] {
            assert_eq!(bindings.command(&[context], key(text)), command, "{context:?} {text}");
        }
        let note = "[keys] tree-describe is now describe, which has its keys in every view";
        assert!(config.renamed.iter().any(|renamed| renamed == note), "{:?}", config.renamed);
        for both in ["motion = true\nanimations = true\n", "[keys]\npast-at = \"x\"\npast-go-to = \"x\"\n"] {
            assert!(parse(both).expect_err(both).1.contains("is set twice"), "{both}");
        }
    }

    #[test]
    fn thresholds_are_read_strictly_con_16() {
        let config = parse("[thresholds]\ncpu = { warning = 50, critical = 150 }\n").expect("good");
        assert_eq!(config.thresholds.cpu, Threshold::new(50, 150).unwrap());
        assert_eq!(config.thresholds.memory, Threshold::new(70, 90).unwrap(), "as k9s has it");
        // A table with only one of the two is valid.
        let config = parse("[thresholds.memory]\ncritical = 80\n").expect("good");
        assert_eq!(config.thresholds.memory, Threshold::new(70, 80).unwrap());
        for (text, line, what) in [
            ("thresholds = 3\n", 1, "thresholds has a value of the wrong type"),
            (
                "[thresholds]\nmem = 3\n",
                2,
                "[thresholds] unknown name \"mem\": only cpu and memory have thresholds",
            ),
            ("[thresholds]\ncpu = 80\n", 2, "[thresholds] cpu must be like { warning = 70, critical = 90 }"),
            (
                "[thresholds.cpu]\nwarning = \"x\"\n",
                2,
                "[thresholds] cpu: warning must be a whole number of percent",
            ),
            (
                "[thresholds.cpu]\nwarn = 3\n",
                2,
                "[thresholds] cpu: unknown key \"warn\"; the keys are warning and critical",
            ),
            (
                "[thresholds.cpu]\nwarning = 95\n",
                1,
                "[thresholds] cpu: warning (95) must be less than critical (90)",
            ),
            (
                "[thresholds]\ncpu = { critical = 0 }\n",
                2,
                "[thresholds] cpu: critical is a percentage from 1 to 1000, not 0",
            ),
            (
                "[thresholds.cpu]\nwarning = 99999999999999999999\n",
                2,
                "[thresholds] cpu: warning must be a whole number of percent",
            ),
        ] {
            let (at, found) = parse(text).expect_err(text);
            assert!(found.starts_with(what), "{text}: {found}");
            assert_eq!(at, line, "{text}");
        }
    }
}
