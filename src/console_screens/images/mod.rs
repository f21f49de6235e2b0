//! The images of nodes (CON-22): which there are, the pods that use them, and the pulls in progress; with pulls,
//! removals, details, and the explanation of a name.
//!
//! ```text
//! ╭ Images of all nodes 3 ──────────────────────────────────────────╮
//! │   NODE    IMAGE ↑      ID             SIZE  PODS   USED  SOURCE  │
//! │   node-1  redis:7      ◌ Pulling 43% ████▍····· 12.3 of 28.6 MB  │
//! │ ▸ node-1  nginx:1.27   0123456789ab   71MB     2     5m  pulled  │
//! ├ nginx:1.27 ─────────────────────────────────────────────────────┤
//! │ pods  default/web-1 default/web-2                                │
//! ╰──────────────────────────────────────────────────────────────────╯
//! ```
//!
//! Podium's kubelets answer every few seconds while the screen is open. Of other nodes the Node and Pod objects tell
//! names, sizes and pods; everything else is a dash.

mod poll;
mod text;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use ratatui::Frame;
use ratatui::layout::Rect;

pub use poll::NodeAnswer;
pub use text::{ImageText, TextData};

use super::View;
use crate::object_commands;
use base::sort::SliceOrder;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::node_images::{self, ImageColumn, ImageRow, PullRow, full_image_name};
use console_operations::effect::{
    Effect, ImageContent, ImageScope, ImageTextRoute, ImageUse, Route, RowScope, TableRoute,
};
use console_operations::navigate::open_table_at;
use console_operations::operations::image::{self, ImageOperation};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::search::Filter;
use console_toolkit::text::clean;
use console_toolkit::widget::cursor::Window;
use object::node_image::NodeImageSource;
use poll::poll;

/// The pause between two questions to the nodes.
const PAUSE: Duration = Duration::from_secs(5);
/// The pause while images are pulled, and for some time after a change that the user requested.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// The number of short pauses after such a change.
const SHORT_PAUSES: u32 = 10;

/// The results of the screen's tasks.
#[derive(Debug)]
pub enum ImagesData {
    /// The answers of nodes.
    Answers(Vec<(String, NodeAnswer)>),
}

/// Identifies a row: the node, the image's id, and its first name.
type RowId = (String, String, String);

/// The screen of the images of nodes.
#[derive(Debug)]
pub struct Images {
    only: ImageScope,
    /// The last answer of each node.
    answers: BTreeMap<String, NodeAnswer>,
    /// The rows in scope, sorted.
    rows: Vec<ImageRow>,
    cursor: Option<RowId>,
    /// The index of the cursor's row; the cursor stays at this index when its row disappears.
    place: usize,
    window: Window,
    filter: Filter,
    sort: ImageColumn,
    is_descending: bool,
    /// The column that the user has picked for sorting.
    picked: Option<ImageColumn>,
    /// The number of short pauses that are left.
    short_pauses: u32,
    /// The pulls that the user requested here and that have not ended: node and full name.
    awaited: BTreeSet<(String, String)>,
}

impl Images {
    pub(crate) fn new(only: ImageScope) -> Self {
        Self {
            only,
            answers: BTreeMap::new(),
            rows: Vec::new(),
            cursor: None,
            place: 0,
            window: Window::default(),
            filter: Filter::default(),
            sort: ImageColumn::default(),
            is_descending: false,
            picked: None,
            short_pauses: 0,
            awaited: BTreeSet::new(),
        }
    }

