//! The panel of the tour, above the footer, with the next task.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::model::Model;
use crate::tour::{TourStep, TourText};
use console_data::context::Context;
use console_toolkit::text::{clean, fit, wrapped};

/// On lower screens the panel is a line or two, without a frame.
const LOW: u16 = 18;

/// Maximum number of lines of a command; one that contains a manifest may be very long.
const COMMAND: usize = 2;

/// The content of the panel.
pub(super) struct Panel<'a> {
    title: String,
    lines: Vec<Line<'a>>,
    /// The commands that now apply to the tour.
    hint: &'static str,
    framed: bool,
}

impl Panel<'_> {
    /// Lays out the current panel for this area; `None` if no tour is running.
    pub(super) fn of(model: &Model, cx: &Context<'_>, area: Rect) -> Option<Self> {
        let tour = model.tour.as_ref().filter(|tour| !tour.suspended)?;
        let TourText { title, instruction: what, kubectl } = tour.panel_text(cx.stores, cx.bindings);
        let framed = area.height >= LOW;
        let width = usize::from(area.width).saturating_sub(if framed { 4 } else { 1 });
        let theme = cx.theme;
        let mut lines: Vec<Line<'_>> = Vec::new();
        if framed {
            if let Some(kubectl) = &kubectl {
                let columns = width.saturating_sub(2);
                let mut parts = wrapped(&clean(kubectl), columns);
                if parts.len() > COMMAND {
                    parts.truncate(COMMAND);
                    if let Some(last) = parts.last_mut() {
                        *last = fit(&format!("{last} …"), columns).into_owned();
                    }
                }
                for (at, part) in parts.into_iter().enumerate() {
                    let lead = if at == 0 { "✔ " } else { "  " };
                    let lead = Span::styled(lead, theme.toast.done);
                    lines.push(Line::from(vec![lead, Span::styled(part, theme.body.dim)]));
                }
            }
            lines.extend(wrapped(&clean(&what), width).into_iter().map(Line::raw));
        } else {
            // `:tour` on a larger screen shows the full text.
            let mut rows = wrapped(&clean(&format!("{title}: {what}")), width);
            rows.truncate(3);
            lines.extend(rows.into_iter().map(|row| Line::styled(format!(" {row}"), theme.body.accent)));
        }
        let is_over = tour.step == TourStep::Over;
        let hint = if is_over { " :tour closes this " } else { " :tour pauses, :tour stop ends " };
        Some(Self { title, lines, hint, framed })
    }

    pub(super) fn height(&self) -> u16 {
        self.lines.len() as u16 + if self.framed { 2 } else { 0 }
    }

    pub(super) fn draw(self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let panel = Paragraph::new(self.lines);
        if !self.framed {
            return frame.render_widget(panel, area);
        }
        let hint = Line::styled(self.hint, cx.theme.body.dim).right_aligned();
        frame.render_widget(panel.block(cx.theme.block_focused(self.title).title_bottom(hint)), area);
    }
}
