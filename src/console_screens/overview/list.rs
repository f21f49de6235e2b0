//! The common parts of the overview's lists: frame, cursor, truncated rows, and the text of empty lists.

use kube::Resource;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Block;
use unicode_width::UnicodeWidthStr;

use super::{Overview, OverviewPanel};
use console_data::context::Context;
use console_data::links::UnavailableReason;
use console_data::resource::ResourceKey;
use console_toolkit::text::{clean, fit, grouped};
use console_toolkit::widget::notice;
use console_toolkit::widget::wrap::fit_line;

/// Returns the frame of a list: its title, the filter if any, and a note on the right if it fits.
pub(super) fn framed<'a>(
    overview: &Overview,
    part: OverviewPanel,
    cx: &Context<'_>,
    width: u16,
    title: &str,
    note: Vec<Span<'a>>,
) -> Block<'a> {
    let theme = cx.theme;
    let block = if overview.part == part { theme.block_focused("") } else { theme.block("") };
    let mut left = vec![Span::styled(format!(" {title} "), theme.frame.title)];
    if !overview.query.is_empty() {
        let query = format!("/{} ", fit(&clean(&overview.query), 20));
        left.push(Span::styled(query, theme.status.pending));
    }
    let (left, note) = (Line::from(left), Line::from(note).right_aligned());
    let fits = left.width() + note.width() + 2 <= usize::from(width);
    let block = block.title_top(left);
    if fits { block.title_top(note) } else { block }
}

/// Draws the text for a kind whose list has not arrived: the list is being loaded, or the server refuses it.
pub(super) fn waiting<K: Resource<DynamicType = ()>>(cx: &Context<'_>, frame: &mut Frame<'_>, inner: Rect) {
    let text = cx
        .links
        .refused(&ResourceKey::of::<K>())
        .map_or("waiting for the first list…", UnavailableReason::label);
    notice::draw(text, cx.theme.body.dim, frame, inner);
}

/// Returns the number of objects of a type that were not counted; `None` if all were.
pub(super) fn uncounted<'a, K: Resource<DynamicType = ()>>(
    overview: &Overview,
    cx: &Context<'_>,
) -> Option<Span<'a>> {
    let count = overview.past.as_ref().map_or(0, |then| then.uncounted::<K>());
    let text = format!(" {} more not counted ", grouped(count as u64));
    (count > 0).then(|| Span::styled(text, cx.theme.status.pending))
}

/// Draws the text of an empty list, which says whether the filter is the reason.
pub(super) fn draw_empty(
    overview: &Overview,
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    inner: Rect,
    text: &str,
) {
    let text = if overview.query.is_empty() { text } else { "nothing matches; <esc> clears the filter" };
    notice::draw(text, cx.theme.body.dim, frame, inner);
}

/// Draws a row of a list; a long row is cut with `…`.
pub(super) fn draw_row(
    overview: &Overview,
    part: OverviewPanel,
    chosen: bool,
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
    spans: Vec<Span<'_>>,
) {
    let line = fit_line(Line::from(spans), usize::from(area.width));
    let chosen = chosen && overview.part == part;
    frame.render_widget(if chosen { cx.theme.chosen(line) } else { line }, area);
}

/// Draws the number of hidden rows of a list in its lower border.
pub(super) fn draw_hidden_count(cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect, hidden: usize) {
    if hidden > 0 && area.height > 2 {
        let text = format!(" {} more ", grouped(hidden as u64));
        let width = (text.width() as u16).min(area.width.saturating_sub(4));
        let place =
            Rect { x: area.right().saturating_sub(width + 2), y: area.bottom() - 1, width, height: 1 };
        frame.render_widget(Line::styled(text, cx.theme.body.dim), place);
    }
}
