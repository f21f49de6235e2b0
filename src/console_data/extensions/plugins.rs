//! `plugins.yaml`, and files below `plugins/`: the user's programs with a key, in k9s' format.
//!
//! A file has plugins by name below `plugins:`, plugins by name at its top level, or a single plugin, which is named
//! after the file.

use std::collections::BTreeMap;

use manifest::{ConfigText, ManifestError};
use serde::Deserialize;
use serde_json::Value;

use super::program::{BackgroundReport, Program, ProgramTarget};
use super::shortcut::Scalar;
use super::variables::Variables;
use crate::catalogue::Catalogue;
use crate::resource::Kind;
use base::sort::CollectMap;
use console_toolkit::keys::Key;

/// The maximum number of inputs of a plugin, as in k9s.
const INPUTS: usize = 5;
/// The maximum number of plugins in a file.
const PLUGINS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PluginEntry {
    short_cut: Scalar,
    command: String,
    #[serde(default)]
    description: String,
    scopes: Vec<String>,
    #[serde(default)]
    args: Vec<Scalar>,
    #[serde(default, rename = "override")]
    overrides: bool,
    confirm: Option<bool>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    dangerous: bool,
    #[serde(default)]
    overwrite_output: bool,
    #[serde(default)]
    inputs: Vec<InputEntry>,
    #[serde(default)]
    pipes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputEntry {
    name: String,
    label: Option<String>,
    #[serde(rename = "type")]
    kind: InputKind,
    #[serde(default)]
    required: bool,
    default: Option<Scalar>,
    #[serde(default)]
    options: Vec<String>,
}

/// The type of an input.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum InputKind {
    /// Any text.
    String,
    /// A number.
    Number,
    /// Yes or no.
    Bool,
    /// One of the input's options.
    Dropdown,
}

/// A program of the user's that runs on an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// The name in the file.
    pub name: String,
    /// The description for the help.
    pub description: String,
    /// The key.
    pub key: Key,
    /// The key takes precedence over a command with the same key.
    pub overrides: bool,
    /// The kinds to which the plugin applies, or `all`.
    scopes: Vec<String>,
    /// Program and arguments, with variables.
    words: Vec<String>,
    /// The place where it runs.
    pub run_target: ProgramTarget,
    /// The user must confirm before it runs.
    pub confirms: bool,
    /// The plugin is refused in read-only mode.
    pub dangerous: bool,
    /// The inputs requested before it runs.
    pub inputs: Vec<Input>,
}

/// An input requested before a plugin runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The variable: `$INPUT_NAME`.
    pub variable: String,
    /// The label in the dialog.
    pub label: String,
    /// The type.
    pub kind: InputKind,
    /// The input must not be empty.
    pub required: bool,
    /// The default value.
    pub default: String,
    /// The options of a dropdown.
    pub options: Vec<String>,
}

impl Plugin {
    /// Reports whether the plugin applies to objects of this kind, or to a view with one of these names.
    pub fn is_for(&self, catalogue: &Catalogue, kind: &Kind, view: &[&str]) -> bool {
        self.scopes.iter().any(|scope| {
            let named =
                || catalogue.find_resource(scope).is_some_and(|found| found.resource == kind.resource);
            match view {
                [] => scope == "all" || named(),
                names => scope == "all" || names.contains(&scope.as_str()),
            }
        })
    }

    /// Returns the program with its variables filled in.
    pub fn program(&self, variables: &Variables) -> Result<Program, String> {
        let words = variables.fill_words(&self.words)?;
        // Uses the cluster that is shown, even if the console's own environment names another.
        let kubeconfig = variables.get("KUBECONFIG").filter(|path| !path.is_empty());
        let environment = kubeconfig.map(|path| ("KUBECONFIG".to_owned(), path.to_owned()));
        Ok(Program { words, environment: environment.into_iter().collect() })
    }
}

/// Parses a file; `stem` is its name without the extension. An invalid plugin does not hide the others.
pub(super) fn parse(text: &str, file: &str, stem: &str) -> (Vec<Plugin>, Vec<ManifestError>) {
    let text = match ConfigText::parse(text, file) {
        Ok(text) => text,
        Err(error) => return (Vec::new(), vec![error]),
    };
    let (at, all, mut errors) = match written(&text, stem) {
        Ok(read) => read,
        Err(error) => return (Vec::new(), vec![error]),
    };
    if all.len() > PLUGINS {
        return (Vec::new(), vec![text.fault("", format!("more than {PLUGINS} plugins"))]);
    }
    let mut plugins = Vec::new();
    for (name, written) in all {
        let place = match at {
            PluginLayout::Plugins => format!("plugins.{name}"),
            PluginLayout::Root => name.clone(),
            PluginLayout::Alone => String::new(),
        };
        match plugin(name, written) {
            Ok(plugin) => plugins.push(plugin),
            Err((field, why)) => {
                let field = format!("{place}.{field}");
                errors.push(text.fault(field.trim_start_matches('.'), why));
            }
        }
    }
    (plugins, errors)
}

