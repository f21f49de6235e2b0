//! The events of the overview, newest first, with the number of events in the last minute.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Event;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;
use unicode_width::UnicodeWidthStr;

use super::list::{draw_empty, draw_row, framed, uncounted, waiting};
use super::{Overview, OverviewPanel};
use console_data::context::Context;
use console_data::rows::event;
use console_toolkit::text::{clean, fit_middle, pad};
use console_toolkit::widget::spark::spark;

/// Seconds covered by one bar of the sparkline.
const STEP: i64 = 5;
/// Number of bars: together the last minute.
const BARS: usize = 12;
/// Maximum number of events that are counted.
const MAX_EVENTS: usize = 2_000;

/// Draws the list; returns the index of the first visible row.
pub(super) fn draw(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) -> usize {
    let block = framed(overview, OverviewPanel::Events, cx, area.width, "Events", note(overview, cx));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !cx.stores.events().synced() {
        waiting::<Event>(cx, frame, inner);
        return 0;
    }
    let total = overview.events.len();
    if total == 0 {
        draw_empty(overview, cx, frame, inner, "nothing has happened yet");
        return 0;
    }
    let cursor = overview.event.as_ref().and_then(|uid| overview.events.position_of(uid)).unwrap_or(0);
    let height = usize::from(inner.height);
    let top = overview.windows[OverviewPanel::Events as usize].around(cursor, height, total).start;
    let rows: Vec<_> = (top..top + height)
        .map_while(|place| overview.events.at(place))
        .filter_map(|uid| cx.stores.events().get(uid))
        .collect();
    // The widths depend only on the screen: if they followed the visible events, each new one would shift the columns.
    let width = usize::from(inner.width);
    let columns =
        Columns { object: (width * 3 / 10).min(40), reason: if width >= 90 { 17 } else { 10 }, width };
    for (line, event) in rows.iter().enumerate() {
        let place = Rect { y: inner.y + line as u16, height: 1, ..inner };
        draw_row(
            overview,
            OverviewPanel::Events,
            top + line == cursor,
            cx,
            frame,
            place,
            columns.row(cx, event),
        );
    }
    top
}

/// Returns the events of the last minute as a sparkline, five seconds for each bar.
fn note<'a>(overview: &Overview, cx: &Context<'_>) -> Vec<Span<'a>> {
    if let Some(note) = uncounted::<Event>(overview, cx) {
        return vec![note];
    }
    // A point in time without a known clock time has no last minute.
    if !cx.is_time_known {
        return Vec::new();
    }
    let mut bars = [0_usize; BARS];
    let recent = overview.events.iter().take(MAX_EVENTS).filter_map(|uid| cx.stores.events().entry(uid));
    let now = cx.now.as_second();
    let mut count = 0;
    for at in recent.filter_map(|event| event.summary.last_seen) {
        // Bars are aligned to multiples of the step, so that they move on together and keep their heights.
        let back = now.div_euclid(STEP) - at.as_second().div_euclid(STEP);
        match usize::try_from(back.max(0)) {
            Ok(back) if back < BARS => bars[BARS - 1 - back] += 1,
            _ => break,
        }
        count += 1;
    }
    let theme = cx.theme;
    if count == 0 {
        return vec![Span::styled(" quiet ", theme.body.dim)];
    }
    let next = cx.now.saturating_add(SignedDuration::from_secs(STEP - now.rem_euclid(STEP)));
    cx.redraw_at(next.unwrap_or(cx.now));
    vec![
        Span::raw(" "),
        Span::styled(spark(&bars), theme.chart.full),
        Span::styled(format!(" {count} in the last minute "), theme.body.dim),
    ]
}

struct Columns {
    object: usize,
    reason: usize,
    width: usize,
}

impl Columns {
    fn row<'a>(&self, cx: &Context<'_>, event: &Event) -> Vec<Span<'a>> {
        let theme = cx.theme;
        let warning = event::is_warning(event);
        let age = event::last_seen(event).map(|at| cx.age(at)).unwrap_or_default();
        let count = event::count(event);
        let count = if count > 1 { format!(" ×{count}") } else { String::new() };
        let used = "119s ⚠ ".width() + 1 + self.object + 2 + self.reason + 2 + count.width();
        let message_width = self.width.saturating_sub(used);
        let message = event.message.as_deref().unwrap_or_default().replace('\n', " ");
        let (loud, body) = if warning {
            (theme.status.pending, Style::default())
        } else {
            (Style::default(), theme.body.dim)
        };
        let reason = clean(event.reason.as_deref().unwrap_or_default());
        vec![
            Span::styled(format!("{age:>5} "), theme.body.dim),
            Span::styled(if warning { "⚠ " } else { "  " }, theme.status.pending),
            Span::raw(format!("{}  ", pad(&fit_middle(&event::object(event), self.object), self.object))),
            Span::styled(format!("{}  ", pad(&reason, self.reason)), loud),
            Span::styled(pad(&clean(&message), message_width), body),
            Span::styled(count, theme.body.dim),
        ]
    }
}
