//! The deployments of the overview: new and old pods as bars, problems with their cause, and the deadline.

use std::cmp::Ordering;

use k8s_openapi::api::apps::v1::Deployment;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::list::{draw_empty, draw_hidden_count, draw_row, framed, uncounted, waiting};
use super::{Overview, OverviewPanel};
use crate::rollout::progress::{Progress, ReplicaSetProgress, RolloutView};
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::resource::Uid;
use console_data::rows::cell::natural;
use console_data::rows::workload::deployment_state;
use console_toolkit::health::Health;
use console_toolkit::text::{age, clean, pad};
use console_toolkit::widget::gauge::bar;

/// Returns the deployments that match the filter: those with problems first, then those in progress, then the others by
/// name.
pub(super) fn list(overview: &Overview, cx: &Context<'_>) -> Vec<(Uid, Health)> {
    let rank = |health: Health| match health {
        Health::Failed | Health::Crashing => 0,
        Health::Pending => 1,
        Health::Unknown | Health::Terminating => 2,
        Health::Running | Health::Succeeded => 3,
    };
    let shown = cx.stores.deployments().iter().filter(|(uid, _)| overview.matches::<Deployment>(cx, uid));
    let mut all: Vec<_> =
        shown.map(|(uid, deployment)| (deployment_state(deployment).1, deployment, uid)).collect();
    all.order_by(|(a, x, _), (b, y, _)| rank(*a).cmp(&rank(*b)).then_with(|| by_name(x, y)));
    all.into_iter().map(|(health, _, uid)| (uid.clone(), health)).collect()
}

fn by_name(a: &Deployment, b: &Deployment) -> Ordering {
    let (x, y) = (a.metadata.name.as_deref(), b.metadata.name.as_deref());
    let by_namespace = a.metadata.namespace.cmp(&b.metadata.namespace);
    by_namespace.then_with(|| natural(x.unwrap_or_default(), y.unwrap_or_default()))
}

/// A row before it is drawn.
struct DeploymentRow<'a> {
    health: Health,
    status: &'static str,
    name: String,
    deployment: &'a Deployment,
    rollout: RolloutView,
}

impl<'a> DeploymentRow<'a> {
    fn of(cx: &Context<'a>, uid: &Uid) -> Option<Self> {
        let deployment = cx.stores.deployments().get(uid)?;
        let sets: Vec<_> = cx
            .stores
            .replica_sets()
            .owned_by(uid)
            .map(|set| {
                let owner = set.metadata.uid.as_deref().map(Uid::from);
                let pods = owner.iter().flat_map(|owner| cx.stores.pods().entries_owned_by(owner));
                (set, pods.collect::<Vec<_>>())
            })
            .collect();
        let (word, health) = deployment_state(deployment);
        let rollout = RolloutView::of(deployment, &sets);
        Some(Self { health, status: word, name: label(deployment), deployment, rollout })
    }

    fn want(&self) -> i64 {
        i64::from(self.deployment.spec.replicas.unwrap_or(1))
    }

    fn new_ready(&self) -> usize {
        self.rollout.new.as_ref().map_or(0, ReplicaSetProgress::ready)
    }

    fn old(&self) -> usize {
        self.rollout.old.iter().map(|side| side.pods.len()).sum()
    }

    fn ratio(&self) -> String {
        format!("{}/{}", self.new_ready(), self.want())
    }

    fn is_healthy(&self) -> bool {
        matches!(self.health, Health::Running | Health::Succeeded)
    }
}

/// Returns the name, with its namespace unless that is `default`.
fn label(deployment: &Deployment) -> String {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    match deployment.metadata.namespace.as_deref() {
        Some("default") | None => clean(name).into_owned(),
        Some(namespace) => clean(&format!("{namespace}/{name}")).into_owned(),
    }
}

/// Draws the list; returns the index of the first visible row.
pub(super) fn draw(overview: &Overview, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) -> usize {
    let theme = cx.theme;
    let all = list(overview, cx);
    let notes = uncounted::<Deployment>(overview, cx).map_or_else(|| note(cx, &all), |note| vec![note]);
    let block = framed(overview, OverviewPanel::Deployments, cx, area.width, "Deployments", notes);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if !cx.stores.deployments().synced() {
        waiting::<Deployment>(cx, frame, inner);
        return 0;
    }
    if all.is_empty() {
        draw_empty(overview, cx, frame, inner, "no deployments yet");
        if overview.query.is_empty() && overview.past.is_none() && inner.height > 1 {
            let hint = Line::styled(":tour shows how; :dir applies manifests", theme.body.accent);
            frame.render_widget(hint, Rect { y: inner.y + 1, height: 1, ..inner });
        }
        return 0;
    }
    let at = overview.deployment.as_ref().and_then(|uid| all.iter().position(|(known, _)| known == uid));
    let at = at.unwrap_or(0);
    let height = usize::from(inner.height);
    let top = overview.windows[OverviewPanel::Deployments as usize].around(at, height, all.len()).start;
    let seen: Vec<DeploymentRow<'_>> =
        all.iter().skip(top).take(height).filter_map(|(uid, _)| DeploymentRow::of(cx, uid)).collect();
    let widest = |text: fn(&DeploymentRow<'_>) -> usize| seen.iter().map(text).max().unwrap_or(0);
    let columns = Columns {
        name: widest(|row| row.name.width()).min(usize::from(inner.width) / 3),
        bar: if inner.width >= 70 { 16 } else { 8 },
        ratio: widest(|row| row.ratio().width()),
        old: seen.iter().map(DeploymentRow::old).max().unwrap_or(0),
        width: usize::from(inner.width),
    };
    for (line, row) in seen.iter().enumerate() {
        let place = Rect { y: inner.y + line as u16, height: 1, ..inner };
        draw_row(
            overview,
            OverviewPanel::Deployments,
            top + line == at,
            cx,
            frame,
            place,
            columns.row(cx, row),
        );
    }
    draw_hidden_count(cx, frame, area, all.len().saturating_sub(top + seen.len()));
    top
}

fn note<'a>(cx: &Context<'_>, all: &[(Uid, Health)]) -> Vec<Span<'a>> {
    let theme = cx.theme;
    let count = |states: &[Health]| all.iter().filter(|(_, health)| states.contains(health)).count();
    let stuck = count(&[Health::Failed, Health::Crashing]);
    let moving = count(&[Health::Pending]);
    let well = count(&[Health::Running, Health::Succeeded]);
    if all.is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    for (number, word, style) in
        [(stuck, "stuck", theme.status.failed), (moving, "on the way", theme.status.pending)]
    {
        if number > 0 {
            parts.push(Span::styled(format!(" {number} {word} "), style));
        }
    }
    let text = if well == all.len() {
        format!(" all {well} available ")
    } else {
        format!(" {well} of {} available ", all.len())
    };
    parts.push(Span::styled(text, theme.body.dim));
    parts
}

