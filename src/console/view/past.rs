//! The banner of a screen that shows the past: the time, and the way back (CON-19). It is attached to the screen, so
//! that the past is not mistaken for the present.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;
use unicode_width::UnicodeWidthStr;

use console_data::context::Context;
use console_data::point_in_time::{PointInTime, WayBack};
use console_toolkit::command::Command;
use console_toolkit::text::{fit, pad};

pub(super) fn draw(
    moment: PointInTime,
    back_target: WayBack,
    cx: &Context<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let width = usize::from(area.width);
    let key = |command| cx.bindings.key(command).map(|key| key.to_string()).unwrap_or_default();
    let back = format!("{} {}", key(Command::Back), back_target.hint());
    let steps = format!(
        "{} {} steps · nothing can be changed here",
        key(Command::PastBack),
        key(Command::PastForward)
    );
    // The time matters most, then the way back.
    let mut text = format!(" ◀ THE PAST: {}", moment.describe(cx));
    if text.width() + back.width() + 4 > width {
        text = format!(" ◀ THE PAST: {}", moment.short());
    }
    for more in [back, steps] {
        if text.width() + more.width() + 4 <= width {
            text = format!("{text} · {more}");
        }
    }
    let style = cx.theme.status.pending.add_modifier(Modifier::REVERSED | Modifier::BOLD);
    frame.render_widget(Line::styled(pad(&fit(&text, width), width), style), area);
}