/// The layout of a file: plugins below `plugins:`, plugins at the top level, or a single plugin.
enum PluginLayout {
    Plugins,
    Root,
    Alone,
}

/// The fields that show that a file is a single plugin: they are no names of plugins, since their values are no maps.
const FIELDS_OF_ONE: [&str; 4] = ["shortCut", "command", "scopes", "args"];

/// The layout of a file, its plugins by name, and the errors of those that cannot be decoded.
type WrittenPlugins = (PluginLayout, BTreeMap<String, PluginEntry>, Vec<ManifestError>);

fn written(text: &ConfigText, stem: &str) -> Result<WrittenPlugins, ManifestError> {
    let keys: BTreeMap<String, Value> = text.decode()?.unwrap_or_default();
    if keys.contains_key("plugins") {
        let (plugins, errors) = text.decode_entries(Some("plugins"));
        return Ok((PluginLayout::Plugins, plugins, errors));
    }
    if FIELDS_OF_ONE.iter().any(|field| keys.get(*field).is_some_and(|value| !value.is_object())) {
        let one: Option<PluginEntry> = text.decode()?;
        let plugins = one.map(|one| (stem.to_owned(), one)).collect_map();
        return Ok((PluginLayout::Alone, plugins, Vec::new()));
    }
    let (plugins, errors) = text.decode_entries(None);
    Ok((PluginLayout::Root, plugins, errors))
}

fn plugin(name: String, written: PluginEntry) -> Result<Plugin, (String, String)> {
    let wrong = |field: &str, reason: String| Err((field.to_owned(), reason));
    let key = match written.short_cut.key() {
        Ok(key) => key,
        Err(why) => return wrong("shortCut", why),
    };
    if written.command.trim().is_empty() {
        return wrong("command", "the program is required".to_owned());
    }
    if written.scopes.is_empty() {
        return wrong("scopes", "kinds are required; \"all\" means any".to_owned());
    }
    if !written.pipes.is_empty() {
        return wrong("pipes", "not supported; command: sh, args: [-c, \"… | …\"] does the same".to_owned());
    }
    if written.inputs.len() > INPUTS {
        return wrong("inputs", format!("more than {INPUTS}"));
    }
    let mut inputs: Vec<Input> = Vec::new();
    for (at, input) in written.inputs.into_iter().enumerate() {
        match read_input(input, &inputs) {
            Ok(input) => inputs.push(input),
            Err((field, why)) => return wrong(&format!("inputs[{at}].{field}"), why),
        }
    }
    let report = if written.overwrite_output { BackgroundReport::Output } else { BackgroundReport::Code };
    let words = std::iter::once(written.command).chain(written.args.into_iter().map(Scalar::text)).collect();
    Ok(Plugin {
        description: Some(written.description)
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| name.clone()),
        name,
        key,
        overrides: written.overrides,
        scopes: written.scopes.into_iter().map(|scope| scope.to_lowercase()).collect(),
        words,
        run_target: if written.background { ProgramTarget::Background(report) } else { ProgramTarget::Pane },
        confirms: written.confirm.unwrap_or(!inputs.is_empty()),
        dangerous: written.dangerous,
        inputs,
    })
}

