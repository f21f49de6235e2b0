//! All keys that work on the screen below, from the command table; and the commands after `:`.

use std::borrow::Cow;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::View;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_operations::effect::Effect;
use console_toolkit::command::{Command, CommandImpact, Entry, KeyContext, PROMPT_WORDS};
use console_toolkit::search::Filter;
use console_toolkit::text::{clean, fit_parts, wrapped};
use console_toolkit::widget::notice;
use console_toolkit::widget::scroll::Scroll;

/// The help screen.
#[derive(Debug)]
pub struct Help {
    contexts: Vec<KeyContext>,
    /// The commands that apply to the selection and in this mode.
    offered: Vec<&'static Entry>,
    /// The user's plugins and hotkeys.
    own: Vec<UserCommand>,
    filter: Filter,
    scroll: Scroll,
}

/// A plugin or hotkey of the user that applies to the selection.
#[derive(Debug)]
pub struct UserCommand {
    /// Its key.
    pub keys: String,
    /// Its name.
    pub name: String,
    /// A short description.
    pub about: String,
    /// The built-in meaning that takes precedence for its key, if any.
    pub overridden_by: Option<&'static str>,
    /// True if it may change the cluster.
    pub changes: bool,
}

/// A line of the help before its layout.
struct HelpLine {
    keys: String,
    name: Cow<'static, str>,
    about: Cow<'static, str>,
    touches: CommandImpact,
}

/// Number of keys in the section for newcomers, at the top.
const BEGINNING: usize = 10;
/// Commands in that section in every view, in this order.
const ALWAYS: &[Command] =
    &[Command::Enter, Command::Back, Command::Prompt, Command::Filter, Command::OpenJournal, Command::Quit];
/// Candidates for the rest of that section: the first ones that apply to the view.
const IF_OFFERED: &[Command] = &[
    Command::Logs,
    Command::ShowPods,
    Command::ShowDeployments,
    Command::ShowNodes,
    Command::Describe,
    Command::Explain,
    Command::Delete,
    Command::Yaml,
    Command::PastBackMore,
    Command::SplitBeside,
    Command::OpenOverview,
    Command::TabNew,
    Command::ToggleHeader,
    Command::Refresh,
];

impl HelpLine {
    fn of(cx: &Context<'_>, entry: &Entry) -> Self {
        let keys = cx.bindings.keys(entry).iter().map(ToString::to_string);
        let keys = keys.collect::<Vec<_>>().join(" ");
        Self { keys, name: entry.name.into(), about: entry.about.into(), touches: entry.impact }
    }
}

/// Commands as lines of the help; commands that differ only by a number share a line.
fn lines_of(cx: &Context<'_>, entries: impl Iterator<Item = &'static Entry>) -> Vec<HelpLine> {
    let mut lines: Vec<HelpLine> = Vec::new();
    for entry in entries {
        let tip = HelpLine::of(cx, entry);
        match lines.last_mut().filter(|last| last.about == tip.about) {
            Some(line) => line.keys = join(&line.keys, &tip.keys),
            None => lines.push(tip),
        }
    }
    lines
}

/// Joins `1…8` and `9` to `1…9`.
fn join(first: &str, next: &str) -> String {
    let first = first.split('…').next().unwrap_or_default();
    if next.is_empty() { first.to_owned() } else { format!("{first}…{next}") }
}

impl Help {
    /// Creates the help for the contexts of the screen below, with its commands.
    pub fn new(mut contexts: Vec<KeyContext>, offered: Vec<&'static Entry>, own: Vec<UserCommand>) -> Self {
        if !contexts.contains(&KeyContext::Everywhere) {
            contexts.push(KeyContext::Everywhere);
        }
        Self { contexts, offered, own, filter: Filter::default(), scroll: Scroll::default() }
    }

