//! Draws a terminal pane: the emulator's screen in a frame with key hints and the outcome.

use ratatui::Frame;
use ratatui::layout::{Margin, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Paragraph, Wrap};

use super::{Terminal, TerminalStage};
use crate::View;
use console_data::context::Context;
use console_operations::effect::TerminalPurpose;
use console_operations::pane::widget::TerminalView;
use console_operations::pane::{PaneInput, PaneSize, StartProgress};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, fit, fit_parts};

/// Draws the pane. No other draw function has an effect outside of the console: this one sends the new size to the
/// container.
pub(super) fn draw(terminal: &Terminal, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let emulator_title = clean(terminal.emulator.borrow().title()).into_owned();
    let mut title = format!("{} · {}", super::purpose_label(terminal.purpose), terminal.pod.name);
    if !terminal.container.is_empty() {
        title = format!("{title} · {}", terminal.container);
    }
    if !emulator_title.is_empty() {
        title = format!("{title} · {emulator_title}");
    }
    let width = usize::from(area.width).saturating_sub(6);
    let (hint, hint_style) = terminal.hint(cx);
    let live = matches!(terminal.stage, TerminalStage::Open { .. });
    let border = if live { cx.theme.terminal.frame } else { cx.theme.frame.border };
    let block = Block::new()
        .borders(Borders::ALL)
        .border_type(BorderType::Rounded)
        .border_style(border)
        .title(Span::styled(format!(" {} ", fit(&title, width)), cx.theme.frame.title))
        .title_bottom(
            Line::styled(format!(" {} ", fit_parts(hint.split(" · "), " · ", width)), hint_style)
                .right_aligned(),
        );
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if inner.is_empty() {
        return;
    }
    let size = PaneSize { rows: inner.height, columns: inner.width };
    if terminal.emulator.borrow_mut().resize(size.rows, size.columns) {
        terminal.send(PaneInput::Resize(size));
    }
    match &terminal.stage {
        TerminalStage::Open { .. } => {
            let emulator = terminal.emulator.borrow();
            frame.render_widget(TerminalView::new(&emulator).style(cx.theme.body.text).cursor(true), inner);
        }
        TerminalStage::Over(outcome) if terminal.emulator.borrow().text().trim().is_empty() => {
            let text = vec![
                Line::default(),
                Line::styled(format!("✖ {}", clean(&outcome.text())), cx.theme.status.failed),
            ];
            frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), indented(inner));
        }
        TerminalStage::Over(_) => {
            let emulator = terminal.emulator.borrow();
            frame.render_widget(TerminalView::new(&emulator).style(cx.theme.body.text), inner);
        }
        TerminalStage::Asking => {}
        TerminalStage::Starting(progress) => {
            frame.render_widget(
                Paragraph::new(start_lines(cx, progress)).wrap(Wrap { trim: false }),
                indented(inner),
            );
        }
    }
}

impl Terminal {
    /// Returns the line in the lower border: key hints, or the outcome.
    fn hint(&self, cx: &Context<'_>) -> (String, Style) {
        let key = |command| cx.bindings.key(command).map(|key| key.to_string()).unwrap_or_default();
        let detach = key(Command::TerminalDetach);
        let scrolled = self.emulator.borrow().scrolled();
        match &self.stage {
            TerminalStage::Asking => ("esc back".to_owned(), cx.theme.terminal.hint),
            TerminalStage::Starting(_) => {
                let cancel = cx.bindings.key_in(Command::TerminalDetach, KeyContext::TerminalStarting);
                let hint = cancel.map(|key| format!("{key} cancel")).unwrap_or_default();
                (hint, cx.theme.terminal.hint)
            }
            TerminalStage::Open { .. } if scrolled > 0 => (
                format!(
                    "▲ {scrolled} lines back · {} down · any key returns",
                    key(Command::TerminalScrollDown)
                ),
                cx.theme.terminal.hint,
            ),
            TerminalStage::Open { stdin: false, .. } => {
                (format!("read only: the container has no stdin · {detach} detach"), cx.theme.terminal.hint)
            }
            TerminalStage::Open { tty: false, .. } => {
                (format!("no terminal: the container has no tty · {detach} detach"), cx.theme.terminal.hint)
            }
            // A program that was running before the attach has already printed its prompt, so that the pane is blank.
            TerminalStage::Open { .. }
                if matches!(self.purpose, TerminalPurpose::Attach | TerminalPurpose::Debug)
                    && self.is_blank() =>
            {
                (format!("no prompt? press enter · {detach} detach"), cx.theme.terminal.hint)
            }
            TerminalStage::Open { .. } => (
                format!(
                    "{detach} detach · {} end · {} scroll back",
                    key(Command::TerminalEnd),
                    key(Command::TerminalScrollUp)
                ),
                cx.theme.terminal.hint,
            ),
            TerminalStage::Over(outcome) => {
                let style = if outcome.is_good() { cx.theme.toast.done } else { cx.theme.toast.failed };
                let glyph = if outcome.is_good() { "✔" } else { "✖" };
                let keys = [Command::TerminalClose, Command::Retry].into_iter().filter_map(|command| {
                    let key = cx.bindings.key_in(command, KeyContext::TerminalEnded)?;
                    let entry = command.entry_in(&[KeyContext::TerminalEnded])?;
                    self.refuses(cx, command).is_none().then(|| format!(" · {key} {}", entry.short))
                });
                let hint = format!("{glyph} {}{}", clean(&outcome.text()), keys.collect::<String>());
                (hint, style)
            }
        }
    }
}

/// Returns the area of notices: indented from the border, including the continuation lines of wrapped ones.
fn indented(area: Rect) -> Rect {
    area.inner(Margin { horizontal: 2.min(area.width / 2), vertical: 0 })
}

/// Returns the text while a container starts.
fn start_lines(cx: &Context<'_>, progress: &StartProgress) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    match progress {
        StartProgress::Waiting { reason, message, trouble } => {
            let (glyph, style) =
                if *trouble { ("✖", cx.theme.status.failed) } else { ("◐", cx.theme.status.pending) };
            let head = if reason.is_empty() { "Starting" } else { reason };
            lines.push(Line::styled(format!("{glyph} {}", clean(head)), style));
            if !message.is_empty() {
                lines.push(Line::styled(clean(message).into_owned(), cx.theme.body.text));
            }
            if *trouble {
                lines.push(Line::default());
                lines.push(Line::styled(
                    "Still waiting; Kubernetes tries again by itself.",
                    cx.theme.body.dim,
                ));
            }
        }
        StartProgress::Running => lines.push(Line::styled("● Running, attaching", cx.theme.status.running)),
        StartProgress::Ended { exit_code, message } => lines.push(Line::styled(
            format!("✖ ended with exit code {exit_code}: {}", clean(message)),
            cx.theme.status.failed,
        )),
        StartProgress::PodFailed(why) => {
            lines.push(Line::styled(format!("✖ the pod failed: {}", clean(why)), cx.theme.status.failed));
        }
        StartProgress::PodDeleted => lines.push(Line::styled("✖ the pod is gone", cx.theme.status.failed)),
    }
    lines
}