fn read_input(input: InputEntry, before: &[Input]) -> Result<Input, (&'static str, String)> {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if input.name.is_empty() || !input.name.chars().all(is_name_char) {
        return Err(("name", format!("invalid name {:?}: use letters, digits, _ and -", input.name)));
    }
    let variable = format!("INPUT_{}", input.name.to_uppercase());
    if before.iter().any(|known| known.variable == variable) {
        return Err(("name", format!("duplicate name {:?}", input.name)));
    }
    let default = input.default.map(Scalar::text).unwrap_or_default();
    match input.kind {
        InputKind::Dropdown if input.options.is_empty() => return Err(("options", "required".to_owned())),
        InputKind::Dropdown if !default.is_empty() && !input.options.contains(&default) => {
            return Err(("default", format!("{default:?} is not one of its options")));
        }
        InputKind::Bool if !matches!(default.as_str(), "" | "true" | "false") => {
            return Err(("default", format!("{default:?} is neither true nor false")));
        }
        InputKind::Number if !default.is_empty() && default.parse::<f64>().is_err() => {
            return Err(("default", format!("{default:?} is not a number")));
        }
        _ => {}
    }
    Ok(Input {
        variable,
        label: input.label.unwrap_or(input.name),
        kind: input.kind,
        required: input.required,
        default,
        options: input.options,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "plugins:
  fred:
    shortCut: Ctrl-L
    override: true
    overwriteOutput: false
    confirm: false
    dangerous: true
    description: Pod logs
    scopes: [po, apps/v1/deployments]
    command: kubectl
    background: false
    args: [logs, -f, $NAME, -n, $NAMESPACE, --tail, 10]
";

    #[test]
    fn a_file_is_whole_several_or_one_con_16() {
        let (plugins, errors) = parse(WHOLE, "p.yaml", "p");
        assert!(errors.is_empty(), "{errors:?}");
        let fred = &plugins[0];
        assert_eq!(
            (fred.name.as_str(), fred.description.as_str(), fred.run_target),
            ("fred", "Pod logs", ProgramTarget::Pane)
        );
        assert!(fred.overrides && fred.dangerous && !fred.confirms);
        assert_eq!(fred.key, Key::parse("ctrl-l").expect("a key"));
        let mut variables = Variables::default();
        for (name, value) in [("NAME", "a b"), ("NAMESPACE", "shop"), ("KUBECONFIG", "/k")] {
            variables.set(name, value);
        }
        let program = fred.program(&variables).expect("filled");
        assert_eq!(program.to_string(), "kubectl logs -f 'a b' -n shop --tail 10");
        assert_eq!(program.environment, [("KUBECONFIG".to_owned(), "/k".to_owned())]);
        let catalogue = Catalogue::default();
        for (kind, view, expected) in [
            ("pods", &[][..], true),
            ("deployments", &[], true),
            ("nodes", &[], false),
            ("pods", &["containers"], false),
        ] {
            let kind = catalogue.find(kind).expect("a kind");
            assert_eq!(fred.is_for(&catalogue, kind, view), expected, "{kind:?}");
        }

        let one = "shortCut: shift-s\ndescription: blee\nscopes: [all]\ncommand: duh\n";
        assert_eq!(parse(one, "bozo.yaml", "bozo").0[0].name, "bozo");
        let several = "a:\n  shortCut: a\n  scopes: [po]\n  command: x\nb:\n  shortCut: y\n  scopes: [po]\n  command: other\n  background: true\n";
        let (plugins, _) = parse(several, "p.yaml", "p");
        assert_eq!(plugins[1].run_target, ProgramTarget::Background(BackgroundReport::Code));
        assert_eq!(plugins.iter().map(|plugin| plugin.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(parse("", "p.yaml", "p").0.is_empty());
        // An invalid plugin hides no other, in either layout.
        for text in [
            several.to_owned() + "c: 5\nd:\n  shortCut: d\n",
            "plugins:\n".to_owned()
                + &several.lines().flat_map(|line| ["  ", line, "\n"]).collect::<String>()
                + "  c: 5\n  d: {shortCut: d}\n",
        ] {
            let (plugins, errors) = parse(&text, "p.yaml", "p");
            assert_eq!((plugins.len(), errors.len()), (2, 2), "{text}{errors:?}");
        }
    }

    #[test]
    fn errors_in_plugins_name_file_line_and_key_con_16() {
        let with = |line: &str| {
            format!("plugins:\n  x:\n    shortCut: a\n    scopes: [po]\n    command: c\n    {line}\n")
        };
        let inputs = |line: &str| with(&format!("inputs: [{{name: size, {line}}}]"));
        for (text, error) in [
            (
                with("comand: x"),
                "p.yaml:6:5: plugins.x.comand: unknown field \"comand\", did you mean command?",
            ),
            (
                "plugins:\n  x:\n    shortCut: a\n    command: c\n".into(),
                "p.yaml:2:3: plugins.x: missing field `scopes`",
            ),
            (
                "plugins:\n  x:\n    scopes: [po]\n    shortCut: Hyper-X\n    command: c\n".into(),
                "p.yaml:4:5: plugins.x.shortCut: no key \"Hyper-X\"",
            ),
            (with("pipes: [x]"), "p.yaml:6:5: plugins.x.pipes: not supported"),
            (with("args: [[]]"), "p.yaml:6:12: plugins.x.args[0]: data did not match"),
            (inputs("type: text"), "p.yaml:6:27: plugins.x.inputs[0].type: unknown variant \"text\""),
            (inputs("type: dropdown"), "p.yaml:6:14: plugins.x.inputs[0].options: required"),
            (
                inputs("type: number, default: x"),
                "p.yaml:6:41: plugins.x.inputs[0].default: \"x\" is not a number",
            ),
            ("shortCut: a\nscopes: []\ncommand: c\n".into(), "p.yaml:2:1: scopes: kinds are required"),
        ] {
            let (plugins, errors) = parse(&text, "p.yaml", "p");
            assert!(plugins.is_empty(), "{text}");
            assert!(errors[0].to_string().starts_with(error), "{}\n{error}", errors[0]);
        }
    }
}
