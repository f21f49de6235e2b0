//! The owner tree (`:xray`): from top-level owners down to containers, each with its health (CON-2, CON-19).
//!
//! ```text
//! ╭ Owners all ─────────────────────────────────────────────╮
//! │ ● Deployment default/web        2/2                        │
//! │ ├ ● ReplicaSet web-5f6b8        2/2                        │
//! │ │ ├ ● Pod web-5f6b8-x           Running    node-1          │
//! ╰──────────────────────────────────────────────────────────╯
//! ```
//!
//! The console lists the workloads of all kinds, and the kind that the user named, while the tree is open. Other owners
//! are known from the references of the objects they own: the tree is built from references. Services own no pods:
//! `:xray services` lists the selected pods below each service, so that a pod may appear more than once.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};

use base::sort::SliceOrder;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use object::owner::controller_of;
use object::selector::Selector;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::View;
use crate::object_commands;
use console_data::builtin_kinds;
use console_data::context::Context;
use console_data::message::ScreenMessage;
use console_data::related;
use console_data::resource::{Kind, ObjectRef, ResourceKey, Uid};
use console_data::rows::workload;
use console_data::rows::workloads::state_in_words;
use console_data::store::{Object, StoredObject};
use console_data::workloads::{self, Workload};
use console_operations::effect::Effect;
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::health::Health;
use console_toolkit::search::Filter;
use console_toolkit::text::{clean, fit, grouped, pad, tail};
use console_toolkit::widget::cursor::Window;
use console_toolkit::widget::notice;
use console_toolkit::widget::title::title_line;

/// Maximum depth of owner references; it prevents endless loops in cyclic references.
const DEPTH: usize = 8;
/// Minimum number of lines for which changes are batched.
const GREAT: usize = 256;
/// Changes of a large tree within this time are applied together.
const TOGETHER: SignedDuration = SignedDuration::from_secs(1);

#[derive(Clone, Debug, PartialEq)]
struct TreeLine {
    object: ObjectRef,
    uid: Uid,
    /// The uid of the parent line: a pod that two services select has a line below each of them.
    above: Option<Uid>,
    /// For each level, whether more lines follow; the last element is for the line itself.
    more: Vec<bool>,
    health: Health,
    /// The state in one or two words.
    state: String,
}

impl TreeLine {
    /// Returns the object's kind, namespace and name, in `columns`. If they do not fit, the kind is abbreviated, then
    /// the namespace and the kind are dropped; of a long name the end stays, because it distinguishes pods of one
    /// owner.
    fn label(&self, columns: usize) -> String {
        let (kind, name) = (&self.object.kind, &self.object.name);
        // Objects have the namespace of their owner.
        let namespace = self.object.namespace.as_deref().filter(|_| self.more.is_empty());
        let namespace = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let short = kind.short_names.first().map_or(kind.kind.as_str(), String::as_str);
        let labels = [
            format!("{} {namespace}{name}", kind.kind),
            format!("{short} {namespace}{name}"),
            format!("{short} {name}"),
            name.clone(),
        ];
        let fitting = labels.iter().map(|label| clean(label)).find(|label| label.width() <= columns);
        fitting.map_or_else(|| tail(&clean(name), columns).into_owned(), Cow::into_owned)
    }
}

/// The screen that shows the owner tree.
#[derive(Debug, Default)]
pub struct Tree {
    /// The kind at the top of the trees, if the user named one.
    kind: Option<Kind>,
    built: RefCell<BuiltTree>,
    /// True if something changed since the tree was built.
    stale: Cell<bool>,
    /// The uids of the selected line's parent and of the line itself.
    cursor: Option<(Option<Uid>, Uid)>,
    filter: Filter,
    faults: bool,
    window: Window,
}

/// The tree, and when it was built.
#[derive(Debug, Default)]
struct BuiltTree {
    leaves: Vec<TreeLine>,
    at: Option<Timestamp>,
}

/// A node of the tree before it becomes a line.
struct TreeNode {
    object: ObjectRef,
    health: Health,
    state: String,
}

impl Tree {
    /// Creates the tree for owners of a kind, or for all.
    pub(crate) fn new(kind: Option<Kind>) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Returns the kind at the top of the trees, if the user named one.
    pub(crate) fn kind(&self) -> Option<&Kind> {
        self.kind.as_ref()
    }

