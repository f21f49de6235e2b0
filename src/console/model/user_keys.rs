//! The user's own keys: plugins and hotkeys. They override a key with a meaning only if they say so, and never the
//! essential keys.

use jiff::Timestamp;

use super::{Job, Model, palette};
use console_data::action::{Action, Mutation, Outcome};
use console_data::contexts::Identity;
use console_data::extensions::{HotKey, Plugin, PluginRun, ProgramTarget, Variables};
use console_data::message::Message;
use console_data::resource::ObjectRef;
use console_operations::effect::Effect;
use console_operations::operations;
use console_screens::Screen;
use console_screens::help::UserCommand;
use console_screens::terminal::Terminal;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::keys::Key;
use console_toolkit::prompt::Prompt;
use console_toolkit::toast::Toast;

/// Commands with keys that cannot be overridden.
const RESERVED: [Command; 5] =
    [Command::Prompt, Command::Filter, Command::Help, Command::Back, Command::Quit];

/// Reports whether the user's key takes precedence over this command.
fn takes(overrides: bool, means: Option<Command>) -> bool {
    means.is_none_or(|command| overrides && !RESERVED.contains(&command))
}

impl Model {
    /// Executes a key of the user's; `None` if the user has no such key, or the key has another meaning here.
    pub(super) fn own_key(&mut self, key: Key, means: Option<Command>, now: Timestamp) -> Option<Vec<Job>> {
        // A program receives the cluster of the selection, and no other.
        let place = self.target_cluster(now);
        let mut is_one = false;
        let jobs = self.in_cluster(place, |model| {
            let jobs = model.run_own_key(key, means, now);
            is_one = jobs.is_some();
            jobs.unwrap_or_default()
        });
        is_one.then_some(jobs)
    }

    fn run_own_key(&mut self, key: Key, means: Option<Command>, now: Timestamp) -> Option<Vec<Job>> {
        if !self.key_contexts(now).contains(&KeyContext::Everywhere) {
            return None;
        }
        let extensions = self.shared.extensions.clone();
        let plugin = self.plugins_for_selection(extensions.plugins(), now);
        let plugin = plugin.into_iter().find(|plugin| plugin.key == key && takes(plugin.overrides, means));
        if let Some(plugin) = plugin {
            return Some(self.run_plugin(plugin, now));
        }
        let is = |hotkey: &&HotKey| hotkey.key == key && takes(hotkey.overrides, means);
        let hotkey = extensions.hotkeys().iter().find(is)?;
        Some(self.hotkey(hotkey, now))
    }