    /// Returns the node of the list for the next session; an error says why the list is not restored.
    pub(crate) fn keep(&self) -> Result<Option<String>, &'static str> {
        match &self.only {
            ImageScope::All => Ok(None),
            ImageScope::Node(name) => Ok(Some(name.clone())),
            ImageScope::Pod(_) => Err("its pod may be gone by then; the list of all images is restored"),
        }
    }

    /// Returns the pod whose images the list shows.
    fn pod<'a>(&self, cx: &Context<'a>) -> Option<&'a Pod> {
        let ImageScope::Pod(pod) = &self.only else { return None };
        cx.stores.pods().by_name(pod.namespace.as_deref().unwrap_or_default(), &pod.name)
    }

    /// Returns the names of the nodes in scope.
    fn nodes(&self, cx: &Context<'_>) -> Vec<String> {
        match &self.only {
            ImageScope::Node(name) => vec![name.clone()],
            ImageScope::Pod(_) => {
                let node = self.pod(cx).and_then(|pod| pod.spec.as_ref()?.node_name.clone());
                node.into_iter().collect()
            }
            ImageScope::All => {
                cx.stores.nodes().iter().filter_map(|(_, node)| node.metadata.name.clone()).collect()
            }
        }
    }

    /// Asks the nodes in scope after a pause, except those whose answer will be the same.
    fn ask(&self, cx: &Context<'_>, pause: Duration) -> Effect {
        let mut nodes = self.nodes(cx);
        nodes.retain(|node| {
            !matches!(self.answers.get(node), Some(NodeAnswer::Absent | NodeAnswer::Forbidden(_)))
        });
        Effect::task("ask", move |out| poll(out, nodes, pause))
    }

    fn pause(&mut self) -> Duration {
        let is_pulling = self.rows.iter().any(|row| matches!(row.pull, Some(PullRow::Running(_))));
        if is_pulling || self.short_pauses > 0 || !self.awaited.is_empty() {
            self.short_pauses = self.short_pauses.saturating_sub(1);
            return SHORT_PAUSE;
        }
        PAUSE
    }

    /// Makes the rows from what is known.
    fn rebuild(&mut self, cx: &Context<'_>) {
        let mut rows = Vec::new();
        for name in self.nodes(cx) {
            match self.answers.get(&name) {
                Some(NodeAnswer::Images(listed)) => rows.extend(node_images::of_kubelet(&name, listed)),
                _ => {
                    if let Some(node) = cx.stores.nodes().by_name("", &name) {
                        rows.extend(node_images::of_objects(node, cx.stores.pods_on(&name)));
                    }
                }
            }
        }
        if let ImageScope::Pod(pod) = &self.only {
            let label = format!("{}/{}", pod.namespace.as_deref().unwrap_or_default(), pod.name);
            let images = self.pod(cx).map(images_of).unwrap_or_default();
            rows.retain(|row| {
                row.pods.contains(&label)
                    || row.pull.is_some()
                        && row.names.iter().any(|name| images.contains(&full_image_name(name)))
            });
        }
        let cursor = self.cursor.take();
        self.rows = rows;
        self.arrange();
        self.cursor = cursor;
        self.keep_cursor();
    }

    fn arrange(&mut self) {
        let (column, is_descending) = (self.sort, self.is_descending);
        self.rows.order_by(|one, other| one.order(other, column, is_descending));
    }

    /// Returns the rows that match the filter.
    fn visible(&self) -> Vec<&ImageRow> {
        self.rows.iter().filter(|row| row.matches(|text| self.filter.matches(text))).collect()
    }

    /// Returns the place of the cursor among the visible rows.
    fn at(&self, visible: &[&ImageRow]) -> usize {
        let named = |id: &RowId| visible.iter().position(|row| row_id(row) == *id);
        let place = self.cursor.as_ref().and_then(named).unwrap_or(self.place);
        place.min(visible.len().saturating_sub(1))
    }

    fn set_place(&mut self, place: usize) {
        let id = self.visible().get(place).map(|row| row_id(row));
        (self.place, self.cursor) = (place, id);
    }

    /// Lets the cursor stay at its row, or at the place of a row that has disappeared.
    fn keep_cursor(&mut self) {
        if self.cursor.is_some() {
            self.set_place(self.at(&self.visible()));
        }
    }

    fn sort_by(&mut self, column: ImageColumn) -> Vec<Effect> {
        self.is_descending = self.sort == column && !self.is_descending;
        self.sort = column;
        self.arrange();
        self.keep_cursor();
        Vec::new()
    }

    fn pick(&mut self, by: isize) -> Vec<Effect> {
        let all = ImageColumn::ALL;
        let at = self.picked.and_then(|picked| all.iter().position(|column| *column == picked));
        let next = at.map_or(0, |at| (at as isize + by).rem_euclid(all.len() as isize) as usize);
        self.picked = all.get(next).copied();
        Vec::new()
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        let visible = self.visible();
        if let Some(to) = self.window.step(command, self.at(&visible), visible.len()) {
            self.set_place(to);
            return Vec::new();
        }
        match command {
            Command::SortName => return self.sort_by(ImageColumn::Name),
            Command::SortAge => return self.sort_by(ImageColumn::LastUsed),
            Command::SortSize => return self.sort_by(ImageColumn::Size),
            Command::SortColumn => return self.sort_by(self.picked.unwrap_or(self.sort)),
            Command::ColumnLeft => return self.pick(-1),
            Command::ColumnRight => return self.pick(1),
            Command::Refresh => {
                self.answers.retain(|_, answer| matches!(answer, NodeAnswer::Images(_)));
                return vec![self.ask(cx, Duration::ZERO)];
            }
            Command::ImagePull => return vec![self.pull_dialog(cx)],
            _ => {}
        }
        let Some(row) = visible.get(self.at(&visible)).copied() else {
            return vec![Effect::info(object_commands::NOTHING_SELECTED)];
        };
        match command {
            Command::Enter | Command::Describe => open_details(row),
            Command::ImageExplain => open_explanation(row),
            Command::Delete => vec![match image::refuses_removal(row) {
                Some(why) => Effect::failed(why),
                None => Effect::dialog(image::removal_dialog(cx.catalogue, row)),
            }],
            Command::UsedBy => open_pods(cx, row),
            Command::PodNode => open_table_at(cx, "v1", "Node", None, &row.node, None),
            Command::Copy => vec![Effect::Copy(row.name().to_owned())],
            _ => Vec::new(),
        }
    }

    fn pull_dialog(&self, cx: &Context<'_>) -> Effect {
        let nodes: Vec<String> = self
            .nodes(cx)
            .into_iter()
            .filter(|node| matches!(self.answers.get(node), Some(NodeAnswer::Images(_))))
            .collect();
        let visible = self.visible();
        let row = visible.get(self.at(&visible));
        let node = row.map(|row| &row.node).filter(|node| nodes.contains(node)).or(nodes.first());
        let Some(node) = node.cloned() else {
            return Effect::failed("no kubelet here pulls images at a client's request");
        };
        let name = row.and_then(|row| row.names.iter().find(|name| !name.contains('@')));
        Effect::dialog(image::pull_dialog(nodes, &node, name.map_or("", String::as_str)))
    }

    fn operate(&mut self, cx: &Context<'_>, operation: ImageOperation) -> Vec<Effect> {
        self.short_pauses = SHORT_PAUSES;
        match operation {
            ImageOperation::PullRequested { node, image } => {
                let node = image::node(cx.catalogue, &node);
                vec![Effect::task("pull", move |out| image::pull(out, node, image))]
            }
            ImageOperation::PullAccepted { node, image } => {
                let text = format!("pulling {} on {}", clean(&image), clean(&node));
                self.awaited.insert((node, image));
                vec![Effect::info(text), self.ask(cx, Duration::ZERO)]
            }
            ImageOperation::RemovalRequested => vec![self.ask(cx, SHORT_PAUSE)],
        }
    }

    fn take(&mut self, cx: &Context<'_>, answers: Vec<(String, NodeAnswer)>) -> Vec<Effect> {
        for (node, answer) in answers {
            // The last list stays readable while a node does not answer.
            let has_list = matches!(self.answers.get(&node), Some(NodeAnswer::Images(_)));
            if !(has_list && matches!(answer, NodeAnswer::Failed(_))) {
                self.answers.insert(node, answer);
            }
        }
        let nodes = self.nodes(cx);
        self.answers.retain(|node, _| nodes.contains(node));
        self.rebuild(cx);
        let mut effects = self.ended_pulls();
        let pause = self.pause();
        effects.push(self.ask(cx, pause));
        effects
    }

    /// Reports the awaited pulls that have ended.
    fn ended_pulls(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        let answers = &self.answers;
        self.awaited.retain(|(node, image)| {
            let Some(NodeAnswer::Images(listed)) = answers.get(node) else { return true };
            let label = || format!("{} on {}", clean(image), clean(node));
            match listed.pulls.iter().find(|pull| pull.image == *image) {
                Some(pull) => match &pull.error {
                    None => return true,
                    Some(error) => {
                        effects.push(Effect::failed(format!("pull of {}: {}", label(), clean(error))));
                    }
                },
                None => effects.push(Effect::done(format!("pulled {}", label()))),
            }
            false
        });
        effects
    }
}