    /// Returns the kinds to list while the tree is open: all workloads, and the kind at the top.
    pub fn kinds(&self) -> Vec<Kind> {
        std::iter::once(workloads::kind()).chain(self.kind.clone()).collect()
    }

    /// Rebuilds the tree if something changed. A large tree is rebuilt at most once in a while, not at each change of a
    /// burst.
    fn refresh(&self, cx: &Context<'_>) {
        let (at, count) = {
            let made = self.built.borrow();
            (made.at, made.leaves.len())
        };
        if let Some(at) = at {
            if !self.stale.get() {
                return;
            }
            let next = at.saturating_add(TOGETHER).unwrap_or(at);
            if count > GREAT && cx.now < next {
                return cx.redraw_at(next);
            }
        }
        let of_services =
            self.kind.as_ref().is_some_and(|kind| kind.resource == ResourceKey::of::<Service>());
        let leaves = if of_services { services(cx) } else { self.make(cx) };
        self.stale.set(false);
        *self.built.borrow_mut() = BuiltTree { leaves, at: Some(cx.now) };
    }

    fn make(&self, cx: &Context<'_>) -> Vec<TreeLine> {
        let mut nodes: HashMap<Uid, TreeNode> = HashMap::new();
        let mut children: HashMap<Uid, Vec<Uid>> = HashMap::new();
        let mut tops: Vec<Uid> = Vec::new();
        let mut add = |object: ObjectRef, owner: Option<&OwnerReference>, health: Health, state: String| {
            let Some(uid) = object.uid.clone() else { return };
            if !cx.scope.holds(object.namespace.as_deref()) {
                return;
            }
            match owner {
                Some(owner) => {
                    let above = Uid::from(owner.uid.as_str());
                    children.entry(above.clone()).or_default().push(uid.clone());
                    // The object itself, if it is known, replaces the entry known only by reference.
                    if !nodes.contains_key(&above) {
                        let owner = related::by_reference(cx.catalogue, owner, object.namespace.clone());
                        let state = String::new();
                        nodes.insert(
                            above.clone(),
                            TreeNode { object: owner, health: Health::Unknown, state },
                        );
                        tops.push(above);
                    }
                }
                None => tops.push(uid.clone()),
            }
            nodes.insert(uid, TreeNode { object, health, state });
        };
        let stores = cx.stores;
        for (_, deployment) in stores.deployments().iter() {
            let (word, health) = workload::deployment_state(deployment);
            let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            let state = format!("{ready}/{} {word}", deployment.spec.replicas.unwrap_or(1));
            let meta = &deployment.metadata;
            let object = ObjectRef::named(cx.catalogue.kind::<Deployment>(), meta);
            add(object, controller_of(meta), health, state);
        }
        for (_, set) in stores.replica_sets().iter() {
            let want = set.spec.replicas.unwrap_or(1);
            let ready = set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            let there = set.status.as_ref().map_or(0, |status| status.replicas);
            // ReplicaSets scaled to zero are history, which the rollout screen shows.
            if want == 0 && there == 0 {
                continue;
            }
            let health = if ready >= want { Health::Running } else { Health::Pending };
            let object = ObjectRef::named(cx.catalogue.kind::<ReplicaSet>(), &set.metadata);
            add(object, controller_of(&set.metadata), health, format!("{ready}/{want}"));
        }
        for (resource, store) in stores.all() {
            let workload = Workload::of(resource);
            let is_named = self.kind.as_ref().is_some_and(|kind| kind.resource == *resource);
            if builtin_kinds::contains(resource) || workload.is_none() && !is_named {
                continue;
            }
            let Some(kind) = kind_of(cx, resource) else { continue };
            for row in store.iter().filter_map(|(uid, _)| store.row(uid)) {
                let meta = row.metadata();
                let state = workload.and_then(|workload| state_in_words(workload, row));
                // Without a state, the object has that of the objects it owns.
                let (health, state) = state.unwrap_or((Health::Unknown, String::new()));
                add(ObjectRef::named(kind.clone(), meta), controller_of(meta), health, state);
            }
        }
        let kind = cx.catalogue.kind::<Pod>();
        for pod in stores.pods().entries() {
            let (health, state) = pod_state(&pod);
            add(pod.object(kind.clone()), pod.controller.as_deref(), health, state);
        }
        // An owner known only by reference may have an owner itself.
        let owned: HashSet<&Uid> = children.values().flatten().collect();
        tops.retain(|uid| !owned.contains(uid));
        let order = |uids: &mut Vec<Uid>| {
            uids.order_by_cached_key(|uid| {
                let object = nodes.get(uid).map(|node| &node.object);
                object.map(|object| (object.namespace.clone(), object.kind.kind.clone(), object.name.clone()))
            });
            uids.dedup();
        };
        order(&mut tops);
        let mut sorted: BTreeMap<Uid, Vec<Uid>> = BTreeMap::new();
        for (owner, mut uids) in children {
            order(&mut uids);
            sorted.insert(owner, uids);
        }
        // Each object of the named kind starts a tree, even if it has an owner.
        if let Some(kind) = &self.kind {
            let named = nodes.iter().filter(|(_, node)| node.object.kind.resource == kind.resource);
            tops = named.map(|(uid, _)| uid.clone()).collect();
            order(&mut tops);
        }
        // An owner known only by reference has the health of the objects it owns.
        let mut writer = Writer { nodes: &nodes, children: &sorted, leaves: Vec::new() };
        for top in &tops {
            writer.write(top, None, &mut Vec::new());
        }
        writer.leaves
    }

