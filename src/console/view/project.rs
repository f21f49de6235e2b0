//! The banner of a project whose last build or apply failed (DEV-6): it stays until the next success.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;

use console_data::context::Context;
use console_toolkit::text::{clean, fit, pad};

pub(super) fn draw(failure: &str, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let width = usize::from(area.width);
    let sign = cx.theme.sign("✖ ", "");
    // The first line says what failed; the project's view has the rest.
    let text = format!(" {sign}{} · :project", clean(failure.lines().next().unwrap_or_default()));
    let style = cx.theme.status.failed.add_modifier(Modifier::REVERSED | Modifier::BOLD);
    frame.render_widget(Line::styled(pad(&fit(&text, width), width), style), area);
}
