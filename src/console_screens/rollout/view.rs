//! The cockpit of a rollout: the old and the new side above a ruler with the limits, and the running deadline.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::{Progress, ReplicaSetProgress, Rollout, RolloutView, panels, revisions};
use console_data::context::Context;
use console_toolkit::text::{clean, fit, pad};
use console_toolkit::widget::gauge;
use console_toolkit::widget::notice;
use console_toolkit::widget::wrap::fit_line;

/// Width of the bar of the deadline.
const CLOCK: usize = 16;

/// Minimum height for the whole cockpit.
const LOW: u16 = 12;
/// Minimum width for two panels side by side.
const NARROW: u16 = 56;

pub(super) fn draw(rollout: &Rollout, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
    let Some(objects) = rollout.objects(cx) else {
        let block = cx.theme.block_focused(format!("Deployment {}", clean(&rollout.target.name)));
        let (text, style) = if cx.stores.deployments().synced() {
            (format!("✖ {} is gone", rollout.target.describe()), cx.theme.status.failed)
        } else {
            ("loading…".to_owned(), cx.theme.body.dim)
        };
        let inner = block.inner(area);
        frame.render_widget(block, area);
        return notice::draw(&text, style, frame, inner);
    };
    let view = RolloutView::of(objects.deployment, &objects.sets);
    let list = revisions(objects.deployment, objects.sets.iter().map(|(set, _)| *set));
    let most_sides = usize::from(area.height / 3).max(2);
    let mut cockpit = cockpit(cx, &view, usize::from(area.width).saturating_sub(4), most_sides);
    if area.height < LOW {
        // The result and the two sides matter most; the last line of the ruler is dropped first.
        cockpit.truncate(usize::from(area.height / 2).saturating_sub(1).max(1));
    }
    let height = u16::try_from(cockpit.len()).unwrap_or(u16::MAX).saturating_add(2);
    rollout.head.set(height.saturating_sub(1));
    let pods: usize = objects.sets.iter().map(|(_, pods)| pods.len()).sum();
    // The pods get a panel only if the others stay readable.
    let pods = u16::try_from(pods).unwrap_or(u16::MAX).saturating_add(2).min(area.height / 3);
    let pods = if area.height >= 30 && pods > 2 { pods } else { 0 };
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(3), Constraint::Length(pods)])
            .areas(area);

    let width = usize::from(area.width).saturating_sub(6);
    let mut title = heading(rollout, &view, "RollingUpdate ");
    if title.width() > width {
        title = heading(rollout, &view, "");
    }
    let block = cx.theme.block_focused(fit(&title, width).into_owned());
    let inner = block.inner(top);
    frame.render_widget(block, top);
    frame.render_widget(Paragraph::new(cockpit), inner);

    if area.width < NARROW {
        // One readable panel is better than two unreadable ones; the dialog of an undo shows the template anyway.
        panels::history(rollout, cx, &list, frame, middle);
    } else {
        let history_width = (area.width * 45 / 100).clamp(20, 60);
        let [left, right] =
            Layout::horizontal([Constraint::Length(history_width), Constraint::Min(10)]).areas(middle);
        panels::history(rollout, cx, &list, frame, left);
        panels::template(rollout, cx, &objects, &list, frame, right);
    }
    if pods > 0 {
        panels::pods(cx, &objects, &view, frame, bottom);
    }
}

/// Returns `Deployment web ─ revision 2 ── RollingUpdate surge 25% (1) …`, with or without the strategy's name.
fn heading(rollout: &Rollout, view: &RolloutView, rolling: &str) -> String {
    let revision = view.revision.map(|number| format!(" ─ revision {number}")).unwrap_or_default();
    let limits = &view.limits;
    let strategy = if limits.strategy == "Recreate" {
        "Recreate".to_owned()
    } else {
        format!(
            "{rolling}surge {} ({}) unavailable {} ({})",
            limits.surge_text, limits.surge, limits.unavailable_text, limits.unavailable
        )
    };
    format!("Deployment {}{revision} ── {strategy}", clean(&rollout.target.name))
}

/// The layout of the cockpit's columns.
struct Columns {
    name: usize,
    image: usize,
    /// Number of cells: one for each pod, or fewer on a scale.
    pods: usize,
    /// Number of pods that the cells represent.
    max_pods: usize,
}

