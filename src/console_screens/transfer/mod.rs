//! Copies a file or a directory out of a container or into it, with `tar` in the container, as `kubectl cp` does
//! (CON-3).
//!
//! ```text
//!  ╭ copy · web-1 ──────────────────────────────╮
//!  │ ◐ out of container main                     │
//!  │   /var/log/app.log → ./app.log              │
//!  │   12 MiB, 1 file                            │
//!  │                                             │
//!  │ kubectl cp …                                │
//!  ╰──────────────────────────────── x stop ─────╯
//! ```
//!
//! Replacing an existing file needs a confirmation. The copy itself is in [`console_operations::transfer`].

mod dialogs;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::View;
use console_data::action::{Action, Mutation, Outcome};
use console_data::context::Context;
use console_data::decoded::api_of;
use console_data::message::{Message, ScreenMessage};
use console_data::resource::ObjectRef;
use console_operations::effect::{Effect, Outbox};
use console_operations::transfer::{Container, Progress, local, split};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::{clean, fit, format_size, typed_path, wrapped};
use console_toolkit::toast::Toast;
use console_toolkit::widget::scroll::Scroll;
use object::Kind;

/// The slot of the task that copies.
const COPY: &str = "copy";
/// Interval of progress updates.
const TICK: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyDirection {
    Out,
    In,
}

/// The source and destination of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) direction: CopyDirection,
    pub(super) container: String,
    pub(super) container_path: String,
    /// The path on this machine.
    pub(super) local_path: String,
    /// True if an existing file is to be replaced.
    pub(super) replaces: bool,
}

impl Plan {
    fn kubectl(&self, pod: &ObjectRef) -> String {
        let namespace = pod.namespace.as_deref().unwrap_or("default");
        let Self { container, container_path: there, local_path: here, .. } = self;
        let there = format!("{}:{there}", pod.name);
        let (from, to) = match self.direction {
            CopyDirection::Out => (&there, here),
            CopyDirection::In => (here, &there),
        };
        format!("kubectl cp -n {namespace} -c {container} {from} {to}")
    }

    fn describe(&self, pod: &ObjectRef) -> String {
        match self.direction {
            CopyDirection::Out => {
                format!("copy {} out of {} to {}", self.container_path, pod.describe(), self.local_path)
            }
            CopyDirection::In => {
                format!("copy {} into {} at {}", self.local_path, pod.describe(), self.container_path)
            }
        }
    }
}

/// The result of a copy.
#[derive(Debug)]
pub(super) enum CopyOutcome {
    /// The copy is complete.
    Whole(String),
    /// A file exists at this path: the user must confirm.
    Exists(String),
    Failed(String),
}

/// Messages of the screen's task and dialogs.
#[derive(Debug)]
pub enum TransferData {
    /// The user chose source and destination.
    Decided(TransferChoice),
    /// The progress changed.
    Going,
    /// The copy ended.
    Over(TransferEnd),
}

/// The user's choice.
#[derive(Debug)]
pub struct TransferChoice(pub(super) Plan);

/// The result of a copy.
#[derive(Debug)]
pub struct TransferEnd(CopyOutcome);

#[derive(Debug)]
enum TransferStage {
    Asking,
    Working,
    Whole(String),
    Failed(String),
}

/// The screen of one copy.
#[derive(Debug)]
pub struct Transfer {
    pod: ObjectRef,
    /// The container, if it is known.
    container: Option<String>,
    plan: Option<Plan>,
    stage: TransferStage,
    progress: Arc<Progress>,
    scroll: Scroll,
}

impl Transfer {
    /// Creates a copy for a container of this pod; a dialog asks for source and destination.
    pub(crate) fn new(pod: ObjectRef, container: Option<String>) -> Self {
        let (progress, scroll) = (Arc::default(), Scroll::default());
        Self { pod, container, plan: None, stage: TransferStage::Asking, progress, scroll }
    }

    fn opened(&self, cx: &Context<'_>) -> Vec<Effect> {
        let namespace = self.pod.namespace.as_deref().unwrap_or_default();
        let Some(pod) = cx.stores.pods().by_name(namespace, &self.pod.name) else {
            return vec![Effect::Back, Effect::failed(format!("{} is gone", self.pod.describe()))];
        };
        match dialogs::source_dialog(&self.pod, pod, self.container.as_deref()) {
            Ok(dialog) => vec![Effect::dialog(dialog)],
            Err(why) => vec![Effect::Back, Effect::failed(why)],
        }
    }

