//! The rollout cockpit: old and new side by side, limits, deadline, history and undo (CON-5).
//!
//! Everything is read from the live stores at each draw. Its own state is what is picked.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PatchParams;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::View;
use super::table::{Only, Table};
use crate::console::action::{self, Action, Mutation, error_text};
use crate::console::command::{Command, Where};
use crate::console::context::Context;
use crate::console::dialog::{Dialog, scale};
use crate::console::effect::Effect;
use crate::console::message::{Data, ScreenMessage};
use crate::console::resource::{ObjectRef, Uid, Watched};
use crate::console::rollout::history::{Sign, revision_of};
use crate::console::rollout::{Progress, Revision, RolloutView, Side, actions, revisions, template_diff};
use crate::console::store::uid_of;
use crate::console::text::{age, clean, fit};
use crate::console::toast::Toast;

/// What its tasks send it.
#[derive(Debug)]
pub enum Loaded {
    /// The server was asked whether it would take the undo to this revision; what it said.
    Tried(i64, Result<(), String>),
}

/// The screen.
#[derive(Debug)]
pub struct Rollout {
    target: ObjectRef,
    /// The revision picked; the newest that is not current until one is.
    picked: Option<i64>,
    /// Lines the difference is scrolled down.
    scrolled: usize,
    /// What the server said to the dry run of the picked undo.
    tried: Option<(i64, Result<(), String>)>,
}

/// The objects of a rollout, from the stores.
struct Objects<'a> {
    deployment: &'a Deployment,
    sets: Vec<(&'a ReplicaSet, Vec<&'a Pod>)>,
}

impl Rollout {
    /// Of this object.
    pub fn new(target: ObjectRef) -> Self {
        Self { target, picked: None, scrolled: 0, tried: None }
    }

    fn objects<'a>(&self, cx: &'a Context<'_>) -> Option<Objects<'a>> {
        let namespace = self.target.namespace.as_deref().unwrap_or_default();
        let deployment = cx.stores.deployments.by_name(namespace, &self.target.name)?;
        let uid = uid_of(&**deployment)?;
        let mut sets: Vec<(&ReplicaSet, Vec<&Pod>)> = cx
            .stores
            .replica_sets
            .owned_by(&uid)
            .map(|set| {
                let uid = uid_of(&**set).unwrap_or_else(|| Uid::from(""));
                (&**set, cx.stores.pods.owned_by(&uid).map(|pod| &**pod).collect())
            })
            .collect();
        sets.sort_by_key(|(set, _)| std::cmp::Reverse(revision_of(set)));
        Some(Objects { deployment, sets })
    }

    /// The revision the cursor is on: what was picked, else the newest one to go back to.
    fn picked(&self, list: &[Revision]) -> Option<usize> {
        let at = |wanted: i64| list.iter().position(|revision| revision.number == wanted);
        self.picked
            .and_then(at)
            .or_else(|| list.iter().position(|revision| !revision.current))
            .or((!list.is_empty()).then_some(0))
    }

    fn step(&mut self, cx: &Context<'_>, by: isize) {
        let Some(objects) = self.objects(cx) else { return };
        let list = revisions(objects.deployment, objects.sets.iter().map(|(set, _)| *set));
        let Some(at) = self.picked(&list) else { return };
        let next = at.saturating_add_signed(by).min(list.len() - 1);
        self.picked = Some(list[next].number);
        self.scrolled = 0;
    }

