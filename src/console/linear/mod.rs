//! The console for users of screen readers (CON-20): no frames, no jumping cursor; each change is one plain line, and
//! its first word states the type of line. `docs/use/accessibility.md` lists these words.
//!
//! ```text
//!  Model ─► Reader (changes since the last read) ─► Speech ─► SpeechWriter ─► the user's terminal
//!              ├ page    a screen's drawing as lines, part by part, without frames
//!              ├ List    a table row by row (`console_data::list`)
//!              └ changes detects new lines of a page
//! ```
//!
//! Keys, commands, dialogs and screens are the same as in the drawn console: only the output differs. The results of
//! the user's actions are printed at once, even if they arrive later; other changes at most once a second.

mod changes;
mod page;
mod speech_writer;

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::model::Model;
use super::tour::TourText;
use super::view;
use console_data::context::{Context, ScreenId};
use console_data::list::List;
use console_data::resource::ClusterId;
use console_operations::dialog::Focus;
use console_operations::effect::Dialog;
use console_toolkit::command::Command;
use console_toolkit::text::{clean, counted};
use console_toolkit::theme::Theme;
use console_toolkit::toast::{Severity, Toast};
use page::{Page, PageLine};
pub use speech_writer::SpeechWriter;

/// The interval between announcements of changes that are not results of the user's actions.
const PACE: SignedDuration = SignedDuration::from_secs(1);
/// The maximum number of changed lines printed at once, unless they are the content of a view that the user opened;
/// further ones are counted.
const MAX_LINES: usize = 12;
/// The width of the page on which screens are drawn: enough for every column.
const WIDTH: u16 = 160;
/// The height of the page: longer content is scrolled, as on any screen.
const HEIGHT: u16 = 60;

/// Text to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speech {
    /// A whole line.
    Line(String),
    /// The present input line; an empty text ends the line.
    Typed(String),
}

/// Returns the console's content as lines, and remembers the printed ones, so that later lines state only changes.
#[derive(Debug, Default)]
pub struct Reader {
    screen: Option<ScreenId>,
    title: String,
    page: Page,
    list: Option<List>,
    banners: Vec<String>,
    /// The last text of the tour.
    tour: Option<TourText>,
    /// The numbers of tabs with a call for attention.
    calling: Vec<usize>,
    /// The time of the last announcement of changes that are not results of the user's actions.
    announced_at: Option<Timestamp>,
    /// The number of lines still to be read of the page that the user opened or turned to: its content may arrive later,
    /// in several steps.
    awaited_lines: usize,
    toasts: Vec<(Toast, Timestamp)>,
    dialog: Option<SpokenDialog>,
    prompt: Option<(char, String, Option<String>)>,
    typed: Option<String>,
    stopping: Option<String>,
    /// The next read prints the whole view.
    is_full_read: bool,
    /// The user has acted since the last read.
    has_user_acted: bool,
    greeted: bool,
}

/// An open dialog, as last printed.
#[derive(Debug)]
struct SpokenDialog {
    of: ScreenId,
    cluster: ClusterId,
    title: String,
    lines: Vec<String>,
    focus: Focus,
    focused: String,
}

impl Reader {
    /// Requests that the next read prints the whole view.
    pub fn read_whole_view(&mut self) {
        self.is_full_read = true;
    }

    /// Records a user action: its results are printed at once and completely.
    pub fn note_user_action(&mut self) {
        self.has_user_acted = true;
    }

