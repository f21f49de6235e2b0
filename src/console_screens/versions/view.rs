//! Draws the versions, and below them the difference of the two compared ones; on a low screen only the list.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::VersionsScreen;
use super::version_list::VersionList;
use console_data::context::Context;
use console_data::point_in_time::clock;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::difference::LineChange;
use console_toolkit::text::{clean, counted, fit, grouped, pad};
use console_toolkit::widget::notice;
use console_toolkit::widget::title::title_line;

/// Height of the list with its frame if the difference is shown, too.
const LIST: u16 = 12;

pub(super) fn draw(screen: &VersionsScreen, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let count = screen.listed().len();
    let height = (count as u16).saturating_add(2).clamp(4, LIST);
    let list = height.min(area.height / 2).max(area.height.min(4));
    let [list, difference] = Layout::vertical([Constraint::Length(list), Constraint::Min(0)]).areas(area);
    draw_list(screen, cx, frame, list);
    draw_difference(screen, cx, frame, difference);
}

fn draw_list(screen: &VersionsScreen, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let theme = cx.theme;
    let mut title = vec![Span::styled(format!(" {} ", screen.target.describe()), theme.frame.title)];
    if let Some(list) = &screen.list {
        let (listed, all) = (screen.listed().len(), list.len());
        let versions = counted(all, "version");
        title.push(Span::styled(format!("{versions} "), theme.body.dim));
        if listed < all {
            let key = cx
                .bindings
                .key_in(Command::ShowAll, KeyContext::Versions)
                .map(|key| key.to_string())
                .unwrap_or_default();
            let hidden = format!("· {} of status only: {key} lists them ", grouped((all - listed) as u64));
            title.push(Span::styled(hidden, theme.status.pending));
        }
        if list.older > 0 {
            let older = format!("· {} older not shown ", grouped(list.older as u64));
            title.push(Span::styled(older, theme.status.pending));
        }
    }
    let mut block = theme.block_focused("").title_top(title_line(title, area.width));
    if let Some(why) = screen.failed.as_ref().filter(|_| screen.list.is_some()) {
        let title_width = usize::from(area.width).saturating_sub(6);
        let reason = fit(&clean(why), title_width).into_owned();
        block = block.title_bottom(Line::styled(format!(" ✖ {reason} "), theme.status.failed));
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let Some(list) = screen.list.as_ref().filter(|list| !list.is_empty()) else {
        let text = match (&screen.list, &screen.failed) {
            (_, Some(why)) => {
                return notice::draw(&format!("✖ {why}"), theme.status.failed, frame, inner);
            }
            (Some(_), None) => "the server's history has no changes of this object",
            (None, None) => "loading…",
        };
        return notice::draw(text, theme.body.dim, frame, inner);
    };
    let (width, height) = (usize::from(inner.width), usize::from(inner.height).max(1));
    let (cursor, listed) = (screen.at(), screen.listed());
    let place = listed.iter().position(|at| *at == cursor).unwrap_or(0);
    let visible = screen.window.around(place, height, listed.len());
    let shown = listed.iter().filter_map(|at| Some((*at, list.at(*at)?)));
    let lines = shown.skip(visible.start).take(visible.len()).map(|(at, version)| {
        let selected = at == cursor;
        let lead = match (screen.base == Some(version.moment.revision), selected) {
            (true, _) => "◆ ",
            (false, true) => "▸ ",
            (false, false) => "  ",
        };
        let (time, ago) = match version.moment.time {
            Some(time) => (clock(time), cx.age(time)),
            None => ("--:--:--".to_owned(), "?".to_owned()),
        };
        let head = format!("{time} {ago:>6}  ");
        let revision = format!("{:>8}  ", version.moment.revision);
        // On narrow screens the summary needs the width.
        let revision = if width >= 60 { revision } else { String::new() };
        let change = format!("{:<8}", version.change);
        let summary_width =
            width.saturating_sub(lead.chars().count() + head.len() + revision.len() + change.len());
        let line = Line::from(vec![
            Span::raw(lead),
            Span::styled(head, theme.body.dim),
            Span::styled(revision, theme.body.dim),
            Span::styled(
                change,
                match version.change {
                    "deleted" => theme.status.failed,
                    "created" => theme.status.running,
                    _ => theme.body.text,
                },
            ),
            Span::raw(pad(&clean(&version.summary), summary_width)),
        ]);
        if selected { theme.chosen(line) } else { line }
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);
}

fn draw_difference(screen: &VersionsScreen, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    if area.height < 3 {
        return;
    }
    let theme = cx.theme;
    let pair = screen.compared().zip(screen.list.as_ref());
    let name =
        |list: &VersionList, at: usize| list.at(at).map(|version| version.moment.short()).unwrap_or_default();
    let title = match pair {
        Some(((Some(from), to), list)) => format!("{} → {}", name(list, from), name(list, to)),
        Some(((None, to), list)) => format!("as it was at {}; earlier states are unknown", name(list, to)),
        None => String::new(),
    };
    let title_width = usize::from(area.width).saturating_sub(6);
    let block = theme.block(fit(&title, title_width).into_owned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let Some((pair, list)) = pair else { return };
    let height = usize::from(inner.height);
    let lines = list.difference(pair, |lines| {
        let top = screen.scroll.window(height, lines.len());
        let one = |(sign, line): &(LineChange, String)| {
            let text: String = clean(line).chars().skip(screen.scroll.left()).collect();
            Line::styled(format!("{} {text}", sign.mark()), theme.of_difference(*sign))
        };
        lines.iter().skip(top).take(height).map(one).collect::<Vec<_>>()
    });
    if lines.is_empty() {
        return frame.render_widget(Line::styled("no difference", theme.body.dim), inner);
    }
    frame.render_widget(Paragraph::new(lines), inner);
}