    fn plugins_for_selection<'a>(&self, plugins: &'a [Plugin], now: Timestamp) -> Vec<&'a Plugin> {
        let (id, screen) = self.top();
        let cx = self.shared.context_of(*id, now);
        let Some(object) = screen.selected(&cx) else { return Vec::new() };
        let view: &[&str] = match screen {
            Screen::Containers(_) => &["containers", "container", "co"],
            _ => &[],
        };
        plugins
            .iter()
            .filter(|plugin| plugin.is_for(&self.shared.cluster.catalogue, &object.kind, view))
            .collect()
    }

    /// Returns the plugins and hotkeys that work here, for the help.
    pub(super) fn own_keys(&self, now: Timestamp) -> Vec<UserCommand> {
        let contexts = self.key_contexts(now);
        let extensions = &self.shared.extensions;
        let taken = |key: Key, overrides: bool| {
            let means = self.shared.bindings.command(&contexts, key);
            means.filter(|_| !takes(overrides, means)).map(Command::name)
        };
        let plugins = self.plugins_for_selection(extensions.plugins(), now).into_iter();
        let plugins =
            plugins.filter(|plugin| !(plugin.dangerous && self.shared.read_only)).map(|plugin| UserCommand {
                keys: plugin.key.to_string(),
                name: plugin.name.clone(),
                about: plugin.description.clone(),
                overridden_by: taken(plugin.key, plugin.overrides),
                changes: plugin.dangerous,
            });
        let hotkeys = extensions.hotkeys().iter().map(|hotkey| UserCommand {
            keys: hotkey.key.to_string(),
            name: hotkey.name.clone(),
            about: hotkey.description.clone(),
            overridden_by: taken(hotkey.key, hotkey.overrides),
            changes: false,
        });
        plugins.chain(hotkeys).collect()
    }

    /// Returns the names of the plugins for the selection.
    pub(crate) fn plugin_names(&self, now: Timestamp) -> Vec<String> {
        let extensions = self.shared.extensions.clone();
        self.plugins_for_selection(extensions.plugins(), now)
            .into_iter()
            .map(|plugin| plugin.name.clone())
            .collect()
    }

    pub(super) fn run_plugin_called(&mut self, name: &str, now: Timestamp) -> Vec<Job> {
        let extensions = self.shared.extensions.clone();
        let here = self.plugins_for_selection(extensions.plugins(), now);
        if let Some(plugin) = here.into_iter().find(|plugin| plugin.name == name) {
            return self.run_plugin(plugin, now);
        }
        self.toast(Toast::failed(format!("no plugin {name:?} for the selection")), now);
        Vec::new()
    }

    fn run_plugin(&mut self, plugin: &Plugin, now: Timestamp) -> Vec<Job> {
        let name = &plugin.name;
        if plugin.dangerous && self.shared.read_only {
            self.toast(Toast::failed(format!("read-only: the plugin {name} is dangerous")), now);
            return Vec::new();
        }
        let (of, screen) = self.top();
        let (of, id) = (*of, self.top_screen_id());
        if let Some(moment) = screen.moment() {
            let message =
                format!("the plugin {name} is not possible in the past; this view shows {}", moment.short());
            self.toast(Toast::info(message), now);
            return Vec::new();
        }
        let Some(target) = screen.selected(&self.shared.context_of(of, now)) else { return Vec::new() };
        if let Some(why) = self.refuses_marks(name) {
            self.toast(Toast::info(why), now);
            return Vec::new();
        }
        let variables = self.variables(Some(&target), now);
        let effect = if plugin.confirms || !plugin.inputs.is_empty() {
            Effect::dialog(operations::plugin::dialog(plugin, target, variables))
        } else {
            match plugin.program(&variables) {
                Ok(program) => Effect::Run(Box::new(PluginRun {
                    name: name.clone(),
                    target,
                    program,
                    run_target: plugin.run_target,
                })),
                Err(why) => Effect::failed(format!("plugin {name}: {why}")),
            }
        };
        self.apply(id, vec![effect], now)
    }

    /// Returns the reason why a plugin or hotkey for the row under the cursor is refused while other rows are marked.
    fn refuses_marks(&self, name: &str) -> Option<String> {
        let Screen::Table(table) = &self.top().1 else { return None };
        let clear =
            self.shared.bindings.key(Command::ClearMarks).map(|key| key.to_string()).unwrap_or_default();
        table.has_other_marks().then(|| {
            format!(
                "{name} works on the row under the cursor, but others are marked; {clear} clears the marks"
            )
        })
    }

    /// Starts a plugin's program, and adds it to the journal.
    pub(super) fn start_run(&mut self, run: PluginRun, now: Timestamp) -> Vec<Job> {
        // The program's effect on the cluster is unknown.
        let mutation = Mutation::nothing();
        let (title, command) = (format!("started {}", run.title()), run.program.to_string());
        let action = Action::new(&run.target, title, command, mutation).quietly();
        let outcome = Outcome { action, error: None, after: None };
        let mut jobs = self.take(Message::ActionEnded(Box::new(outcome)), now);
        match run.run_target {
            ProgramTarget::Pane => jobs.extend(self.open(Terminal::of_program(run).into(), now)),
            ProgramTarget::Background(_) => jobs.push(Job::Run(Box::new(run))),
        }
        jobs
    }

    fn hotkey(&mut self, hotkey: &HotKey, now: Timestamp) -> Vec<Job> {
        let (id, screen) = self.top();
        let target = screen.selected(&self.shared.context_of(*id, now));
        if hotkey.command.contains('$')
            && let Some(why) = self.refuses_marks(&hotkey.name)
        {
            self.toast(Toast::info(why), now);
            return Vec::new();
        }
        let variables = self.variables(target.as_ref(), now);
        let ran = variables.fill(&hotkey.command).and_then(|text| Ok((self.parse_command(&text)?, text)));
        match ran {
            Ok((effects, text)) if hotkey.keeps_history => {
                self.remember(&text);
                let id = self.top_screen_id();
                self.apply(id, effects, now)
            }
            Ok((effects, text)) => self.run_prompt_text(&text, effects, now),
            Err(why) => {
                self.toast(Toast::failed(format!("hotkey {}: {why}", hotkey.name)), now);
                Vec::new()
            }
        }
    }

    /// Closes the prompt and executes its text.
    pub(super) fn end_prompt(&mut self, mut prompt: Prompt, text: &str, now: Timestamp) -> Vec<Job> {
        // Enter accepts the completion shown dim behind the cursor, unless the text is complete by itself.
        let meant = palette::completion(text, &prompt.suggestions).cloned();
        let (text, ran) = match (self.parse_command(text), meant) {
            (Err(_), Some(meant)) => (meant.clone(), self.parse_command(&meant)),
            (ran, _) => (text.to_owned(), ran),
        };
        match ran {
            Ok(effects) => self.run_prompt_text(&text, effects, now),
            Err(error) => {
                prompt.error = Some(error);
                self.prompt = Some(prompt);
                Vec::new()
            }
        }
    }

    /// Returns k9s' variables for the selection.
    fn variables(&self, target: Option<&ObjectRef>, now: Timestamp) -> Variables {
        let mut variables = Variables::default();
        let Identity { context, cluster, user, kubeconfig } = &self.identity;
        for (name, value) in
            [("CONTEXT", context), ("CLUSTER", cluster), ("USER", user), ("KUBECONFIG", kubeconfig)]
        {
            variables.set(name, value);
        }
        variables.set("GROUPS", "");
        let (id, screen) = self.top();
        if let Some(target) = target {
            variables.set("NAMESPACE", target.namespace.clone().unwrap_or_default());
            variables.set("NAME", &target.name);
            variables.set("RESOURCE_GROUP", &*target.kind.resource.group);
            variables.set("RESOURCE_VERSION", &*target.kind.resource.version);
            variables.set("RESOURCE_NAME", &*target.kind.resource.plural);
        }
        // As in k9s: without a filter it is the selected name.
        let filter = screen.query().filter(|query| !query.is_empty());
        let filter = filter.or_else(|| target.map(|target| target.name.as_str()));
        variables.set("FILTER", filter.unwrap_or_default());
        for (name, value) in screen.variables(&self.shared.context_of(*id, now)) {
            variables.set(&name, value);
        }
        variables
    }
}