    /// Returns the changes since the last call. If an announcement is delayed, the model's wake time is set to the time
    /// at which it is due.
    pub fn read(&mut self, model: &Model, now: Timestamp) -> Vec<Speech> {
        let mut speech = Vec::new();
        // An undrawn view does not change; an old wake time must not wake the loop again and again.
        model.shared.wake.set(None);
        let theme = Theme::linear();
        let shared = model.shared.context_of(model.top().0, now);
        let cx = Context { theme: &theme, ..shared };
        if let Some(at) = model.answer_due_at() {
            cx.redraw_at(at);
        }
        if !std::mem::replace(&mut self.greeted, true) {
            speech.push(Speech::Line(greeting(model)));
        }
        // The end of a command's input line is printed before its results.
        if model.prompt.is_none() {
            self.prompt(model, &mut speech);
        }
        self.stopping(model, &mut speech);
        self.banners(model, &cx, &mut speech);
        self.toasts(model, &mut speech);
        self.tour(model, &cx, &mut speech);
        if model.dialog.is_none() {
            self.screen(model, &cx, &mut speech);
        } else if self.typed.take().is_some() {
            speech.push(Speech::Typed(String::new()));
        }
        self.dialog(model, &cx, &mut speech);
        self.prompt(model, &mut speech);
        self.has_user_acted = false;
        speech
    }

    fn stopping(&mut self, model: &Model, speech: &mut Vec<Speech>) {
        if self.stopping != model.stopping {
            let lines = model.stopping.iter().flat_map(|text| text.lines());
            speech.extend(lines.map(|line| Speech::Line(format!("Stopping: {}", clean(line)))));
            self.stopping.clone_from(&model.stopping);
        }
    }

    fn banners(&mut self, model: &Model, cx: &Context<'_>, speech: &mut Vec<Speech>) {
        let banners = view::banners(model, cx);
        let banners = banners.iter().map(|banner| {
            page::one_line(WIDTH, |frame, area| {
                banner.draw(cx, frame, area);
            })
        });
        let banners: Vec<String> = banners.collect();
        let known: HashSet<String> = self.banners.iter().map(|line| changes::timeless(line)).collect();
        let new = banners.iter().filter(|line| !known.contains(&changes::timeless(line)));
        speech.extend(new.map(|line| Speech::Line(format!("Attention: {line}"))));
        if banners.is_empty() && !self.banners.is_empty() {
            speech.push(Speech::Line("Attention: all notices have ended".to_owned()));
        }
        self.banners = banners;
    }

    fn tour(&mut self, model: &Model, cx: &Context<'_>, speech: &mut Vec<Speech>) {
        let tour = model.tour.as_ref().filter(|tour| !tour.suspended);
        let panel = tour.map(|tour| tour.panel_text(cx.stores, cx.bindings));
        if let Some(new) = panel.as_ref().filter(|new| self.tour.as_ref() != Some(*new)) {
            let done = new.kubectl.as_ref().map(|kubectl| format!("Done: {}", clean(kubectl)));
            let next = format!("{}: {}", clean(&new.title), clean(&new.instruction));
            speech.extend(done.into_iter().chain([next]).map(Speech::Line));
        }
        self.tour = panel;
    }

    fn toasts(&mut self, model: &Model, speech: &mut Vec<Speech>) {
        let all: Vec<(Toast, Timestamp)> = model.toasts.iter().cloned().collect();
        for (toast, _) in all.iter().filter(|toast| !self.toasts.contains(toast)) {
            let label = match toast.severity {
                Severity::Done => "Done",
                Severity::Note | Severity::UnknownKey => "Note",
                Severity::Warning => "Warning",
                Severity::Failed => "Error",
            };
            speech.extend(toast.text.lines().map(|line| Speech::Line(format!("{label}: {}", clean(line)))));
        }
        self.toasts = all;
    }

