//! The panels below the cockpit of a rollout: the revisions, the template of the selected one, the pods.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use unicode_width::UnicodeWidthStr;

use super::history::{revision_of, without_hash};
use super::{Objects, Revision, Rollout, RolloutView, template_diff};
use base::sort::SliceOrder;
use console_data::context::Context;
use console_toolkit::text::{clean, fit, pad};
use console_toolkit::yaml_text;
use manifest::to_yaml;
use object::ObjectPart as _;

/// Draws the revisions, newest first.
pub(super) fn history(
    rollout: &Rollout,
    cx: &Context<'_>,
    list: &[Revision],
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let block = cx.theme.block("Revisions");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let (width, height) = (usize::from(inner.width), usize::from(inner.height));
    let picked = rollout.picked(list);
    let visible = rollout.window.around(picked.unwrap_or(0), height, list.len());
    let lines = list.iter().enumerate().skip(visible.start).take(visible.len()).map(|(at, revision)| {
        let since = revision.since.map(|since| cx.age(since)).unwrap_or_default();
        let images = revision.images.join(", ");
        let summary = match (&revision.change_cause, &revision.change) {
            (Some(cause), _) => format!("{images}  {cause}"),
            (None, Some(change)) if change.starts_with("image ") => change.clone(),
            (None, Some(change)) => format!("{images}  {change}"),
            (None, None) => images,
        };
        let text = format!(
            "{} {:>3} {:<6} {} {}",
            if picked == Some(at) { "▸" } else { " " },
            revision.number,
            since,
            match revision {
                Revision { current: true, .. } => cx.theme.sign("●", "current"),
                Revision { undone: true, .. } => cx.theme.sign("↩", "undone"),
                _ => " ",
            },
            clean(&summary)
        );
        let style = match (picked == Some(at), revision.current) {
            (true, _) => cx.theme.table.cursor,
            (false, true) => cx.theme.body.accent,
            (false, false) => cx.theme.body.text,
        };
        Line::styled(pad(&text, width), style)
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), inner);
}

/// Draws the changes of an undo to the selected revision; for the current one, its template.
pub(super) fn template(
    rollout: &Rollout,
    cx: &Context<'_>,
    objects: &Objects<'_>,
    list: &[Revision],
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let picked = rollout.picked(list).map(|at| &list[at]);
    let current = list.iter().find(|revision| revision.current).map(|revision| revision.number);
    let title = match (picked, current) {
        (Some(picked), Some(current)) if !picked.current => {
            format!("Template, {current} → {}", picked.number)
        }
        (Some(picked), _) => format!("Template of revision {}", picked.number),
        _ => "Template".to_owned(),
    };
    let block = cx.theme.block(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let Some(revision) = picked else { return };
    let mut lines = Vec::new();
    // The list beside it has no space for long causes.
    if let Some(cause) = revision.change_cause.as_ref().or(revision.change.as_ref())
        && cause.width() + revision.images.join(", ").width() + 20 > usize::from(area.x)
    {
        lines.push(Line::styled(clean(cause).into_owned(), cx.theme.body.accent));
    }
    if let Some((number, result)) = &rollout.tried
        && *number == revision.number
    {
        lines.push(match result {
            Ok(()) => Line::styled("✔ dry run: the server would accept it", cx.theme.status.succeeded),
            Err(error) => Line::styled(format!("✖ dry run: {}", clean(error)), cx.theme.status.failed),
        });
    }
    let set = objects.sets.iter().find(|(set, _)| revision_of(set) == Some(revision.number));
    let there = set.and_then(|(set, _)| set.spec.template.as_ref());
    if revision.current {
        let template = without_hash(objects.deployment.spec.template.clone());
        let text = to_yaml(&template.to_value());
        lines.extend(text.lines().map(|line| yaml_text::colour(line, cx.theme)));
    } else {
        let diff = template_diff(Some(&objects.deployment.spec.template), there);
        lines.extend(diff.into_iter().map(|(sign, line)| {
            Line::styled(format!("{} {}", sign.mark(), clean(&line)), cx.theme.of_difference(sign))
        }));
    }
    let scrolled = rollout.diff.window(usize::from(inner.height), lines.len());
    let shown = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(shown.scroll((u16::try_from(scrolled).unwrap_or(u16::MAX), 0)), inner);
}

/// Draws every pod of the rollout: the new side first.
pub(super) fn pods(
    cx: &Context<'_>,
    objects: &Objects<'_>,
    view: &RolloutView,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let theme = cx.theme;
    let new = view.new.as_ref().map(|side| side.name.as_str());
    let mut rows: Vec<(bool, Line<'static>)> = Vec::new();
    let mut all: Vec<_> = objects
        .sets
        .iter()
        .flat_map(|(set, pods)| pods.iter().map(move |pod| (set.metadata.name.as_deref() == new, *pod)))
        .collect();
    // Failing pods come first, because not all pods may fit.
    all.order_by_key(|(is_new, pod)| {
        let fails = pod.summary.health.is_fault();
        (!fails, !is_new, std::cmp::Reverse(pod.created), pod.open().name())
    });
    let longest = all.iter().map(|(_, pod)| pod.name().width()).max();
    let name_width = longest.unwrap_or(0).clamp(8, 40);
    for (is_new, pod) in all {
        let status = &pod.summary;
        let name = pod.name();
        let node = status.node.as_deref().unwrap_or("<none>");
        let age = pod.created.map(|at| cx.age(at)).unwrap_or_default();
        let restarts = match status.restarts {
            0 => String::new(),
            1 => "1 restart".to_owned(),
            many => format!("{many} restarts"),
        };
        let (word, word_style) = if is_new { ("new ", theme.body.accent) } else { ("old ", theme.body.dim) };
        let line = Line::from(vec![
            Span::styled(word, word_style),
            Span::styled(pad(&clean(name), name_width), theme.body.text),
            Span::raw("  "),
            Span::styled(
                pad(&format!("{} {}", cx.theme.state_sign(status.health), clean(&status.status)), 20),
                theme.health(status.health),
            ),
            Span::styled(format!("  {}/{} ready  ", status.ready, status.total), theme.body.text),
            Span::styled(pad(&clean(node), 14), theme.body.dim),
            Span::styled(format!("{age:>6}  "), theme.body.dim),
            Span::styled(restarts, theme.status.pending),
        ]);
        rows.push((is_new, line));
    }
    let height = usize::from(area.height.saturating_sub(2));
    let hidden = rows.len().saturating_sub(height);
    let title = if hidden > 0 { format!("Pods, {hidden} more with <o>") } else { "Pods".to_owned() };
    let block = theme.block(fit(&title, usize::from(area.width)).into_owned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let lines: Vec<Line<'_>> = rows.into_iter().map(|(_, line)| line).take(height).collect();
    frame.render_widget(Paragraph::new(lines), inner);
}
