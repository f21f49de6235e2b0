//! The panes of the current tab: one, or two beside or below each other. If two do not fit, only the focused one is
//! shown, with a line that says so.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Wrap};

use crate::model::Model;
use crate::terminal::contained;
use console_data::context::{Context, ScreenId};
use console_data::workloads::{self, Workload};
use console_screens::{LiveScope, Screen};
use console_toolkit::command::Command;
use console_toolkit::text::{clean, fit};

use super::frame::{is_border, outermost, perimeter};

/// The areas of the panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panes {
    /// One pane.
    Alone(Rect),
    /// Two panes.
    Both {
        /// The area of the focused pane.
        focused: Rect,
        /// The area of the other pane.
        other: Rect,
    },
    /// Two panes, of which only one fits: its area, and that of the line that says so.
    Folded(Rect, Rect),
}

impl Panes {
    /// Lays out the panes of the current tab.
    pub(super) fn of(model: &Model, area: Rect) -> Self {
        let Some(split) = &model.split else { return Self::Alone(area) };
        match split.areas(area) {
            Some((first, second)) if split.in_second => Self::Both { focused: second, other: first },
            Some((first, second)) => Self::Both { focused: first, other: second },
            None => {
                let height = area.height.saturating_sub(1);
                Self::Folded(
                    Rect { height, ..area },
                    Rect { y: area.y + height, height: area.height - height, ..area },
                )
            }
        }
    }

    /// Returns the area of the focused pane.
    pub(super) fn focused(self) -> Rect {
        match self {
            Self::Alone(area) | Self::Folded(area, _) | Self::Both { focused: area, .. } => area,
        }
    }
}

pub(super) fn draw(model: &Model, now: Timestamp, frame: &mut Frame<'_>, panes: Panes) {
    let cx = model.shared.context_of(model.top().0, now);
    if let Some((_, at)) = model.split.as_ref().and_then(|split| split.due.as_ref()) {
        cx.redraw_at(*at);
    }
    draw_pane(model, model.top(), &cx, frame, panes.focused());
    model.shared.other_pane_area.set(None);
    match (panes, model.other_top()) {
        (Panes::Both { focused, other }, Some(shown)) => {
            model.shared.other_pane_area.set(Some(other));
            draw_pane(
                model,
                shown,
                &Context { focused: false, ..model.shared.context_of(shown.0, now) },
                frame,
                other,
            );
            if model.top().1.moment().is_none() {
                colour_as_focused(&cx, frame, focused);
            }
            // The focus is visible without colours, too.
            let style = cx.theme.body.accent.add_modifier(Modifier::BOLD);
            // A pane without a frame has its mark before the text.
            let has_frame = frame.buffer_mut()[(focused.x, focused.y)].symbol() != " ";
            let x = focused.x + u16::from(has_frame);
            frame.buffer_mut().set_stringn(x, focused.y, "▶", 1, style);
        }
        (Panes::Folded(_, line), Some((id, screen))) => {
            let key = cx.bindings.key(Command::PaneFocus).map(|key| key.to_string()).unwrap_or_default();
            let title = clean(&screen.title(&model.shared.context_of(*id, now))).into_owned();
            let width = usize::from(line.width);
            let text = fit(&format!(" folded, too small for two panes; {key}: {title}"), width).into_owned();
            frame.render_widget(Line::from(Span::styled(text, cx.theme.status.pending)), line);
        }
        _ => {}
    }
}

/// Gives the first frame of a pane the focus colour, unless a part of the screen already has it.
fn colour_as_focused(cx: &Context<'_>, frame: &mut Frame<'_>, pane: Rect) {
    let style = cx.theme.frame.focus;
    let buffer = frame.buffer_mut();
    let frames = outermost(buffer, pane);
    let has_focus = |frame: &Rect| {
        buffer.cell((frame.x, frame.y)).is_some_and(|cell| cell.fg == style.fg.unwrap_or_default())
    };
    if frames.iter().any(has_focus) {
        return;
    }
    let Some(first) = frames.first() else { return };
    for (x, y) in perimeter(*first) {
        if let Some(cell) = buffer.cell_mut((x, y)).filter(|cell| is_border(cell.symbol())) {
            cell.set_style(style);
        }
    }
}

/// Draws a pane: live, in the state when the server last responded, or at the point in time that it shows.
fn draw_pane(model: &Model, shown: &(ScreenId, Screen), cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let (_, screen) = shown;
    let moment = screen.moment();
    let mut theme = model.shared.theme.clone();
    if moment.is_some() {
        theme = theme.with_past_frame();
    }
    if !cx.focused {
        theme = theme.without_focus();
    }
    let cx = &Context { theme: &theme, ..*cx };
    let outage = cx.links.outage(cx.now).is_ok();
    let stale = if outage && moment.is_none() { stale_since(cx, screen) } else { None };
    match (stale, moment) {
        (Some(since), _) => {
            let cx = Context { now: since.min(cx.now), ..*cx };
            draw_stale(model, shown, &cx, frame, area);
        }
        (None, _) => draw_screen(model, shown, cx, frame, area),
    }
}

/// Returns the time since which the screen's data may be outdated.
fn stale_since(cx: &Context<'_>, screen: &Screen) -> Option<Timestamp> {
    // A table over several clusters may have both stale and live rows.
    if screen.over().is_some() {
        return None;
    }
    let links = cx.links;
    match screen.follows()? {
        // The table of all workloads is not stale while one of its kinds responds; the table reports the others.
        LiveScope::Kind(kind) if workloads::is(&kind.resource) => {
            let given = Workload::ALL.map(|one| one.kind().resource.clone());
            let given = given.iter().filter(|resource| links.refused(resource).is_none());
            given.map(|resource| links.down(resource)).collect::<Option<Vec<_>>>()?.into_iter().min()
        }
        LiveScope::Kind(kind) => links.down(&kind.resource),
        LiveScope::Cluster => links.silent_since(),
    }
}

/// Draws a screen in its state at that time: dimmed, with ages that do not advance.
fn draw_stale(
    model: &Model,
    displayed: &(ScreenId, Screen),
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    body: Rect,
) {
    let wake = model.shared.wake.get();
    draw_screen(model, displayed, cx, frame, body);
    // A stale screen requests no redraws.
    model.shared.wake.set(wake);
    frame.buffer_mut().set_style(body, model.shared.theme.body.dim.add_modifier(Modifier::DIM));
}

/// Draws a screen, or a note that drawing it failed; the next attempt follows the next key.
pub(super) fn draw_screen(
    model: &Model,
    displayed: &(ScreenId, Screen),
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    body: Rect,
) {
    let (id, screen) = displayed;
    let mut undrawn = model.shared.undrawn.borrow_mut();
    if !undrawn.iter().any(|(of, _)| of == id)
        && let Err(why) = contained(|| screen.view(cx, frame, body))
    {
        undrawn.push((*id, why));
    }
    if let Some((_, why)) = undrawn.iter().find(|(of, _)| of == id) {
        let lines = vec![
            Line::styled("this view cannot be drawn; the log has details", cx.theme.status.failed),
            Line::raw(clean(why).into_owned()),
            Line::styled("any key tries again, esc goes back", cx.theme.body.dim),
        ];
        frame.render_widget(Clear, body);
        let block = cx.theme.block_focused("");
        frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }).block(block), body);
    }
}