    /// Asks before an undo, with what changes, and asks the server meanwhile whether it would take it.
    fn ask_undo(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        let Some(objects) = self.objects(cx) else { return Vec::new() };
        let list = revisions(objects.deployment, objects.sets.iter().map(|(set, _)| *set));
        let Some(revision) = self.picked(&list).map(|at| list[at].clone()) else {
            return vec![Effect::failed("there is no revision to go back to")];
        };
        if revision.current {
            return vec![Effect::Toast(Toast::note("this is the revision it has; pick another one"))];
        }
        let set = objects.sets.iter().find(|(set, _)| revision_of(set) == Some(revision.number));
        let Some((set, _)) = set else { return Vec::new() };
        let action = match actions::undo(&self.target, objects.deployment, set, revision.number) {
            Ok(action) => action,
            Err(error) => return vec![Effect::failed(error)],
        };
        let mut dialog = Dialog::new(format!("Undo {}", self.target.name), "Undo", {
            let action = action.clone();
            move |_, _| Ok(vec![Effect::Act(Box::new(action.clone()))])
        })
        .line(format!(
            "Back to revision {}: {}",
            revision.number,
            revision.change_cause.as_deref().unwrap_or("no change-cause")
        ));
        let diff = template_diff(Some(&objects.deployment.spec.template), set.spec.template.as_ref());
        let changes = diff.iter().filter(|(sign, _)| matches!(sign, Sign::Added | Sign::Removed));
        for (sign, line) in changes.clone().take(8) {
            let sign = if *sign == Sign::Added { '+' } else { '-' };
            dialog = dialog.line(format!("{sign} {}", clean(line.trim().trim_start_matches("- "))));
        }
        let more = changes.count().saturating_sub(8);
        if more > 0 {
            dialog = dialog.line(format!("… and {more} lines more"));
        }
        self.tried = None;
        vec![try_out(action, revision.number), Effect::Ask(Box::new(dialog))]
    }

    fn pause(&self, cx: &Context<'_>) -> Vec<Effect> {
        let Some(objects) = self.objects(cx) else { return Vec::new() };
        let paused = actions::is_paused(objects.deployment);
        vec![Effect::Act(Box::new(actions::pause(&self.target, !paused)))]
    }

    fn restart(&self, cx: &Context<'_>) -> Vec<Effect> {
        let Some(objects) = self.objects(cx) else { return Vec::new() };
        let action = match actions::restart(&self.target, objects.deployment, cx.now) {
            Ok(action) => action,
            Err(error) => return vec![Effect::failed(error)],
        };
        let pods = objects.deployment.spec.replicas.unwrap_or(1);
        let dialog = Dialog::new(format!("Restart {}", self.target.name), "Restart", move |_, _| {
            Ok(vec![Effect::Act(Box::new(action.clone()))])
        })
        .line(format!("Replaces its {pods} pods one by one, within the limits of the rollout."));
        vec![Effect::Ask(Box::new(dialog))]
    }

    fn pods(&self) -> Vec<Effect> {
        let pods = Table::of(Watched::Pods.kind()).only(Only::OwnedBy(self.target.clone()));
        vec![Effect::open(pods)]
    }

    /// Title of the frame: name, revision, strategy and clock.
    fn heading(&self, cx: &Context<'_>, view: &RolloutView) -> String {
        let revision = view.revision.map(|number| format!(" ─ revision {number}")).unwrap_or_default();
        let limits = &view.limits;
        let strategy = if limits.strategy == "Recreate" {
            "Recreate".to_owned()
        } else {
            format!(
                "surge {} ({}) unavailable {} ({})",
                limits.surge_text, limits.surge, limits.unavailable_text, limits.unavailable
            )
        };
        let clock = match (view.since, view.deadline) {
            (Some(since), Some(_)) => {
                next_second(cx);
                let elapsed = (cx.now.as_second() - since.as_second()).max(0);
                format!(" ── {} of {}", minutes(elapsed), minutes(view.deadline_seconds))
            }
            _ => String::new(),
        };
        format!("Deployment {}{revision} ── {strategy}{clock}", self.target.name)
    }