    /// Returns the visible lines: those that match the search or are faults, with their ancestors, and with their
    /// descendants unless only faults are shown.
    fn visible_lines(&self) -> Vec<TreeLine> {
        let leaves = &self.built.borrow().leaves;
        if self.filter.is_empty() && !self.faults {
            return leaves.clone();
        }
        let hits: Vec<bool> = leaves
            .iter()
            .map(|leaf| {
                let namespace = leaf.object.namespace.as_deref();
                let text = self.filter.matches(&leaf.object.name)
                    || self.filter.matches(&leaf.state)
                    || namespace.is_some_and(|namespace| self.filter.matches(namespace));
                text && (!self.faults || leaf.health.is_fault() || leaf.health == Health::Pending)
            })
            .collect();
        let depth = |at: usize| leaves[at].more.len();
        let mut keep = hits.clone();
        for at in 0..hits.len() {
            if !hits[at] {
                continue;
            }
            let mut level = depth(at);
            for above in (0..at).rev() {
                if depth(above) < level {
                    level = depth(above);
                    keep[above] = true;
                }
                if level <= 1 {
                    break;
                }
            }
            if !self.faults {
                let below = (at + 1..hits.len()).take_while(|below| depth(*below) > depth(at));
                below.for_each(|below| keep[below] = true);
            }
        }
        leaves.iter().zip(keep).filter(|(_, keep)| *keep).map(|(leaf, _)| leaf.clone()).collect()
    }

    fn at(&self, shown: &[TreeLine]) -> usize {
        let is_it =
            |leaf: &TreeLine, (above, uid): &(Option<Uid>, Uid)| leaf.uid == *uid && leaf.above == *above;
        self.cursor.as_ref().and_then(|at| shown.iter().position(|leaf| is_it(leaf, at))).unwrap_or(0)
    }

    fn command(&mut self, cx: &Context<'_>, command: Command) -> Vec<Effect> {
        self.refresh(cx);
        let shown = self.visible_lines();
        let at = self.at(&shown);
        if let Some(to) = self.window.step(command, at, shown.len()) {
            self.cursor = shown.get(to).map(|leaf| (leaf.above.clone(), leaf.uid.clone()));
            return Vec::new();
        }
        match command {
            Command::Faults => self.faults = !self.faults,
            Command::Refresh => self.stale.set(true),
            _ => return object_commands::on(cx, command, shown.get(at).map(|leaf| leaf.object.clone())),
        }
        Vec::new()
    }
}

/// Writes the tree, line by line.
struct Writer<'a> {
    nodes: &'a HashMap<Uid, TreeNode>,
    children: &'a BTreeMap<Uid, Vec<Uid>>,
    leaves: Vec<TreeLine>,
}

