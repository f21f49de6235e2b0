//! The banner of a table over several contexts, if one has no rows or stale rows: the cluster, the start of its outage,
//! and the reason.

use jiff::SignedDuration;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::outage::end_of;
use crate::model::Model;
use console_data::clusters::Freshness;
use console_data::context::Context;
use console_screens::Screen;
use console_screens::table::State;
use console_toolkit::command::Command;
use console_toolkit::text::clean;

/// Interruptions shorter than this are not shown: most watches have recovered by then.
const STUMBLE: SignedDuration = SignedDuration::from_secs(1);

/// Returns the clusters to show; requests a redraw for the time when another cluster is due.
pub(super) fn of(model: &Model, cx: &Context<'_>) -> Vec<State> {
    let Screen::Table(table) = &model.top().1 else { return Vec::new() };
    let mut states = table.states(cx);
    states.retain(|state| match &state.fresh {
        Freshness::Live | Freshness::CatchingUp => false,
        Freshness::NotAllowed | Freshness::Absent => true,
        Freshness::Silent(since) => {
            let at = since.saturating_add(STUMBLE).unwrap_or(*since);
            cx.redraw_at(at);
            cx.now >= at
        }
    });
    states
}

pub(super) fn draw(states: &[State], cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let silent = states.iter().any(|state| matches!(state.fresh, Freshness::Silent(_)));
    let style = if silent { cx.theme.status.failed } else { cx.theme.status.pending };
    let style = style.add_modifier(Modifier::REVERSED | Modifier::BOLD);
    frame.render_widget(Line::styled(" ".repeat(usize::from(area.width)), style), area);
    let text = banner_text(states, silent, cx, usize::from(area.width));
    frame.render_widget(Line::from(Span::styled(text, style)), area);
}

/// Returns the text: all clusters first, then the reasons, as far as they fit.
fn banner_text(states: &[State], silent: bool, cx: &Context<'_>, width: usize) -> String {
    let all: Vec<String> = states
        .iter()
        .map(|state| {
            format!("{} {} {}", cx.theme.sign(state.fresh.glyph(), ""), clean(&state.name), state.label)
        })
        .collect();
    let key = cx.bindings.key(Command::Refresh).filter(|_| silent);
    let key = key.map(|key| format!(", trying again, {key} now")).unwrap_or_default();
    let mut text = format!(" {}{key}", all.join(" · "));
    let reasons = states.iter().filter_map(|state| Some((state, state.reason.as_deref()?)));
    for (state, why) in reasons {
        let left = width.saturating_sub(text.width() + 4);
        if left >= 16 {
            let name = if states.len() > 1 { format!("{}: ", clean(&state.name)) } else { String::new() };
            let reason = clean(why);
            text = format!("{text} · {name}{}", end_of(&reason, left.saturating_sub(name.width()).max(1)));
        }
    }
    text
}
