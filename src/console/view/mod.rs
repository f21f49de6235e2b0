//! Draws the model: header, top screen, footer, and the elements that float over them.
//!
//! ```text
//!  podium ▸ default ▸ Pods                3 nodes ● 3      42 pods ● 38 ◐ 2 ✖ 1        rev 1 204
//!  ▸1 Pods  │ 2! web-1 · shell                          (only with more than one tab)
//!  ✖ no answer for 12s, again in 4 s, ctrl-r now            (only while the server does not answer)
//!  ✖ qa no answer 12s, ctrl-r retries            (only over a table of several contexts, one of them silent)
//!  ✖ app: the build failed: exit status: 1 · :project   (only until `podium dev` succeeds again)
//!  ⚠ broken on purpose: Partition cut, 25s left            (only while a fault is in force)
//!  ◀ THE PAST: 12:03:05, 2m ago · esc returns to now    (only while a screen shows the past)
//! ╭ the top screen ──────────────────────────────────────────────────────────────────────────────╮
//! │                                                              toasts, in the corner it names   │
//! ╰─────────────────────────────────────────────── two of them where the tab is split ([`panes`]) ╯
//!  footer, or the prompt
//! ```

pub(crate) mod ascii;
mod contexts;
mod faults;
mod footer;
pub(crate) mod frame;
mod header;
pub(crate) mod links;
mod outage;
mod panes;
mod past;
mod project;
pub(crate) mod selection;
mod tabs;
mod toasts;
mod tour;

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use panes::Panes;

use super::model::Model;
use console_data::context::Context;
use console_data::links::Outage;
use console_data::point_in_time::{PointInTime, WayBack};
use console_operations::dialog;
use console_screens::ToastArea;
use console_screens::table::State;
use console_toolkit::text::clean;
use extension::fault::Fault;

/// The minimum size of the terminal: half of one with 80 columns.
pub(crate) const SMALLEST: (u16, u16) = (40, 10);

/// Draws everything.
pub fn draw(model: &Model, now: Timestamp, frame: &mut Frame<'_>) {
    let area = frame.area();
    let theme = &model.shared.theme;
    frame.render_widget(Block::new().style(theme.body.text), area);
    // A view that is not drawn does not change; the wake-up of the previous frame must not cause redraws for it.
    model.shared.wake.set(None);
    let cramped = area.width < SMALLEST.0 || area.height < SMALLEST.1;
    model.shared.cramped.set(cramped);
    if cramped {
        too_small(model, frame, area);
        return;
    }
    let (id, screen) = model.top();
    let cx = model.shared.context_of(*id, now);
    if let Some(at) = model.answer_due_at() {
        cx.redraw_at(at);
    }

    let bare = screen.full_screen();
    let head = u16::from(model.header && !bare);
    let bar = u16::from(model.tabs.count() > 1 && !bare);
    model.shared.tab_areas.borrow_mut().clear();
    model.shared.anchors.borrow_mut().clear();
    let banners = banners(model, &cx);
    let panel = tour::Panel::of(model, &cx, area).filter(|_| !bare);
    let [header, tab_bar, over, body, below, footer] = Layout::vertical([
        Constraint::Length(head),
        Constraint::Length(bar),
        Constraint::Length(banners.len() as u16),
        Constraint::Min(0),
        Constraint::Length(panel.as_ref().map_or(0, tour::Panel::height)),
        Constraint::Length(1),
    ])
    .areas(area);
    let panes = if bare { Panes::Alone(body) } else { Panes::of(model, body) };
    // Floating elements belong to the focused pane.
    let body = panes.focused();
    if head > 0 {
        header::draw(model, &cx, frame, header);
    }
    if bar > 0 {
        tabs::draw(model, &cx, frame, tab_bar);
    }
    panes::draw(model, now, frame, panes);
    if let Some(panel) = panel {
        panel.draw(&cx, frame, below);
    }
    for (banner, place) in banners.iter().zip(over.rows()) {
        banner.draw(&cx, frame, place);
    }
    if let Some(stopping) = &model.stopping {
        draw_stopping(stopping, &cx, frame, body);
    }
    let (toast_area, room) = match &model.dialog {
        Some((id, dialog)) => {
            let taken = dialog::draw(dialog, &model.shared.context_of(*id, now), frame, body);
            let below = body.bottom().saturating_sub(taken.bottom()).saturating_sub(1);
            (ToastArea::Bottom, Rect { y: taken.bottom(), height: below, ..body })
        }
        // Inside the screen's frame, so that its corners stay intact.
        None => (screen.toast_area(), Rect { y: body.y + 1, height: body.height.saturating_sub(2), ..body }),
    };
    toasts::draw(model.toasts.iter(), toast_area, &cx, frame, room);
    if let Some((_, dialog)) = &model.dialog {
        footer::draw_dialog(dialog, &cx, frame, footer);
    } else if model.prompt.is_some() {
        footer::draw_prompt(model, &cx, frame, footer, body);
    } else if bare {
        footer::draw_ways_back(&cx, frame, footer);
    } else {
        footer::draw_keys(model, &cx, frame, footer);
    }
}