fn row_id(row: &ImageRow) -> RowId {
    (row.node.clone(), row.id.clone(), row.names.first().cloned().unwrap_or_default())
}

/// Returns the full names of the images of a pod's containers.
fn images_of(pod: &Pod) -> BTreeSet<String> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.filter_map(|container| container.image.as_deref()).map(full_image_name).collect()
}

/// Returns the facts of a row, for a text that cannot be read from the node.
fn known(row: &ImageRow) -> Vec<String> {
    let mut lines: Vec<String> = row.names.iter().map(|name| format!("name  {name}")).collect();
    if !row.id.is_empty() {
        lines.push(format!("id    {}", row.id));
    }
    lines.extend(row.size_bytes.map(|bytes| format!("size  {}", base::decimal_size::decimal_size(bytes))));
    lines.extend(row.pods.iter().map(|pod| format!("pod   {pod}")));
    lines
}

fn open_details(row: &ImageRow) -> Vec<Effect> {
    match &row.pull {
        Some(PullRow::Failed(error)) => vec![Effect::failed(clean(error).into_owned())],
        Some(PullRow::Running(_)) => vec![Effect::info("its pull goes on")],
        None => {
            // An id means one image; a name of the catalogue's images has none in the store.
            let stored = matches!(
                row.source,
                NodeImageSource::Pulled | NodeImageSource::Loaded | NodeImageSource::Built
            );
            let image = if stored { &row.id } else { row.name() };
            vec![open_text(row, image, ImageContent::Details)]
        }
    }
}