fn cockpit(cx: &Context<'_>, view: &RolloutView, width: usize, most_sides: usize) -> Vec<Line<'static>> {
    let mut sides: Vec<(&str, &ReplicaSetProgress)> = Vec::new();
    sides.extend(view.new.as_ref().map(|side| ("new", side)));
    sides.extend(view.old.iter().map(|side| ("old", side)));
    let longest = |text: &dyn Fn(&ReplicaSetProgress) -> String| {
        sides.iter().map(|(_, side)| text(side).width()).max().unwrap_or(0)
    };
    let summary = longest(&|side| side.summary(cx.now)).max(24);
    let name = longest(&|side| side.name.clone()).clamp(10, (width / 4).max(10));
    // On a narrow screen the number of ready pods matters more than the image.
    let image = if width < usize::from(NARROW) { 0 } else { longest(&image_of).clamp(8, (width / 5).max(8)) };
    let most = usize::try_from(view.limits.max_total()).unwrap_or(0);
    let most = sides.iter().map(|(_, side)| side.pods.len()).max().unwrap_or(0).max(most).max(1);
    let pods_width = width.saturating_sub(4 + name + 1 + image + 2 + summary + 2).max(6);
    let columns = Columns { name, image, pods: most.min(pods_width), max_pods: most };
    let mut lines = vec![verdict(cx, view)];
    lines.extend(cause(cx, view));
    if sides.is_empty() {
        lines.push(Line::styled("no ReplicaSet yet", cx.theme.body.dim));
    }
    for (word, side) in sides.iter().take(most_sides) {
        lines.push(side_line(cx, word, side, &columns));
    }
    if sides.len() > most_sides {
        let more = sides.len() - most_sides;
        lines.push(Line::styled(format!("    and {more} older ones with pods"), cx.theme.body.dim));
    }
    lines.push(ruler(cx, view, &columns, width));
    lines.into_iter().map(|line| fit_line(line, width)).collect()
}

fn image_of(side: &ReplicaSetProgress) -> String {
    let first = side.images.first().cloned().unwrap_or_default();
    match side.images.len() {
        0 | 1 => first,
        more => format!("{first} +{}", more - 1),
    }
}

/// Returns the phase in one line, with the running deadline if there is one.
fn verdict(cx: &Context<'_>, view: &RolloutView) -> Line<'static> {
    let theme = cx.theme;
    match view.progress {
        Progress::Complete => Line::styled("✔ complete", theme.status.succeeded),
        Progress::Unobserved => {
            Line::styled("◌ waiting for the controller to see the change", theme.status.pending)
        }
        Progress::Paused => {
            Line::styled("‖ paused: nothing is rolled out until it is resumed", theme.status.pending)
        }
        Progress::Stuck => {
            let since = view.since.map(|since| format!(" for {}", cx.age(since))).unwrap_or_default();
            Line::styled(format!("✖ stuck{since}: deadline exceeded"), theme.status.failed)
        }
        Progress::Moving => {
            let bad = is_bad(view);
            let (words, style) = if bad {
                ("✖ stuck", theme.status.failed)
            } else {
                ("◐ in progress", theme.status.pending)
            };
            let mut spans = vec![Span::styled(words, style)];
            if let (Some(since), Some(_)) = (view.since, view.deadline) {
                next_second(cx);
                let elapsed = (cx.now.as_second() - since.as_second()).max(0);
                let share = elapsed as f64 / view.deadline_seconds.max(1) as f64;
                spans.push(Span::styled("   deadline ", theme.body.dim));
                spans.extend(gauge::bar(share, CLOCK, style, theme.chart.empty));
                let clock = format!(" {} of {}", clock(elapsed), clock(view.deadline_seconds));
                spans.push(Span::styled(clock, theme.restless(theme.body.text)));
            }
            Line::from(spans)
        }
    }
}

fn is_bad(view: &RolloutView) -> bool {
    view.cause.as_ref().is_some_and(|cause| cause.weight > 1) || view.failure.is_some()
}

/// Returns the reason why the new pods are not ready.
fn cause(cx: &Context<'_>, view: &RolloutView) -> Option<Line<'static>> {
    if view.progress == Progress::Complete {
        return None;
    }
    let message = view
        .cause
        .as_ref()
        .map(|cause| format!("{}: {}", clean(&cause.reason), clean(&cause.detail)))
        .or_else(|| view.failure.as_ref().map(|failure| clean(failure).into_owned()))?;
    let style = if is_bad(view) { cx.theme.status.failed } else { cx.theme.status.pending };
    Some(Line::styled(format!("  {message}"), style))
}

/// Returns the line of a side: its name, its image, its pods and its summary. Each pod has a sign; if the signs do not
/// fit, a bar shows the shares of ready pods and of all.
fn side_line(cx: &Context<'_>, label: &str, side: &ReplicaSetProgress, columns: &Columns) -> Line<'static> {
    let theme = cx.theme;
    let label_style = if label == "new" { theme.body.accent } else { theme.body.dim };
    let mut spans = vec![
        Span::styled(format!("{label} "), label_style),
        Span::styled(pad(&clean(&side.name), columns.name), theme.body.text),
        Span::raw(" "),
        Span::styled(pad(&clean(&image_of(side)), columns.image), theme.body.dim),
        Span::raw("  "),
    ];
    if theme.spoken {
        // The text after the bar states the number of ready pods.
    } else if columns.max_pods <= columns.pods {
        for pod in &side.pods {
            let (glyph, style) = match (pod.deletion_timestamp, pod.ready) {
                (Some(_), _) => ("◌", theme.status.terminating),
                (None, true) => ("●", theme.status.running),
                // A running pod that is not ready must not look like a ready one.
                (None, false) if pod.health.glyph() == "●" => ("◐", theme.status.pending),
                (None, false) => (pod.health.glyph(), theme.health(pod.health)),
            };
            spans.push(Span::styled(glyph, style));
        }
        let free = columns.pods.saturating_sub(side.pods.len());
        spans.push(Span::styled("·".repeat(free), theme.chart.empty));
    } else {
        let scale = |count: usize| count * columns.pods / columns.max_pods.max(1);
        let ready = scale(side.ready());
        let all = scale(side.pods.len()).max(ready);
        spans.push(Span::styled("█".repeat(ready), theme.status.running));
        spans.push(Span::styled("▒".repeat(all - ready), theme.status.pending));
        spans.push(Span::styled("·".repeat(columns.pods - all), theme.chart.empty));
    }
    if side.pods.iter().any(|pod| pod.deletion_timestamp.is_some()) {
        next_second(cx);
    }
    spans.push(Span::styled(format!("  {}", side.summary(cx.now)), theme.body.text));
    Line::from(spans)
}

/// Returns the limits below the pods: the minimum available, the desired and the maximum number.
fn ruler(cx: &Context<'_>, view: &RolloutView, columns: &Columns, width: usize) -> Line<'static> {
    let theme = cx.theme;
    let limits = &view.limits;
    let (least, most) = (limits.least_available(), limits.max_total());
    let enough = view.available >= least;
    let few = view.total <= most;
    let marks = scale_marks(
        [least, limits.desired, most].map(|limit| usize::try_from(limit).unwrap_or(0)),
        columns.max_pods,
        columns.pods,
    );
    let within = |good: bool| if good { theme.body.text } else { theme.status.failed };
    let lead =
        format!("    {}  ", pad(&format!("desired {}", limits.desired), columns.name + 1 + columns.image));
    let mut line = Line::from(vec![Span::styled(lead, theme.body.text), Span::styled(marks, theme.body.dim)]);
    for (text, style) in [
        (
            format!("  available {} {} {least}", view.available, if enough { "≥" } else { "<" }),
            within(enough),
        ),
        (format!("   total {} {} {most}", view.total, if few { "≤" } else { ">" }), within(few)),
        (format!("   updated {}", view.updated), theme.body.dim),
    ] {
        if line.width() + text.width() <= width {
            line.push_span(Span::styled(text, style));
        }
    }
    line
}

/// Returns `───┴─┬┘`: the minimum, the desired and the maximum number on a scale of cells.
fn scale_marks([least, desired, most]: [usize; 3], all: usize, cells: usize) -> String {
    let place =
        |count: usize| (count * cells / all.max(1)).checked_sub(1).map(|at| at.min(cells.saturating_sub(1)));
    let mut marks = vec!['─'; place(most).map_or(0, |at| at + 1)];
    marks.resize(cells, ' ');
    for (at, mark) in [(place(desired), '┬'), (place(least), '┴'), (place(most), '┘')] {
        if let Some(at) = at {
            marks[at] = match (marks[at], mark) {
                ('┬', '┴') => '┼',
                ('┬', '┘') => '┐',
                ('┴' | '┼', '┘') => '┤',
                (_, mark) => mark,
            };
        }
    }
    marks.into_iter().collect()
}

/// Requests a redraw each second, for the countdowns.
pub(super) fn next_second(cx: &Context<'_>) {
    cx.redraw_in(1);
}

/// Returns `00:48`: minutes and seconds.
fn clock(seconds: i64) -> String {
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CON-5: the limits are below the pods that they concern.
    #[test]
    fn the_ruler_has_a_mark_at_each_limit() {
        let cases = [
            (([8, 10, 13], 13, 13), "───────┴─┬──┘"),
            (([3, 3, 4], 4, 4), "──┼┘"),
            (([3, 4, 4], 4, 4), "──┴┐"),
            (([4, 4, 4], 4, 4), "───┤"),
            (([0, 3, 3], 3, 3), "──┐"),
            (([0, 0, 0], 1, 1), " "),
            // Surplus pods of a scale-down are beyond the maximum.
            (([1, 2, 2], 5, 5), "┴┐   "),
            (([80, 100, 125], 125, 25), "───────────────┴───┬────┘"),
        ];
        for ((limits, all, cells), marks) in cases {
            assert_eq!(scale_marks(limits, all, cells), marks, "{limits:?} of {all} in {cells}");
        }
    }
}
