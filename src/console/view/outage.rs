//! The banner of an outage: its duration, the time of the next retry, and the reason.

use std::borrow::Cow;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::model::Model;
use console_data::action::refused_credentials;
use console_data::clusters::ConnectionState;
use console_data::context::Context;
use console_data::links::Outage;
use console_toolkit::command::Command;
use console_toolkit::text::{age, clean, seconds_until, tail};

/// Causes of an outage of the whole server, and what the user can do about each, the longest text first.
const HINTS: [(&str, &[&str]); 5] = [
    (
        // Nothing listens at the address of the server.
        "connection refused",
        &["is the server running? start it again if not", "is the server running?", "is it running?"],
    ),
    ("no route to host", NETWORK),
    ("the network is unreachable", NETWORK),
    ("the connection timed out", NETWORK),
    // A server that ends; the next attempt tells more.
    ("it closed the connection", &["is the server running?", "is it running?"]),
];
const NETWORK: &[&str] = &["check the network between here and the server", "check the network"];

/// Returns the outage to show, if any; requests a redraw for the time when one is due.
pub(super) fn of(model: &Model, cx: &Context<'_>) -> Option<Outage> {
    // A table over several clusters shows the freshness of each.
    if model.top().1.over().is_some() {
        return None;
    }
    if let Some(ConnectionState::Silent { since, reason: why, retry_at }) =
        cx.clusters.get(cx.cluster).map(|of| of.reach)
    {
        let (since, why, retry_at) = (*since, why.clone(), *retry_at);
        return Some(Outage { resources: Vec::new(), since, retry_at, reason: why });
    }
    match cx.links.outage(cx.now) {
        Ok(outage) => Some(outage),
        Err(shown_at) => {
            if let Some(at) = shown_at {
                cx.redraw_at(at);
            }
            None
        }
    }
}

pub(super) fn draw(outage: &Outage, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    cx.redraw_in(1);
    let style = cx.theme.status.failed.add_modifier(Modifier::REVERSED | Modifier::BOLD);
    frame.render_widget(Line::styled(" ".repeat(usize::from(area.width)), style), area);
    let text = banner_text(outage, cx, usize::from(area.width));
    frame.render_widget(Line::from(Span::styled(text, style)), area);
}

/// Returns the end of a chain of causes in `columns`, starting at the first cause that fits in full.
pub(super) fn end_of(reason: &str, columns: usize) -> Cow<'_, str> {
    let starts = std::iter::once(0).chain(reason.match_indices(": ").map(|(at, colon)| at + colon.len()));
    let whole = starts.map(|at| &reason[at..]).find(|end| end.width() <= columns);
    whole.map_or_else(|| tail(reason, columns), Cow::Borrowed)
}

/// Returns what happened, that the console tries again, and what the user can do, the most important part first. Of the
/// reason, the end is shown as far as it fits, because the end says what happened.
fn banner_text(outage: &Outage, cx: &Context<'_>, width: usize) -> String {
    let elapsed = age(seconds_until(outage.since, cx.now));
    let kinds: Vec<String> = outage.resources.iter().map(|resource| resource.plural.to_string()).collect();
    let of = if kinds.is_empty() { String::new() } else { format!("{}: ", kinds.join(", ")) };
    let wait = match seconds_until(cx.now, outage.retry_at) {
        0 => "trying again".to_owned(),
        wait => format!("trying again in {wait} s"),
    };
    let key = cx.bindings.key(Command::Refresh).map(|key| format!(", {key} now")).unwrap_or_default();
    let sign = cx.theme.sign("✖ ", "");
    let mut reason = clean(&outage.reason);
    let refusal = refused_credentials(&reason).map(str::to_owned);
    let mut text = match &refusal {
        Some(refusal) => format!(" {sign}{of}{refusal}, {wait}"),
        None => format!(" {sign}{of}no answer for {elapsed}, {wait}{key}"),
    };
    if refusal.is_some() {
        reason = Cow::Borrowed("");
        if text.width() + key.width() <= width {
            text += &key;
        }
    }
    let origin = cx.clusters.get(cx.cluster).map(|cluster| clean(cluster.origin)).unwrap_or_default();
    if outage.resources.is_empty()
        && let Some((cause, hints)) = HINTS.iter().find(|(cause, _)| reason.ends_with(cause))
    {
        let with_cause = hints.iter().map(|hint| format!("{cause}: {hint}"));
        let mut texts = with_cause.chain(hints.iter().map(|hint| (*hint).to_owned()));
        let hint = texts.find(|hint| text.width() + 3 + hint.width() <= width);
        text = hint.map_or_else(|| text.clone(), |hint| format!("{text} · {hint}"));
        reason = Cow::Borrowed("");
    }
    for more in [reason, origin] {
        let left = width.saturating_sub(text.width() + 4);
        if left >= 12 && !more.is_empty() {
            text = format!("{text} · {}", end_of(&more, left));
        }
    }
    text
}