/// A line above the screen that is shown while an unusual condition lasts.
#[derive(Debug)]
pub(crate) enum Banner<'a> {
    /// The server does not respond.
    Outage(Outage),
    /// Some of several clusters have no rows or stale rows.
    Contexts(Vec<State>),
    /// The last build of the project failed.
    Project(String),
    /// Faults are active.
    Faults(Vec<&'a Fault>),
    /// The screen shows the past.
    Past(PointInTime, WayBack),
}

impl Banner<'_> {
    pub(crate) fn draw(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        match self {
            Self::Outage(outage) => outage::draw(outage, cx, frame, area),
            Self::Contexts(states) => contexts::draw(states, cx, frame, area),
            Self::Project(failure) => project::draw(failure, cx, frame, area),
            Self::Faults(faults) => faults::draw(faults, cx, frame, area),
            Self::Past(moment, way_back) => past::draw(*moment, *way_back, cx, frame, area),
        }
    }
}

/// Returns the current banners, from the top.
pub(crate) fn banners<'a>(model: &Model, cx: &Context<'a>) -> Vec<Banner<'a>> {
    let faults = Some(faults::active(cx)).filter(|faults| !faults.is_empty()).map(Banner::Faults);
    let top = &model.top().1;
    let past = top.moment().map(|moment| Banner::Past(moment, top.back_target()));
    let contexts = Some(contexts::of(model, cx)).filter(|states| !states.is_empty()).map(Banner::Contexts);
    let outage = outage::of(model, cx).map(Banner::Outage);
    let project = cx.project.and_then(|project| project.failure()).map(Banner::Project);
    outage.into_iter().chain(contexts).chain(project).chain(faults).chain(past).collect()
}

pub(crate) fn draw_header(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    header::draw(model, cx, frame, area);
}

/// Draws only the focused screen.
pub(crate) fn draw_screen(model: &Model, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    panes::draw_screen(model, model.top(), cx, frame, area);
}

fn too_small(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = SMALLEST;
    let lines = vec![
        Line::styled("the terminal is too small", model.shared.theme.body.accent),
        Line::raw(format!("at least {width}×{height}, now {}×{}", area.width, area.height)),
        Line::raw("nothing is lost: make the window larger; until then keys do nothing (ctrl-c twice quits)"),
    ];
    let top = area.height.saturating_sub(lines.len() as u16) / 2;
    let place = Rect { y: area.y + top, height: area.height - top, ..area };
    frame.render_widget(Paragraph::new(lines).alignment(Alignment::Center).wrap(Wrap { trim: true }), place);
}

fn draw_stopping(text: &str, cx: &Context<'_>, frame: &mut Frame<'_>, body: Rect) {
    let rows = text.lines().count() as u16;
    let width = text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0) as u16 + 6;
    let width = width.clamp(30, body.width);
    let height = (rows + 4).min(body.height);
    let place =
        Rect { x: body.x + (body.width - width) / 2, y: body.y + (body.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let block = cx.theme.block_focused("Stopping").style(cx.theme.dialog.text);
    let mut lines: Vec<Line<'_>> = vec![Line::default()];
    lines.extend(text.lines().map(|line| Line::raw(clean(line).into_owned())));
    frame.render_widget(Paragraph::new(lines).block(block).alignment(Alignment::Center), place);
}