    /// Returns the commands for newcomers, in display order.
    fn beginning(&self) -> Vec<&'static Entry> {
        let offered =
            |command: &Command| self.offered.iter().copied().find(|entry| entry.command == *command);
        let mut keys: Vec<&Entry> = ALWAYS.iter().filter_map(offered).collect();
        let remaining = BEGINNING.saturating_sub(keys.len());
        let here = IF_OFFERED.iter().filter_map(offered).take(remaining);
        // The view's commands come before those that leave it.
        let out = keys.iter().position(|entry| entry.command == Command::OpenJournal).unwrap_or(keys.len());
        keys.splice(out..out, here);
        keys
    }

    /// Returns the sections with their lines, for columns of this width.
    fn sections(&self, cx: &Context<'_>, width: usize) -> Vec<(&'static str, Vec<HelpLine>)> {
        let hit = |tip: &HelpLine| {
            self.filter.is_empty() || self.filter.matches(&format!("{} {} {}", tip.keys, tip.name, tip.about))
        };
        // During a search each key is listed only in its own section.
        let begin = if self.filter.is_empty() { self.beginning() } else { Vec::new() };
        let of_place = |place: &KeyContext| {
            let is_begin = |entry: &Entry| begin.iter().any(|first| first.command == entry.command);
            let offered = self.offered.iter().copied();
            let offered = offered.filter(|entry| entry.context == *place && !is_begin(entry));
            let tips = lines_of(cx, offered).into_iter().filter(&hit).collect();
            (place.title(), tips)
        };
        let mut sections: Vec<(&str, Vec<HelpLine>)> = self.contexts.iter().map(of_place).collect();
        let prompt_words = PROMPT_WORDS.iter().map(|known| HelpLine {
            keys: format!(":{} {}", known.name, known.rest).trim_end().to_owned(),
            name: known.name.into(),
            about: known.about.into(),
            touches: CommandImpact::Nothing,
        });
        let own = self.own.iter().map(|own| {
            let taken = own
                .overridden_by
                .map(|command| format!("; its key means {command} here, :plugin {} runs it", own.name));
            HelpLine {
                keys: own.keys.clone(),
                name: own.name.clone().into(),
                about: clean(&format!("{}{}", own.about, taken.unwrap_or_default())).into_owned().into(),
                touches: if own.changes { CommandImpact::Cluster } else { CommandImpact::Nothing },
            }
        });
        sections.insert(0, ("Yours", own.filter(&hit).collect()));
        let begin = begin.iter().map(|entry| {
            let tip = HelpLine::of(cx, entry);
            let clause = entry.about.split([':', ';', ',']).next().unwrap_or_default();
            // Each command gets one line: only its first clause is shown if the whole text does not fit.
            if tip.about.width() > width.saturating_sub(NARROW_KEYS + 6) {
                HelpLine { about: clause.into(), ..tip }
            } else {
                tip
            }
        });
        sections.insert(0, ("To begin with", begin.collect()));
        let aliases = cx.extensions.aliases().iter().map(|(word, stands_for)| HelpLine {
            keys: clean(&format!(":{word}")).into_owned(),
            name: word.clone().into(),
            about: clean(stands_for).into_owned().into(),
            touches: CommandImpact::Nothing,
        });
        sections.push(("Your words after :", aliases.filter(&hit).collect()));
        let kinds = [
            ("KIND", "A table of any kind: :po, :deploy, :cm"),
            ("KIND NAMESPACE", "The same in one namespace, or in all; -n NAMESPACE and -A too"),
            ("KIND /FILTER", "The same, filtered; -l LABEL=VALUE too"),
            ("COMMAND NAME", "A command on an object: :drain node-1, :scale web 3, :logs web-1"),
        ];
        let kinds = kinds.map(|(word, about)| HelpLine {
            keys: format!(":{word}"),
            name: word.into(),
            about: about.into(),
            touches: CommandImpact::Nothing,
        });
        sections.push(("After :", kinds.into_iter().chain(prompt_words).filter(hit).collect()));
        sections.retain(|(_, tips)| !tips.is_empty());
        sections
    }
}

/// Maximum width of the keys; longer ones get a line of their own.
const KEYS: usize = 20;
/// Minimum width of the keys, if there is space.
const NARROW_KEYS: usize = 16;