    fn screen(&mut self, model: &Model, cx: &Context<'_>, speech: &mut Vec<Speech>) {
        let (id, screen) = model.top();
        let title = self.title_of(model, cx, speech);
        let opened = self.screen != Some(*id) || self.title != title;
        // A view that was visited before is not introduced again.
        let back = self.screen.is_some_and(|before| before > *id);
        let is_full_read = std::mem::take(&mut self.is_full_read);
        #[expect(clippy::disallowed_methods, reason = "the page shows the panic of a screen")]
        let list = super::terminal::contained(|| screen.list(cx)).unwrap_or_default();
        let page = Page::draw(WIDTH, HEIGHT, |frame: &mut Frame<'_>, area: Rect| {
            view::draw_screen(model, cx, frame, area);
        });
        #[expect(clippy::disallowed_methods, reason = "the page shows the panic of a screen")]
        let typed = super::terminal::contained(|| screen.typed()).unwrap_or_default();
        let begins = opened || is_full_read;
        if begins {
            // The input line of the previous view does not continue in this one.
            if self.typed.take().is_some() {
                speech.push(Speech::Typed(String::new()));
            }
            (self.screen, self.title) = (Some(*id), title.clone());
            if is_full_read {
                let header = page::one_line(WIDTH, |frame, area| view::draw_header(model, cx, frame, area));
                speech.push(Speech::Line(header));
            }
        }
        if let Some(list) = list {
            let before = self.list.take().filter(|_| !begins);
            self.read_list(before, list, &title, is_full_read, cx, speech);
        } else {
            self.list = None;
            if back && !is_full_read {
                self.page.lines.clone_from(&page.lines);
                self.awaited_lines = 0;
                speech.push(Speech::Line(format!("View: {title}")));
                self.page.selected = None;
            }
            self.read_page(page, &title, begins && (is_full_read || !back), typed.as_deref(), cx, speech);
        }
        if typed != self.typed {
            speech.push(Speech::Typed(typed.clone().unwrap_or_default()));
            self.typed = typed;
        }
    }

    /// Returns the view's title, with its tab if there are several; announces other tabs that call for attention.
    fn title_of(&mut self, model: &Model, cx: &Context<'_>, speech: &mut Vec<Speech>) -> String {
        let (id, screen) = model.top();
        let mut title = clean(&screen.title(cx)).into_owned();
        if id.cluster() != ClusterId::HOME {
            title = format!("{title}, in the context {}", clean(model.shared.cluster_name(id.cluster())));
        }
        let tabs = model.tab_titles(cx.now);
        let calling = tabs.iter().enumerate().filter(|(_, tab)| tab.calls);
        let calling: Vec<(usize, String)> =
            calling.map(|(index, tab)| (index + 1, clean(&tab.text).into_owned())).collect();
        let new = calling.iter().filter(|(number, _)| !self.calling.contains(number));
        speech.extend(new.map(|(number, text)| {
            Speech::Line(format!("Attention: something ended in tab {number}, {text}"))
        }));
        self.calling = calling.into_iter().map(|(number, _)| number).collect();
        match tabs.iter().position(|tab| tab.front) {
            Some(at) if tabs.len() > 1 => format!("{title}, tab {} of {}", at + 1, tabs.len()),
            _ => title,
        }
    }

    /// Reports whether changes that are not results of the user's actions can be announced now; if not, schedules a
    /// wake-up for them.
    fn is_time(&mut self, cx: &Context<'_>) -> bool {
        let next = self.announced_at.map(|at| at.saturating_add(PACE).unwrap_or(at));
        if let Some(next) = next.filter(|next| *next > cx.now) {
            cx.redraw_at(next);
            return false;
        }
        true
    }

    fn read_list(
        &mut self,
        before: Option<List>,
        list: List,
        title: &str,
        is_full_read: bool,
        cx: &Context<'_>,
        speech: &mut Vec<Speech>,
    ) {
        let Some(before) = before.filter(|before| before.is_of(&list)) else {
            speech.push(Speech::Line(format!("View: {title}, {}", list.count())));
            if is_full_read {
                speech.extend(list.rows.iter().take(usize::from(HEIGHT)).map(|row| Speech::Line(row.text())));
                let more = list.rows.len().saturating_sub(usize::from(HEIGHT));
                if more > 0 {
                    speech.push(Speech::Line(format!("and {}", counted(more, "more row"))));
                }
            }
            speech.extend(list.selected().map(Speech::Line));
            self.announced_at = Some(cx.now);
            self.list = Some(list);
            return;
        };
        if before.order != list.order {
            speech.push(Speech::Line(format!("Sorted: {}", list.order)));
            speech.extend(list.selected().map(Speech::Line));
        } else if before.chosen() != list.chosen() {
            speech.extend(list.selected().map(Speech::Line));
        }
        if before.marked != list.marked {
            speech.push(Speech::Line(format!("Marked: {}", list.marked)));
        }
        let news = list.news(&before);
        if news.is_empty() {
            self.list = Some(list);
        } else if self.is_time(cx) {
            announce(news, MAX_LINES, speech);
            self.announced_at = Some(cx.now);
            self.list = Some(list);
        } else {
            // The retained rows are those of the last announcement, so that the next one covers these changes, too. The
            // cursor, the marks and the order have been announced already.
            let chosen = list.chosen().cloned();
            self.list = Some(List { marked: list.marked, order: list.order, chosen, ..before });
        }
    }

    fn read_page(
        &mut self,
        page: Page,
        title: &str,
        begins: bool,
        typed: Option<&str>,
        cx: &Context<'_>,
        speech: &mut Vec<Speech>,
    ) {
        if begins {
            speech.push(Speech::Line(format!("View: {title}")));
            speech.extend(page.lines.iter().map(|line| Speech::Line(line.text.clone())));
            speech.extend(page.selected.iter().map(|line| selected(&line.text)));
            self.announced_at = Some(cx.now);
            self.awaited_lines = usize::from(HEIGHT);
            self.page = page;
            return;
        }
        let moved = page.selected != self.page.selected;
        if let Some(line) = page.selected.as_ref().filter(|_| moved) {
            let before = self.page.selected.as_ref().map(|line| changes::timeless(&line.news));
            if before != Some(changes::timeless(&line.news)) {
                // Without a user action, cells that change constantly are left out.
                speech.push(selected(if self.has_user_acted { &line.text } else { &line.news }));
            }
        }
        let typed_lines = [typed, self.typed.as_deref()];
        let is_typed = |line: &str| typed_lines.iter().flatten().any(|typed| is_line_of_text(line, typed));
        let is_typing = typed.is_some() && self.has_user_acted;
        let selected = page.selected.as_ref().map(|line| line.news.as_str());
        let new = if self.has_user_acted {
            changes::next_page(&self.page.lines, &page.lines)
        } else {
            changes::new_lines(&self.page.lines, &page.lines)
        };
        let news: Vec<String> = new
            .into_iter()
            .filter(|line| Some(line.news.as_str()) != selected || !moved)
            // Typed text is printed as it is typed, and it always changes the state in an editor's title.
            .filter(|line| !(is_typed(&line.news) || is_typing && line.is_edge))
            .map(|line| line.news.clone())
            .collect();
        let is_content_due = self.awaited_lines == usize::from(HEIGHT);
        if news.is_empty() {
            self.page = page;
        } else if typed.is_some() || self.has_user_acted || is_content_due || self.is_time(cx) {
            if typed != self.typed.as_deref() {
                speech.push(Speech::Typed(String::new()));
            }
            if typed.is_some() || self.has_user_acted {
                self.awaited_lines = usize::from(HEIGHT);
                speech.extend(news.into_iter().map(Speech::Line));
            } else {
                let lines = news.len();
                announce(news, MAX_LINES.max(self.awaited_lines), speech);
                self.awaited_lines = self.awaited_lines.saturating_sub(lines);
            }
            self.announced_at = Some(cx.now);
            self.page = page;
        } else {
            self.page.selected = page.selected;
        }
    }

    fn dialog(&mut self, model: &Model, cx: &Context<'_>, speech: &mut Vec<Speech>) {
        let Some((of, dialog)) = &model.dialog else {
            if self.dialog.take().is_some() {
                speech.push(Speech::Line("The question is closed".to_owned()));
            }
            return;
        };
        let cx = Context { theme: cx.theme, ..model.shared.context_of(*of, cx.now) };
        let (lines, focused) = (dialog.text_lines(&cx), dialog.focused());
        match &mut self.dialog {
            Some(spoken)
                if spoken.of == *of && spoken.cluster == of.cluster() && spoken.title == dialog.title =>
            {
                let before: Vec<PageLine> = spoken.lines.iter().cloned().map(PageLine::of).collect();
                let after: Vec<PageLine> = lines.iter().cloned().map(PageLine::of).collect();
                let news = changes::new_lines(&before, &after);
                // A focused field with input is announced once, not as a line of the dialog, too.
                let news = news.into_iter().filter(|line| !focused.ends_with(&line.text));
                speech.extend(news.map(|line| Speech::Line(line.text.clone())));
                if (spoken.focus, &spoken.focused) != (dialog.focus, &focused) {
                    speech.push(Speech::Line(focused.clone()));
                }
                (spoken.lines, spoken.focus, spoken.focused) = (lines, dialog.focus, focused);
            }
            _ => {
                speech.push(Speech::Line(format!("Question: {}", clean(&dialog.title))));
                speech.extend(lines.iter().map(|line| Speech::Line(line.clone())));
                speech.push(Speech::Line(keys_of(dialog)));
                speech.push(Speech::Line(focused.clone()));
                let title = dialog.title.clone();
                let cluster = of.cluster();
                self.dialog =
                    Some(SpokenDialog { of: *of, cluster, title, lines, focus: dialog.focus, focused });
            }
        }
    }

    fn prompt(&mut self, model: &Model, speech: &mut Vec<Speech>) {
        let now = model
            .prompt
            .as_ref()
            .map(|prompt| (prompt.kind.sign(), clean(&prompt.text).into_owned(), prompt.error.clone()));
        if now == self.prompt {
            return;
        }
        match &now {
            Some((sign, text, error)) => {
                let before = self.prompt.as_ref().and_then(|(_, _, error)| error.as_ref());
                if let Some(error) = error.as_ref().filter(|error| before != Some(error)) {
                    speech.push(Speech::Line(format!("Error: {}", clean(error))));
                }
                speech.push(Speech::Typed(format!("{sign}{text}")));
            }
            None => speech.push(Speech::Typed(String::new())),
        }
        self.prompt = now;
    }
}

