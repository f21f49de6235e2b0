//! The screen without a verdict: the message of kube-scheduler's event or condition, split into its reasons.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::scheduler_event::{Reasons, SchedulerMessage, reasons};
use super::verdict::VerdictResponse;
use console_data::context::Context;
use console_toolkit::text::{clean, fit};
use console_toolkit::widget::gauge;

/// Width of the bar that shows the share of nodes with a reason.
const BAR: usize = 12;

/// Returns the scheduler's own message, line by line.
pub(super) fn lines(
    response: &VerdictResponse,
    message: Option<&SchedulerMessage>,
    cx: &Context<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    let theme = cx.theme;
    let mut lines = vec![Line::default()];
    if let Some(message) = message {
        let parts = reasons(&message.message);
        lines.extend(against(&parts, cx, width));
        if !parts.preemption.is_empty() {
            lines.push(Line::default());
            lines.push(Line::styled(format!("preemption: {}", clean(&parts.preemption)), theme.body.dim));
        }
        let age = message.at.map(|at| format!(", {} ago", cx.age(at))).unwrap_or_default();
        let times = if message.times > 1 { format!(", ×{}", message.times) } else { String::new() };
        lines.push(Line::default());
        lines.push(Line::styled(format!("from its {}{age}{times}", message.source), theme.body.dim));
    } else {
        lines.push(Line::styled("the scheduler has not reported it yet", theme.body.dim));
    }
    match response {
        VerdictResponse::NotServed => lines.push(Line::styled(
            "This cluster's scheduler does not name the nodes; Podium's does.",
            theme.body.dim,
        )),
        VerdictResponse::Failed(why) => {
            lines.push(Line::styled(format!("✖ {}", clean(why)), theme.status.failed));
        }
        VerdictResponse::Untried | VerdictResponse::Verdict(_) => {}
    }
    lines
}

/// Returns the reasons, each with its number of nodes.
fn against(parts: &Reasons, cx: &Context<'_>, width: usize) -> Vec<Line<'static>> {
    let theme = cx.theme;
    let digits =
        parts.against.iter().filter_map(|(number, _)| *number).max().unwrap_or(0).to_string().width();
    let most = parts.nodes.unwrap_or(0).max(1);
    let mut lines = Vec::new();
    if parts.nodes.is_some() {
        let heads = format!("{:>digits$} {} REASON", "", " ".repeat(BAR));
        lines.push(Line::styled(heads.replacen(' ', "#", 1), theme.table.header));
    }
    lines.extend(parts.against.iter().map(|(number, reason)| {
        let mut spans = Vec::new();
        let mut reason_width = width;
        if let Some(number) = number {
            spans.push(Span::styled(format!("{number:>digits$} "), theme.body.text));
            let share = *number as f64 / most as f64;
            spans.extend(gauge::bar(share, BAR, theme.status.failed, theme.chart.empty));
            spans.push(Span::raw(" "));
            reason_width = width.saturating_sub(digits + BAR + 2);
        }
        spans.push(Span::styled(fit(&clean(reason), reason_width).into_owned(), theme.body.text));
        Line::from(spans)
    }));
    lines
}