/// The layout, the same for all rows, so that numbers are aligned.
struct Columns {
    name: usize,
    bar: usize,
    ratio: usize,
    /// The maximum number of old pods in any row.
    old: usize,
    width: usize,
}

impl Columns {
    fn row<'a>(&self, cx: &Context<'_>, row: &DeploymentRow<'_>) -> Vec<Span<'a>> {
        let theme = cx.theme;
        let mut spans = vec![
            Span::styled(format!("{} ", theme.state_sign(row.health)), theme.health(row.health)),
            Span::raw(format!("{}  ", pad(&row.name, self.name))),
        ];
        let share = |count: usize| if row.want() == 0 { 0.0 } else { count as f64 / row.want() as f64 };
        let full = if row.health == Health::Running { theme.status.running } else { theme.chart.full };
        spans.extend(bar(share(row.new_ready()), self.bar, full, theme.chart.empty));
        spans.push(Span::raw(format!(" {:>width$}", row.ratio(), width = self.ratio)));
        if self.old > 0 {
            spans.extend(self.old_side(cx, row.old(), share(row.old())));
        }
        spans.push(Span::raw("  "));
        let used: usize = spans.iter().map(Span::width).sum();
        spans.extend(Self::detail_spans(cx, row, self.width.saturating_sub(used)));
        spans
    }

    fn old_side<'a>(&self, cx: &Context<'_>, old: usize, share: f64) -> Vec<Span<'a>> {
        let theme = cx.theme;
        let digits = self.old.to_string().len();
        let length = self.bar / 2;
        if old == 0 {
            return vec![Span::raw(" ".repeat("  old ".len() + length + 1 + digits))];
        }
        let mut spans = vec![Span::styled("  old ", theme.body.dim)];
        spans.extend(bar(share, length, theme.chart.second, theme.chart.empty));
        spans.push(Span::raw(format!(" {old:>digits$}")));
        spans
    }

    /// Returns the state: the word, the cause, and the time left; if they do not fit, the least important part is
    /// dropped first.
    fn detail_spans<'a>(cx: &Context<'_>, row: &DeploymentRow<'_>, width: usize) -> Vec<Span<'a>> {
        let theme = cx.theme;
        let view = &row.rollout;
        if row.is_healthy() {
            return vec![Span::styled(row.status, theme.body.dim)];
        }
        let mut status = row.status.to_owned();
        if let (Progress::Stuck, Some(since)) = (&view.progress, view.since.filter(|_| cx.is_time_known)) {
            status = format!("{status} {}", cx.age(since));
        }
        let status = Span::styled(status, theme.health(row.health));
        let problem = match (&view.cause, &view.failure) {
            (Some(cause), _) => clean(&cause.reason).into_owned(),
            (None, Some(failure)) => clean(failure).into_owned(),
            (None, None) => String::new(),
        };
        let problem = Span::styled(problem, theme.status.failed);
        let detail = view.cause.as_ref().map(|cause| clean(&cause.detail).into_owned()).unwrap_or_default();
        let detail = Span::raw(detail);
        let deadline = view.deadline.filter(|_| cx.is_time_known).map(|deadline| {
            cx.redraw_in(1);
            format!("deadline in {}", age(deadline.as_second() - cx.now.as_second()))
        });
        let deadline = Span::styled(deadline.unwrap_or_default(), theme.body.dim);
        let choices = [
            vec![&status, &problem, &detail, &deadline],
            vec![&status, &problem, &detail],
            vec![&problem, &detail, &deadline],
            vec![&problem, &detail],
            vec![&status, &problem],
            vec![if problem.content.is_empty() { &status } else { &problem }],
        ];
        let mut choices = choices.into_iter().map(|spans| {
            let described = spans.into_iter().filter(|span| !span.content.is_empty());
            let spaced = described.flat_map(|span| [span.clone(), Span::raw("  ")]);
            spaced.collect::<Vec<_>>()
        });
        let fits = |spans: &Vec<Span<'_>>| spans.iter().map(Span::width).sum::<usize>() <= width + 2;
        let last = choices.next_back().unwrap_or_default();
        choices.find(|spans| spans.len() > 1 && fits(spans)).unwrap_or(last)
    }
}