/// Returns the first line: the cluster, and how to continue.
fn greeting(model: &Model) -> String {
    let ways =
        [(Command::Help, "keys"), (Command::Prompt, "commands"), (Command::Refresh, "reads the view again")];
    let ways = ways
        .iter()
        .filter_map(|(command, what)| Some(format!(", {} {what}", model.shared.bindings.key(*command)?)));
    format!("Podium, {}{}", clean(&model.setup.cluster), ways.collect::<String>())
}

/// Returns the line for the row under the cursor.
fn selected(line: &str) -> Speech {
    Speech::Line(format!("Selected: {}", line.trim()))
}

/// Returns the keys of a dialog in one line.
fn keys_of(dialog: &Dialog) -> String {
    let keys: Vec<String> = dialog.hints().iter().map(|(key, what)| format!("{key} {what}")).collect();
    format!("Keys: {}", keys.join(", "))
}

/// Reports whether a line of a page shows a line of typed text; an editor numbers its lines and marks those with problems.
fn is_line_of_text(line: &str, typed: &str) -> bool {
    let line: Vec<&str> = line.split_whitespace().collect();
    let typed: Vec<&str> = typed.split_whitespace().collect();
    let Some(before) = line.strip_suffix(typed.as_slice()) else { return false };
    match before {
        [] => true,
        [number] if !typed.is_empty() => {
            number.strip_suffix("failed:").unwrap_or(number).chars().all(|c| c.is_ascii_digit())
        }
        _ => false,
    }
}

/// Prints changes up to this number of lines, and counts the rest.
fn announce(news: Vec<String>, limit: usize, speech: &mut Vec<Speech>) {
    let more = news.len().saturating_sub(limit);
    speech.extend(news.into_iter().take(limit).map(Speech::Line));
    if more > 0 {
        speech.push(Speech::Line(format!("and {more} more")));
    }
}