fn open_explanation(row: &ImageRow) -> Vec<Effect> {
    if !row.is_managed {
        let node = clean(&row.node);
        return vec![Effect::failed(format!("the kubelet of {node} does not explain names of images"))];
    }
    match row.names.first() {
        Some(name) => vec![open_text(row, name, ImageContent::Explanation)],
        None => vec![Effect::info("it has no name to explain")],
    }
}

fn open_text(row: &ImageRow, image: &str, content: ImageContent) -> Effect {
    let known = if content == ImageContent::Details { known(row) } else { Vec::new() };
    let (node, image) = (row.node.clone(), image.to_owned());
    Effect::open(Route::ImageText(ImageTextRoute { node, image, content, known }))
}

/// Lists the pods of the node that use the image.
fn open_pods(cx: &Context<'_>, row: &ImageRow) -> Vec<Effect> {
    if row.pods.is_empty() {
        let note = format!("no pod of {} uses {}", clean(&row.node), clean(row.name()));
        return vec![Effect::info(note)];
    }
    let used = ImageUse {
        node: row.node.clone(),
        names: if row.names.is_empty() { vec![row.id.clone()] } else { row.names.clone() },
        pods: row.pods.clone(),
    };
    let table = TableRoute::of(cx.catalogue.kind::<Pod>()).only(RowScope::UsingImage(used));
    vec![Effect::open(table)]
}

impl View for Images {
    fn title(&self, _cx: &Context<'_>) -> String {
        match &self.only {
            ImageScope::All => "Images".to_owned(),
            ImageScope::Node(name) => clean(&format!("Images of {name}")).into_owned(),
            ImageScope::Pod(pod) => clean(&format!("Images of {}", pod.name)).into_owned(),
        }
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Images, KeyContext::List]
    }

    fn refuses(&self, _cx: &Context<'_>, command: Command) -> Option<String> {
        if self.visible().is_empty() { object_commands::refuses_without_row(command) } else { None }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened => {
                self.rebuild(cx);
                return vec![self.ask(cx, Duration::ZERO)];
            }
            ScreenMessage::Command(command) => return self.command(cx, command),
            ScreenMessage::Mouse(event) => {
                let visible = self.visible();
                if let Some(to) = Window::wheel(event, self.at(&visible), visible.len()) {
                    self.set_place(to);
                }
            }
            ScreenMessage::Data(data) if data.peek::<ImageOperation>().is_some() => {
                return data.take().map(|operation| self.operate(cx, operation)).unwrap_or_default();
            }
            ScreenMessage::Data(data) => {
                if let Some(ImagesData::Answers(answers)) = data.take() {
                    return self.take(cx, answers);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn background(&self, _cx: &Context<'_>) -> Option<String> {
        let (_, image) = self.awaited.first()?;
        let last = image.rsplit('/').next().unwrap_or(image);
        Some(clean(&format!("pull {last}")).into_owned())
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }

    fn variables(&self, _cx: &Context<'_>) -> Vec<(String, String)> {
        let visible = self.visible();
        let Some(row) = visible.get(self.at(&visible)) else { return Vec::new() };
        let named =
            [("NAME", row.name()), ("NODE", &row.node), ("COL-IMAGE", row.name()), ("COL-ID", &row.id)];
        named.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        self.keep_cursor();
        Ok(())
    }
}