fn section<'a>(cx: &Context<'_>, title: &'a str, tips: Vec<HelpLine>, width: usize) -> Vec<Line<'a>> {
    let theme = cx.theme;
    // One long key must not shift the text of all others.
    let most = KEYS.min(width / 3);
    let keys = tips
        .iter()
        .map(|tip| tip.keys.width())
        .filter(|keys| *keys <= most)
        .max()
        .unwrap_or(0)
        .max(most.min(NARROW_KEYS));
    let about_width = width.saturating_sub(keys + 6).max(8);
    let mut lines = vec![Line::styled(format!(" {title}"), theme.frame.title)];
    for tip in tips {
        let mut about = wrapped(&tip.about, about_width).into_iter();
        if tip.keys.width() > keys {
            for part in wrapped(&tip.keys, width.saturating_sub(2).max(8)) {
                lines.push(Line::styled(format!(" {part}"), theme.help.key));
            }
        } else {
            let pad = " ".repeat(keys - tip.keys.width());
            lines.push(Line::from(vec![
                Span::styled(format!(" {pad}{}  ", tip.keys), theme.help.key),
                Span::raw(about.next().unwrap_or_default()),
            ]));
        }
        lines.extend(about.map(|part| Line::raw(format!(" {}  {part}", " ".repeat(keys)))));
        if tip.touches == CommandImpact::Cluster
            && let Some(line) = lines.last_mut()
        {
            let mark = cx.theme.sign(" ✎", ", changes the cluster");
            line.push_span(Span::styled(mark, theme.status.pending));
        }
    }
    lines.push(Line::default());
    lines
}

impl View for Help {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Help".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::List]
    }

    fn update(&mut self, _cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Command(command) => {
                self.scroll.command(command);
            }
            ScreenMessage::Mouse(event) => self.scroll.mouse(event),
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        let inner = theme.block("").inner(area);
        // A screen reader would read two columns as one line.
        let two = inner.width >= 100 && !theme.spoken;
        let width = if two { usize::from(inner.width) / 2 } else { usize::from(inner.width) };
        let sections: Vec<Vec<Line<'_>>> = self
            .sections(cx, width)
            .into_iter()
            .map(|(title, tips)| section(cx, title, tips, width))
            .collect();
        let total: usize = sections.iter().map(Vec::len).sum();
        let mut columns: [Vec<Line<'_>>; 2] = [Vec::new(), Vec::new()];
        for section in sections {
            let column = usize::from(two && columns[0].len() + section.len() / 2 > total.div_ceil(2));
            columns[column].extend(section);
        }
        // The empty line after the last section does not count.
        let longest = columns.iter().map(|lines| lines.len().saturating_sub(1)).max().unwrap_or(0);
        let height = usize::from(inner.height);
        let top = self.scroll.window(height, longest);

        let mut block = theme.block_focused("Keys");
        let hint: &[&str] = if cx.read_only {
            &["read-only: changing commands are hidden"]
        } else if theme.spoken {
            &["keys are set in console.toml"]
        } else {
            &["✎ changes the cluster", "keys are set in console.toml"]
        };
        let hint = fit_parts(hint, " · ", usize::from(area.width).saturating_sub(4));
        let hint = Line::styled(format!(" {hint} "), theme.body.dim);
        block = block.title_bottom(hint.right_aligned());
        if longest > height {
            let seen = format!(" {}–{} of {longest} ", top + 1, top + height);
            block = block.title_top(Line::styled(seen, theme.body.dim).right_aligned());
        }
        frame.render_widget(block, area);
        if total == 0 {
            let text = format!("nothing matches {:?}; <esc> clears the filter", self.filter.text());
            notice::draw(&text, theme.body.dim, frame, inner);
        }
        for (index, lines) in columns.into_iter().enumerate() {
            let place = Rect { x: inner.x + (index * width) as u16, width: width as u16, ..inner };
            if index == 0 || two {
                frame.render_widget(Paragraph::new(lines).scroll((top as u16, 0)), place);
            }
        }
    }

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        Ok(())
    }
}