    /// One line that says how it goes.
    fn verdict(cx: &Context<'_>, view: &RolloutView) -> Line<'static> {
        let theme = cx.theme;
        let cause = view
            .cause
            .as_ref()
            .map(|cause| format!("  {} {}", cause.reason, clean(&cause.detail)))
            .or_else(|| view.failure.as_ref().map(|failure| format!("  {}", clean(failure))))
            .unwrap_or_default();
        match view.progress {
            Progress::Complete => Line::styled("✔ complete", theme.status.succeeded),
            Progress::Unobserved => {
                Line::styled("◌ waiting for the controller to see the change", theme.status.pending)
            }
            Progress::Paused => Line::styled("‖ paused", theme.status.pending),
            Progress::Stuck => {
                let since = view.since.map(|since| format!(" for {}", cx.age(since)));
                Line::styled(
                    format!("✖ stuck{}: deadline exceeded{cause}", since.unwrap_or_default()),
                    theme.status.failed,
                )
            }
            Progress::Moving => {
                let left = view.deadline.map(|deadline| (deadline.as_second() - cx.now.as_second()).max(0));
                let left = left.map(|left| format!(", deadline in {}", age(left))).unwrap_or_default();
                let bad = view.cause.as_ref().is_some_and(|cause| cause.weight > 1) || view.failure.is_some();
                let style = if bad { theme.status.failed } else { theme.status.pending };
                let glyph = if bad { "✖" } else { "◐" };
                Line::styled(format!("{glyph} in progress{left}{cause}"), style)
            }
        }
    }

    fn numbers(cx: &Context<'_>, view: &RolloutView) -> Line<'static> {
        let theme = cx.theme;
        let limits = &view.limits;
        let within = |good: bool| if good { theme.body.text } else { theme.status.failed };
        Line::from(vec![
            Span::styled(format!("desired {}   ", limits.desired), theme.body.text),
            Span::styled(
                format!(
                    "total {} {} {}   ",
                    view.total,
                    if view.total <= limits.most() { "≤" } else { ">" },
                    limits.most()
                ),
                within(view.total <= limits.most()),
            ),
            Span::styled(
                format!(
                    "available {} {} {}",
                    view.available,
                    if view.available >= limits.least_available() { "≥" } else { "<" },
                    limits.least_available()
                ),
                within(view.available >= limits.least_available()),
            ),
            Span::styled(format!("   updated {}", view.updated), theme.body.dim),
        ])
    }

    /// A side: its name, image, a glyph a pod up to the most there may be, and the words.
    fn side(cx: &Context<'_>, word: &str, side: &Side, most: usize, width: usize) -> Line<'static> {
        let theme = cx.theme;
        let name_width = (width / 5).clamp(10, 28);
        let image = side.images.first().map(String::as_str).unwrap_or_default();
        let cell = |text: &str, columns: usize| {
            let cut = fit(text, columns);
            format!(
                "{cut}{}",
                " ".repeat(columns.saturating_sub(unicode_width::UnicodeWidthStr::width(&*cut)))
            )
        };
        let image_width = (width / 6).clamp(8, 24);
        let words = side.words(cx.now);
        let room = width.saturating_sub(4 + name_width + image_width + 4 + words.chars().count()).max(4);
        let mut spans = vec![
            Span::styled(format!("{word} "), theme.body.accent),
            Span::styled(cell(&side.name, name_width), theme.body.text),
            Span::raw(" "),
            Span::styled(cell(&clean(image), image_width), theme.body.dim),
            Span::raw(" "),
        ];
        let slots = most.max(side.pods.len());
        if slots <= room {
            for pod in &side.pods {
                let (glyph, style) = match (pod.gone_by, pod.ready) {
                    (Some(_), _) => ("◌", theme.status.terminating),
                    (None, true) => ("●", theme.status.running),
                    (None, false) => (pod.look.glyph(), theme.look(pod.look)),
                };
                // A running pod that is not ready must not look like a ready one.
                let glyph = if !pod.ready && pod.gone_by.is_none() && glyph == "●" { "◐" } else { glyph };
                spans.push(Span::styled(glyph, style));
            }
            spans.push(Span::styled("·".repeat(slots - side.pods.len()), theme.chart.empty));
        } else {
            let scale = |count: usize| count * room / slots.max(1);
            let ready = scale(side.ready());
            let all = scale(side.pods.len()).max(ready);
            spans.push(Span::styled("█".repeat(ready), theme.status.running));
            spans.push(Span::styled("▒".repeat(all - ready), theme.status.pending));
            spans.push(Span::styled("·".repeat(room - all), theme.chart.empty));
        }
        if side.pods.iter().any(|pod| pod.gone_by.is_some()) {
            next_second(cx);
        }
        spans.push(Span::styled(format!("  {words}"), theme.body.text));
        Line::from(spans)
    }

    fn history(
        &self,
        cx: &Context<'_>,
        list: &[Revision],
        width: usize,
        height: usize,
    ) -> Vec<Line<'static>> {
        let picked = self.picked(list);
        let skip = (picked.unwrap_or(0) + 1).saturating_sub(height);
        list.iter()
            .enumerate()
            .skip(skip)
            .map(|(at, revision)| {
                let created = revision.created.map(|created| cx.age(created)).unwrap_or_default();
                let what = match &revision.change_cause {
                    Some(cause) => cause.clone(),
                    None => revision.images.join(", "),
                };
                let text = format!(
                    "{} {:>3} {:<6} {} {}",
                    if picked == Some(at) { "▸" } else { " " },
                    revision.number,
                    created,
                    if revision.current { "●" } else { " " },
                    clean(&what)
                );
                let style = match (picked == Some(at), revision.current) {
                    (true, _) => cx.theme.table.cursor,
                    (false, true) => cx.theme.body.accent,
                    (false, false) => cx.theme.body.text,
                };
                let text = fit(&text, width).into_owned();
                let pad = width.saturating_sub(unicode_width::UnicodeWidthStr::width(text.as_str()));
                Line::styled(text + &" ".repeat(pad), style)
            })
            .collect()
    }

    fn difference(&self, cx: &Context<'_>, objects: &Objects<'_>, revision: &Revision) -> Vec<Line<'static>> {
        if revision.current {
            return vec![Line::styled("this is what it has now", cx.theme.body.dim)];
        }
        let set = objects.sets.iter().find(|(set, _)| revision_of(set) == Some(revision.number));
        let to = set.and_then(|(set, _)| set.spec.template.as_ref());
        let diff = template_diff(Some(&objects.deployment.spec.template), to);
        let mut lines = Vec::new();
        if let Some((number, result)) = &self.tried
            && *number == revision.number
        {
            lines.push(match result {
                Ok(()) => Line::styled("✔ dry run: the server would take it", cx.theme.status.succeeded),
                Err(error) => Line::styled(format!("✖ dry run: {}", clean(error)), cx.theme.status.failed),
            });
        }
        lines.extend(diff.into_iter().map(|(sign, line)| {
            let line = clean(&line).into_owned();
            match sign {
                Sign::Same => Line::styled(format!("  {line}"), cx.theme.body.text),
                Sign::Removed => Line::styled(format!("- {line}"), cx.theme.diff.removed),
                Sign::Added => Line::styled(format!("+ {line}"), cx.theme.diff.added),
                Sign::Gap => Line::styled("  ⋯", cx.theme.body.dim),
            }
        }));
        lines
    }
}

impl View for Rollout {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · rollout", self.target.name)
    }