impl Writer<'_> {
    fn write(&mut self, uid: &Uid, above: Option<&Uid>, more: &mut Vec<bool>) {
        let Some(node) = self.nodes.get(uid) else { return };
        if more.len() > DEPTH {
            return;
        }
        let below = self.children.get(uid).map(Vec::as_slice).unwrap_or_default();
        let at = self.leaves.len();
        self.leaves.push(TreeLine {
            object: node.object.clone(),
            uid: uid.clone(),
            above: above.cloned(),
            more: more.clone(),
            health: node.health,
            state: node.state.clone(),
        });
        for (index, child) in below.iter().enumerate() {
            more.push(index + 1 < below.len());
            self.write(child, Some(uid), more);
            more.pop();
        }
        if node.state.is_empty() && !below.is_empty() {
            let depth = more.len() + 1;
            let own: Vec<Health> = self.leaves[at + 1..]
                .iter()
                .filter(|leaf| leaf.more.len() == depth)
                .map(|leaf| leaf.health)
                .collect();
            let well =
                own.iter().filter(|health| matches!(health, Health::Running | Health::Succeeded)).count();
            self.leaves[at].health = if well == own.len() { Health::Running } else { Health::Pending };
            self.leaves[at].state = format!("{well}/{}", own.len());
        }
    }
}

/// Returns the kind of a resource as discovery lists it, or of a workload before discovery answers.
fn kind_of(cx: &Context<'_>, resource: &ResourceKey) -> Option<Kind> {
    let known = cx.catalogue.kinds().iter().find(|kind| kind.resource == *resource).cloned();
    known.or_else(|| Workload::of(resource).map(Workload::kind))
}

/// Returns the services, each with its selected pods below it.
fn services(cx: &Context<'_>) -> Vec<TreeLine> {
    let mut all: Vec<&Service> = cx.stores.services().iter().map(|(_, service)| service).collect();
    all.retain(|service| cx.scope.holds(service.metadata.namespace.as_deref()));
    all.order_by_key(|service| (service.metadata.namespace.as_deref(), service.metadata.name.as_deref()));
    let mut pods: HashMap<Option<&str>, Vec<_>> = HashMap::new();
    for pod in cx.stores.pods().entries() {
        pods.entry(pod.open().namespace()).or_default().push(pod);
    }
    for pods in pods.values_mut() {
        pods.order_by(|one, other| one.name().cmp(other.name()));
    }
    let (kind, pod_kind) = (cx.catalogue.kind::<Service>(), cx.catalogue.kind::<Pod>());
    let mut leaves = Vec::new();
    for service in all {
        let object = ObjectRef::named(kind.clone(), &service.metadata);
        let Some(uid) = object.uid.clone() else { continue };
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = selector.filter(|selector| !selector.is_empty()).map(Selector::from_labels);
        let near = pods.get(&service.metadata.namespace.as_deref()).map(Vec::as_slice).unwrap_or_default();
        let hit = |pod: &&StoredObject<'_, Pod>| {
            selector.as_ref().is_some_and(|selector| selector.matches(Some(&pod.labels)))
        };
        let selected: Vec<_> = near.iter().filter(hit).collect();
        let well = selected.iter().filter(|pod| pod.summary.health == Health::Running).count();
        let (health, state) = match selected.len() {
            0 if selector.is_none() => (Health::Unknown, "no selector".to_owned()),
            0 => (Health::Pending, "selects no pod".to_owned()),
            count if well == count => (Health::Running, format!("{well}/{count}")),
            count => (Health::Pending, format!("{well}/{count}")),
        };
        leaves.push(TreeLine { object, uid: uid.clone(), above: None, more: Vec::new(), health, state });
        let count = selected.len();
        for (at, pod) in selected.into_iter().enumerate() {
            let object = pod.object(pod_kind.clone());
            let Some(own) = object.uid.clone() else { continue };
            let (health, state) = pod_state(pod);
            let more = vec![at + 1 < count];
            leaves.push(TreeLine { object, uid: own, above: Some(uid.clone()), more, health, state });
        }
    }
    leaves
}

/// Returns the health of a pod, and its state with its node.
fn pod_state(pod: &StoredObject<'_, Pod>) -> (Health, String) {
    let seen = &pod.summary;
    let node = seen.node.as_deref().unwrap_or("no node");
    (seen.health, format!("{} {}/{} on {node}", seen.status, seen.ready, seen.total))
}

impl View for Tree {
    fn title(&self, _cx: &Context<'_>) -> String {
        "Owners".into()
    }