    fn start(&mut self, plan: Plan) -> Vec<Effect> {
        self.plan = Some(plan.clone());
        self.stage = TransferStage::Working;
        // A stopped copy may still count its progress, which must not affect this one.
        self.progress = Arc::default();
        let (pod, progress) = (self.pod.clone(), Arc::clone(&self.progress));
        vec![Effect::task(COPY, move |out| run(out, pod, plan, progress))]
    }

    fn over(&mut self, end: CopyOutcome) -> Vec<Effect> {
        let Some(plan) = self.plan.clone() else { return Vec::new() };
        let toast = match end {
            CopyOutcome::Exists(place) => {
                self.stage = TransferStage::Asking;
                return vec![Effect::dialog(dialogs::replace(plan, &place))];
            }
            CopyOutcome::Whole(place) => {
                let toast = Toast::done(format!("copied to {}", clean(&place)));
                self.stage = TransferStage::Whole(place);
                toast
            }
            CopyOutcome::Failed(why) => {
                let toast = Toast::failed(format!("{}: {why}", plan.describe(&self.pod)));
                self.stage = TransferStage::Failed(why);
                toast
            }
        };
        vec![Effect::BackgroundToast(toast)]
    }

    fn stop(&mut self) -> Vec<Effect> {
        self.stage = TransferStage::Failed("the copy was stopped; no part of it is left".to_owned());
        vec![Effect::Cancel(COPY)]
    }

    fn amount(&self) -> String {
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let (bytes, files, total) =
            (count(&self.progress.bytes), count(&self.progress.files), count(&self.progress.total));
        let of = if total > 0 { format!(" of {}", format_size(total)) } else { String::new() };
        let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
        let left = match count(&self.progress.skipped) {
            0 => String::new(),
            left => format!(", {left} links and devices left out"),
        };
        format!("{}{of}, {files}{left}", format_size(bytes))
    }

    fn lines(&self, cx: &Context<'_>, width: usize) -> Vec<(String, Style)> {
        let theme = cx.theme;
        let Some(plan) = &self.plan else { return Vec::new() };
        let (head, style) = match &self.stage {
            TransferStage::Asking => ("◐ waiting for an answer".to_owned(), theme.status.pending),
            TransferStage::Working => ("◐ copying".to_owned(), theme.status.pending),
            TransferStage::Whole(place) => (format!("✔ copied to {place}"), theme.status.running),
            TransferStage::Failed(why) => (format!("✖ {why}"), theme.status.failed),
        };
        let (from, to) = match plan.direction {
            CopyDirection::Out => {
                (format!("{}:{}", plan.container, plan.container_path), plan.local_path.clone())
            }
            CopyDirection::In => {
                (plan.local_path.clone(), format!("{}:{}", plan.container, plan.container_path))
            }
        };
        [
            (head, style),
            (format!("{from} → {to}"), theme.body.text),
            (self.amount(), theme.body.text),
            (String::new(), theme.body.text),
            (plan.kubectl(&self.pod), theme.body.dim),
        ]
        .into_iter()
        .flat_map(|(text, style)| {
            // An empty line stays one; the errors of tar have several.
            let lines: Vec<String> = text.split('\n').map(|line| clean(line).into_owned()).collect();
            wrapped(&lines.join("\n"), width.max(8)).into_iter().map(move |line| (line, style))
        })
        .collect()
    }
}

/// Copies, reports the progress, and records the result in the journal.
async fn run(out: Outbox, pod: ObjectRef, plan: Plan, progress: Arc<Progress>) {
    let work = copy(&out, &pod, &plan, progress);
    tokio::pin!(work);
    let mut tick = tokio::time::interval(TICK);
    let copied = loop {
        tokio::select! {
            copied = &mut work => break copied.unwrap_or_else(CopyOutcome::Failed),
            _ = tick.tick() => out.data(TransferData::Going).await,
        }
    };
    let error = match &copied {
        CopyOutcome::Exists(_) => return out.data(TransferData::Over(TransferEnd(copied))).await,
        CopyOutcome::Whole(_) => None,
        CopyOutcome::Failed(why) => Some(why.clone()),
    };
    // The copy was made by exec, and cannot be undone.
    let action = Action::new(&pod, plan.describe(&pod), plan.kubectl(&pod), Mutation::nothing()).quietly();
    let outcome = Outcome { action, error, after: None };
    out.send(Message::ActionEnded(Box::new(outcome))).await;
    out.data(TransferData::Over(TransferEnd(copied))).await;
}