    fn places(&self, _cx: &Context<'_>) -> Vec<Where> {
        vec![Where::Rollout, Where::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Command(command) => match command {
                Command::RolloutUndo | Command::Enter => return self.ask_undo(cx),
                Command::RolloutPause => return self.pause(cx),
                Command::RolloutRestart => return self.restart(cx),
                Command::RolloutScale => {
                    return vec![Effect::Ask(Box::new(scale::ask(cx, vec![self.target.clone()])))];
                }
                Command::RolloutPods => return self.pods(),
                Command::Back | Command::Leave => return vec![Effect::Back],
                Command::Up => self.step(cx, -1),
                Command::Down => self.step(cx, 1),
                Command::Top => self.step(cx, -10_000),
                Command::Bottom => self.step(cx, 10_000),
                Command::PageDown | Command::Right => self.scrolled += 5,
                Command::PageUp | Command::Left => self.scrolled = self.scrolled.saturating_sub(5),
                _ => {}
            },
            ScreenMessage::Data(Data::Rollout(Loaded::Tried(number, result))) => {
                let refused = result.as_ref().err().cloned();
                self.tried = Some((number, result));
                if let Some(error) = refused {
                    return vec![Effect::failed(format!(
                        "dry run of the undo to revision {number}: {error}"
                    ))];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let Some(objects) = self.objects(cx) else {
            let block = cx.theme.block_focused(format!("Deployment {}", self.target.name));
            let text = if cx.stores.deployments.synced() { "it is gone" } else { "loading …" };
            let gone = Paragraph::new(Line::styled(text, cx.theme.body.dim)).block(block);
            return frame.render_widget(gone, area);
        };
        let view = RolloutView::of(objects.deployment, &objects.sets);
        let list = revisions(objects.deployment, objects.sets.iter().map(|(set, _)| *set));
        let title_width = usize::from(area.width).saturating_sub(6);
        let mut sides: Vec<(&str, &Side)> = Vec::new();
        sides.extend(view.new.as_ref().map(|side| ("new", side)));
        sides.extend(view.old.iter().map(|side| ("old", side)));
        let most_sides = usize::from(area.height / 3).max(2);
        let top_height = 2 + 2 + sides.len().min(most_sides).max(1) as u16;
        let [top, bottom] =
            Layout::vertical([Constraint::Length(top_height), Constraint::Min(3)]).areas(area);

        let block = cx.theme.block_focused(fit(&self.heading(cx, &view), title_width).into_owned());
        let inner = block.inner(top);
        frame.render_widget(block, top);
        let most = usize::try_from(view.limits.most()).unwrap_or(0);
        let mut lines = vec![Self::numbers(cx, &view)];
        if sides.is_empty() {
            lines.push(Line::styled("no replica set yet", cx.theme.body.dim));
        }
        for (word, side) in sides.iter().take(most_sides) {
            lines.push(Self::side(cx, word, side, most, usize::from(inner.width)));
        }
        lines.push(Self::verdict(cx, &view));
        frame.render_widget(Paragraph::new(lines), inner);

        let history_width = (area.width * 45 / 100).clamp(20, 60);
        let [left, right] =
            Layout::horizontal([Constraint::Length(history_width), Constraint::Min(10)]).areas(bottom);
        let block = cx.theme.block("Revisions");
        let inner = block.inner(left);
        frame.render_widget(block, left);
        let lines = self.history(cx, &list, usize::from(inner.width), usize::from(inner.height));
        frame.render_widget(Paragraph::new(lines), inner);

        let picked = self.picked(&list).map(|at| &list[at]);
        let current = list.iter().find(|revision| revision.current).map(|revision| revision.number);
        let title = match (picked, current) {
            (Some(picked), Some(current)) if !picked.current => {
                format!("Template, {current} → {}", picked.number)
            }
            _ => "Template".to_owned(),
        };
        let block = cx.theme.block(title);
        let inner = block.inner(right);
        frame.render_widget(block, right);
        let lines = picked.map(|revision| self.difference(cx, &objects, revision)).unwrap_or_default();
        let scrolled = self.scrolled.min(lines.len().saturating_sub(usize::from(inner.height)));
        frame.render_widget(
            Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((scrolled as u16, 0)),
            inner,
        );
    }
}

/// Asks the server whether it would take the action, changing nothing.
fn try_out(action: Action, number: i64) -> Effect {
    Effect::task("dry run", move |out| async move {
        let Mutation::Patch { target, subresource, kind, body } = &action.mutation else { return };
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let answer = action::patch(&out.client(), target, *subresource, *kind, body, &params).await;
        let answer = answer.map(|_| ()).map_err(|error| error_text(&error));
        out.data(Data::Rollout(Loaded::Tried(number, answer))).await;
    })
}

/// The countdowns change with each second.
fn next_second(cx: &Context<'_>) {
    cx.redraw_at(jiff::Timestamp::from_second(cx.now.as_second() + 1).unwrap_or(cx.now));
}

/// `00:48`, as a clock.
fn minutes(seconds: i64) -> String {
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}