    fn key_contexts(&self, _cx: &Context<'_>) -> Vec<KeyContext> {
        vec![KeyContext::Tree, KeyContext::List]
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Opened | ScreenMessage::Shown | ScreenMessage::ScopeChanged => {
                self.stale.set(true);
            }
            ScreenMessage::Changed(resource, _) => {
                let is_named = self.kind.as_ref().is_some_and(|kind| kind.resource == resource);
                if is_named || Workload::of(&resource).is_some() || resource == ResourceKey::of::<Service>() {
                    self.stale.set(true);
                }
            }
            ScreenMessage::Command(command) => return self.command(cx, command),
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        let theme = cx.theme;
        self.refresh(cx);
        let shown = self.visible_lines();
        let heading = self.kind.as_ref().map_or_else(|| "Owners".to_owned(), Kind::heading);
        let mut title = vec![
            Span::styled(format!(" {} ", clean(&heading)), theme.frame.title),
            Span::styled(format!("{} ", cx.scope.label()), theme.body.accent),
            Span::styled(format!("{} ", grouped(shown.len() as u64)), theme.body.dim),
        ];
        if !self.filter.is_empty() {
            title.push(Span::styled(format!("/{} ", clean(self.filter.text())), theme.status.pending));
        }
        if self.faults {
            title.push(Span::styled("faults only ", theme.status.pending));
        }
        let block = theme.block("").title_top(title_line(title, area.width));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        if shown.is_empty() {
            let text = match &self.kind {
                _ if !cx.stores.pods().synced() => "loading…".to_owned(),
                _ if !self.filter.is_empty() || self.faults => "none matches".to_owned(),
                Some(kind)
                    if builtin_kinds::contains(&kind.resource) && Workload::of(&kind.resource).is_none() =>
                {
                    format!("none of the {0} here owns anything; :{0} lists them", kind.resource.plural)
                }
                Some(kind) if cx.stores.synced(&kind.resource) => {
                    format!("no {} here", kind.resource.plural)
                }
                Some(kind) => match cx.links.refused(&kind.resource) {
                    Some(refusal) => format!("{}: {}", kind.resource.plural, refusal.label()),
                    None => "loading…".to_owned(),
                },
                None => "no object here owns another".to_owned(),
            };
            return notice::draw(&text, theme.body.dim, frame, inner);
        }
        let (width, height) = (usize::from(inner.width), usize::from(inner.height).max(1));
        let cursor = self.at(&shown);
        let visible = self.window.around(cursor, height, shown.len());
        let states = shown[visible.clone()].iter().map(|leaf| clean(&leaf.state).width());
        let state_width = states.max().unwrap_or(0).min((width / 3).clamp(10, 48));
        let lines: Vec<Line<'_>> = shown
            .iter()
            .enumerate()
            .skip(visible.start)
            .take(visible.len())
            .map(|(at, leaf)| {
                let mut branch = String::new();
                for (level, more) in leaf.more.iter().enumerate() {
                    branch.push_str(match (level + 1 == leaf.more.len(), more) {
                        (true, true) => "├ ",
                        (true, false) => "└ ",
                        (false, true) => "│ ",
                        (false, false) => "  ",
                    });
                }
                // A gap before the state.
                let name_width = width.saturating_sub(4 + branch.width() + state_width + 1);
                let name = pad(&leaf.label(name_width), name_width + 1);
                let line = Line::from(vec![
                    Span::raw(if at == cursor { "▸ " } else { "  " }),
                    Span::styled(branch, theme.body.dim),
                    Span::styled(format!("{} ", theme.state_sign(leaf.health)), theme.health(leaf.health)),
                    Span::raw(name),
                    Span::styled(
                        fit(&clean(&leaf.state), state_width).into_owned(),
                        theme.health(leaf.health),
                    ),
                ]);
                if at == cursor { theme.chosen(line) } else { line }
            })
            .collect();
        frame.render_widget(Paragraph::new(lines), inner);
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        self.refresh(cx);
        // Only a tree without lines: a large one is not searched for its selection for each key of the footer.
        let is_empty = cx.stores.pods().synced() && self.built.borrow().leaves.is_empty();
        if is_empty { object_commands::refuses_without_row(command) } else { None }
    }

    fn selected(&self, cx: &Context<'_>) -> Option<ObjectRef> {
        self.refresh(cx);
        let shown = self.visible_lines();
        shown.get(self.at(&shown)).map(|leaf| leaf.object.clone())
    }

    fn query(&self) -> Option<&str> {
        Some(self.filter.text())
    }

    fn set_query(&mut self, _cx: &Context<'_>, text: &str) -> Result<(), String> {
        self.filter = Filter::new(text)?;
        Ok(())
    }
}