async fn copy(
    out: &Outbox,
    pod: &ObjectRef,
    plan: &Plan,
    progress: Arc<Progress>,
) -> Result<CopyOutcome, String> {
    let namespace = pod.namespace.as_deref().unwrap_or("default");
    let pods = api_of(out.client(), Kind::Pod, Some(namespace));
    let container = Container { pods, pod: pod.name.clone(), name: plan.container.clone() };
    let here = typed_path(&plan.local_path)?;
    match plan.direction {
        CopyDirection::Out => {
            let (parent, name) = split(&plan.container_path).ok_or("enter a file or directory")?;
            let file_name = name.to_owned();
            let found = on_disk(move || {
                let target = local::target(&here, &file_name)?;
                let exists = std::fs::symlink_metadata(&target).is_ok();
                Ok((target, exists))
            });
            let (target, exists) = found.await?;
            let place = target.display().to_string();
            if exists && !plan.replaces {
                return Ok(CopyOutcome::Exists(place));
            }
            container.copy_out(out, (parent, name), target, progress).await?;
            Ok(CopyOutcome::Whole(place))
        }
        CopyDirection::In => {
            let source: PathBuf = here.clone();
            let name = on_disk(move || {
                let whole = here.canonicalize().map_err(|error| format!("{}: {error}", here.display()))?;
                let name = whole.file_name().and_then(|name| name.to_str());
                name.map(str::to_owned).ok_or_else(|| format!("{} has no name", here.display()))
            });
            let name = name.await?;
            let (parent, name, exists) = container.resolve_target(&plan.container_path, &name).await?;
            let place = format!("{}/{name}", parent.trim_end_matches('/'));
            if exists && !plan.replaces {
                return Ok(CopyOutcome::Exists(place));
            }
            container.copy_in(out, &source, (&parent, &name), progress).await?;
            Ok(CopyOutcome::Whole(place))
        }
    }
}

async fn on_disk<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    base::task::blocking(look).await.unwrap_or_else(|error| Err(error.to_string()))
}

impl View for Transfer {
    fn title(&self, _cx: &Context<'_>) -> String {
        format!("{} · copy", self.pod.name)
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Transfer, KeyContext::List]
    }

    fn refuses(&self, _cx: &Context<'_>, command: Command) -> Option<String> {
        match (command, &self.stage) {
            (Command::Stop, TransferStage::Asking | TransferStage::Whole(_) | TransferStage::Failed(_)) => {
                Some("nothing is being copied".to_owned())
            }
            (Command::Retry, TransferStage::Asking | TransferStage::Working | TransferStage::Whole(_)) => {
                Some("nothing to retry".to_owned())
            }
            _ => None,
        }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => return self.opened(cx),
            ScreenMessage::Data(data) => match data.take() {
                Some(TransferData::Decided(TransferChoice(plan))) => return self.start(plan),
                // A stopped copy may have sent messages before.
                Some(TransferData::Over(TransferEnd(end)))
                    if matches!(self.stage, TransferStage::Working) =>
                {
                    return self.over(end);
                }
                _ => {}
            },
            ScreenMessage::Command(Command::Stop) => return self.stop(),
            ScreenMessage::Command(Command::Retry) => {
                return match (&self.stage, &self.plan) {
                    (TransferStage::Failed(_), Some(plan)) => self.start(plan.clone()),
                    _ => vec![Effect::info("nothing to retry")],
                };
            }
            ScreenMessage::Command(Command::Copy) => {
                return self.plan.iter().map(|plan| Effect::Copy(plan.kubectl(&self.pod))).collect();
            }
            ScreenMessage::Mouse(event) => self.scroll.mouse(event),
            ScreenMessage::Command(command) if self.scroll.command(command) => {}
            _ => {}
        }
        Vec::new()
    }

    fn background(&self, _cx: &Context<'_>) -> Option<String> {
        matches!(self.stage, TransferStage::Working)
            .then(|| format!("copy {} {}", self.pod.name, self.amount()))
    }

    fn has_a_result(&self, _cx: &Context<'_>) -> bool {
        matches!(self.stage, TransferStage::Whole(_) | TransferStage::Failed(_))
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let width = usize::from(area.width).saturating_sub(6);
        let title = format!("copy · {}", self.pod.describe());
        let block = cx.theme.block_focused(fit(&clean(&title), width).into_owned());
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let lines = self.lines(cx, usize::from(inner.width));
        let lines = lines.into_iter().map(|(text, style)| Line::from(Span::styled(text, style)));
        self.scroll.draw(lines, frame, inner);
    }
}
