//! The table of a kind: sort, filter, marks, drill-down; and every command on its objects.
//!
//!
//! ```text
//!  mod   what is listed, as the store changes      keys   moving, marks, sorting, mouse
//!  shape which columns, how wide                   view   draws
//!  watch lists and watches kinds without a store
//! ```
//!
//! The selection is a uid. Rows follow the store change by change; a screen that was covered builds its
//! rows anew when it is shown again.

mod keys;
mod shape;
mod view;
mod watch;

use std::cell::Cell as Slot;
use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::console::command::{Command, Where};
use crate::console::context::Context;
use crate::console::effect::{Effect, Scope};
use crate::console::index::{Direction, Filter, Index, Sort};
use crate::console::message::{Data, ScreenMessage};
use crate::console::object_commands;
use crate::console::query::Query;
use crate::console::resource::{Kind, ObjectRef, Uid, Watched};
use crate::console::rows::server_table::{self, ColumnDefinition, TableRow};
use crate::console::rows::{self, Column, Row};
use crate::console::store::{Touched, controller_of};
use crate::console::text::clean;
use shape::Widths;

/// How long a changed cell is shown as changed.
const FLASH: SignedDuration = SignedDuration::from_millis(1_500);

/// What its watch of a kind without a store sends.
#[derive(Debug)]
pub enum Loaded {
    /// The whole list.
    List(Vec<ColumnDefinition>, Vec<TableRow>),
    /// One object came or changed.
    Applied(TableRow),
    /// One object went.
    Deleted(TableRow),
    /// The server refused; it is tried again.
    Failed(String),
}

/// Which objects of the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// All in scope.
    All,
    /// Pods on a node.
    OnNode(String),
    /// Owned by this object, or by what it owns.
    OwnedBy(ObjectRef),
    /// In one namespace, whatever the scope.
    In(String),
    /// Pods a service or budget selects: its labels.
    Selected(ObjectRef),
}

/// The screen.
#[derive(Debug)]
pub struct Table {
    pub(super) kind: Kind,
    pub(super) only: Only,
    pub(super) columns: Vec<Column>,
    pub(super) index: Index,
    pub(super) query: String,
    pub(super) cursor: Option<Uid>,
    /// Where the cursor was, for when its object goes.
    pub(super) place: usize,
    pub(super) marks: HashSet<Uid>,
    pub(super) last_mark: Option<Uid>,
    pub(super) flashes: HashMap<Uid, (u64, Timestamp)>,
    pub(super) wide: bool,
    pub(super) picked: Option<usize>,
    pub(super) loaded: bool,
    pub(super) failed: Option<String>,
    /// Events are held: what is drawn stays.
    pub(super) held: bool,
    pub(super) warnings: bool,
    widths: Widths,
    definitions: Vec<ColumnDefinition>,
    rebuilt: Option<Timestamp>,
    pub(super) offset: Slot<usize>,
    pub(super) height: Slot<usize>,
    pub(super) body: Slot<Rect>,
    pub(super) shift: Slot<usize>,
}

impl Table {
    /// All objects of a kind in scope.
    pub fn of(kind: Kind) -> Self {
        let sort = match kind.watched {
            // The newest event first: its age is the least.
            Some(Watched::Events) => Sort { column: Some(0), direction: Direction::Up },
            _ => Sort { column: None, direction: Direction::Up },
        };
        Self {
            columns: kind.watched.map(rows::columns).unwrap_or_default(),
            kind,
            only: Only::All,
            index: Index::new(sort),
            query: String::new(),
            cursor: None,
            place: 0,
            marks: HashSet::new(),
            last_mark: None,
            flashes: HashMap::new(),
            wide: false,
            picked: None,
            loaded: false,
            failed: None,
            held: false,
            warnings: false,
            widths: Widths::default(),
            definitions: Vec::new(),
            rebuilt: None,
            offset: Slot::new(0),
            height: Slot::new(1),
            body: Slot::new(Rect::ZERO),
            shift: Slot::new(0),
        }
    }

    /// Only some of them.
    #[must_use]
    pub fn only(mut self, only: Only) -> Self {
        self.only = only;
        self
    }

    /// Filtered from the start.
    pub fn filtered(mut self, query: &str) -> Result<Self, String> {
        self.query_text(query)?;
        Ok(self)
    }

    /// With the cursor on an object.
    #[must_use]
    pub fn at(mut self, uid: Option<Uid>) -> Self {
        self.cursor = uid;
        self
    }

    fn query_text(&mut self, text: &str) -> Result<(), String> {
        let query = Query::parse(text)?;
        text.clone_into(&mut self.query);
        self.index.set_filter(Filter { query, ..self.index.filter().clone() });
        Ok(())
    }

    /// The place of the cursor in the order.
    pub(super) fn cursor_place(&self) -> usize {
        let last = self.index.len().saturating_sub(1);
        self.cursor.as_ref().and_then(|uid| self.index.place(uid)).unwrap_or(self.place).min(last)
    }

    /// The object a row stands for.
    pub(super) fn object(&self, row: &Row) -> ObjectRef {
        ObjectRef {
            kind: self.kind.clone(),
            namespace: row.namespace.clone(),
            name: row.name.clone(),
            uid: Some(row.uid.clone()),
        }
    }

    /// The object under the cursor.
    pub fn selected(&self) -> Option<ObjectRef> {
        self.index.at(self.cursor_place()).map(|row| self.object(row))
    }

    /// The marked objects, hidden ones too; without marks the one under the cursor.
    pub fn targets(&self) -> Vec<ObjectRef> {
        if self.marks.is_empty() {
            return self.selected().into_iter().collect();
        }
        let mut marked: Vec<&Row> = self.marks.iter().filter_map(|uid| self.index.get(uid)).collect();
        marked.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        marked.into_iter().map(|row| self.object(row)).collect()
    }

    /// How many marked objects the filter hides.
    pub fn hidden_marks(&self) -> usize {
        self.marks
            .iter()
            .filter(|uid| self.index.get(uid).is_some() && self.index.place(uid).is_none())
            .count()
    }

    fn go(&mut self, place: usize) {
        let place = place.min(self.index.len().saturating_sub(1));
        self.place = place;
        self.cursor = self.index.at(place).map(|row| row.uid.clone());
    }

    fn belongs(&self, cx: &Context<'_>, kind: Watched, uid: &Uid, row: &Row) -> bool {
        if self.warnings && row.look.is_none() {
            return false;
        }
        match &self.only {
            Only::All => cx.scope.holds(row.namespace.as_deref()),
            Only::In(namespace) => row.namespace.as_deref() == Some(namespace),
            Only::OnNode(node) => {
                let pod = cx.stores.pods.get(uid);
                pod.and_then(|pod| pod.spec.as_ref()?.node_name.as_deref()) == Some(node)
            }
            Only::OwnedBy(owner) => {
                let direct = match kind {
                    Watched::Pods => cx.stores.pods.get(uid).and_then(|pod| controller_of(&**pod)),
                    Watched::ReplicaSets => {
                        cx.stores.replica_sets.get(uid).and_then(|set| controller_of(&**set))
                    }
                    _ => None,
                };
                let above = direct.as_ref().and_then(|direct| cx.stores.replica_sets.get(direct));
                let above = above.and_then(|set| controller_of(&**set));
                owner.uid.is_some() && (direct == owner.uid || above == owner.uid)
            }
            Only::Selected(by) => object_commands::selects(cx, by, row),
        }
    }

    fn rebuild(&mut self, cx: &Context<'_>) {
        let Some(kind) = self.kind.watched else { return };
        self.rebuilt = Some(cx.now);
        self.loaded = rows::synced(cx.stores, kind);
        let all = rows::uids(cx.stores, kind).into_iter().filter_map(|uid| {
            let row = rows::row(cx.stores, kind, &uid)?;
            self.belongs(cx, kind, &uid, &row).then_some(row)
        });
        let all: Vec<Row> = all.collect();
        self.reset(all);
    }

    fn reset(&mut self, rows: Vec<Row>) {
        for row in &rows {
            self.widths.learn(row);
        }
        self.index.reset(rows);
        // What is gone, or out of scope, must not be acted on, nor counted as marked.
        self.marks.retain(|uid| self.index.get(uid).is_some());
        self.keep_cursor();
    }

    fn changed(&mut self, cx: &Context<'_>, kind: Watched, touched: &Touched) {
        if self.held {
            return;
        }
        let own = self.kind.watched == Some(kind);
        // The pods of a node are counted in its row.
        let counted = self.kind.watched == Some(Watched::Nodes) && kind == Watched::Pods;
        // Which pods a deployment owns shows only once its replica sets are known.
        let owners = matches!(self.only, Only::OwnedBy(_)) && kind == Watched::ReplicaSets;
        if counted {
            let recent =
                self.rebuilt.is_some_and(|at| cx.now.duration_since(at) < SignedDuration::from_secs(1));
            if self.index.total() <= 64 || !recent {
                self.rebuild(cx);
            }
            return;
        }
        match touched {
            Touched::All if own || owners => self.rebuild(cx),
            Touched::Some(uids) if own && uids.len() <= 64 + self.index.total() / 8 => {
                for uid in uids {
                    let row = rows::row(cx.stores, kind, uid).filter(|row| self.belongs(cx, kind, uid, row));
                    self.put_or_take(cx, uid, row);
                }
                self.keep_cursor();
            }
            Touched::Some(_) if own => self.rebuild(cx),
            _ => {}
        }
    }

    fn put_or_take(&mut self, cx: &Context<'_>, uid: &Uid, row: Option<Row>) {
        let Some(row) = row else {
            self.index.take(uid);
            self.marks.remove(uid);
            self.flashes.remove(uid);
            return;
        };
        self.widths.learn(&row);
        let after = row.cells.clone();
        let before = self.index.put(row);
        let mask = match &before {
            None => u64::MAX,
            Some(before) => {
                before.cells.iter().zip(&after).enumerate().fold(0, |mask, (column, (old, new))| {
                    if old == new { mask } else { mask | 1 << column.min(63) }
                })
            }
        };
        if mask != 0 {
            if self.flashes.len() > 512 {
                self.flashes.retain(|_, (_, until)| *until > cx.now);
            }
            let until = cx.now.saturating_add(FLASH).unwrap_or(cx.now);
            self.flashes.insert(uid.clone(), (mask, until));
        }
    }

    fn keep_cursor(&mut self) {
        let place = self.cursor_place();
        self.go(place);
    }

    fn loaded(&mut self, cx: &Context<'_>, loaded: Loaded) {
        match loaded {
            Loaded::List(definitions, list) => {
                self.columns = server_table::columns(&definitions);
                self.reset(list.iter().filter_map(|row| server_table::row(&definitions, row)).collect());
                self.definitions = definitions;
                self.loaded = true;
                self.failed = None;
            }
            Loaded::Applied(row) => {
                if let Some(row) = server_table::row(&self.definitions, &row) {
                    let uid = row.uid.clone();
                    self.put_or_take(cx, &uid, Some(row));
                    self.keep_cursor();
                }
            }
            Loaded::Deleted(row) => {
                if let Some(uid) = row.object.metadata.uid.as_deref() {
                    self.put_or_take(cx, &Uid::from(uid), None);
                    self.keep_cursor();
                }
            }
            Loaded::Failed(why) => self.failed = Some(why),
        }
    }

    fn open(&mut self, cx: &Context<'_>) -> Vec<Effect> {
        self.widths.clear();
        if self.kind.watched.is_some() {
            self.rebuild(cx);
            return Vec::new();
        }
        let namespace = match (&self.only, cx.scope) {
            (Only::In(namespace), _) | (_, Scope::One(namespace)) => Some(namespace.clone()),
            _ => None,
        };
        let kind = self.kind.clone();
        vec![Effect::task("watch", move |out| watch::follow(out, kind, namespace))]
    }
}

impl View for Table {
    fn title(&self, _cx: &Context<'_>) -> String {
        let of = match &self.only {
            Only::All => String::new(),
            Only::OnNode(name) | Only::In(name) => format!(" of {name}"),
            Only::OwnedBy(object) | Only::Selected(object) => format!(" of {}", object.name),
        };
        clean(&format!("{}{of}", self.kind.heading())).into_owned()
    }

    fn places(&self, cx: &Context<'_>) -> Vec<Where> {
        let mut places = match self.kind.watched {
            Some(Watched::Pods)
                if self.selected().is_some_and(|pod| object_commands::is_unscheduled(cx, &pod)) =>
            {
                vec![Where::Unscheduled, Where::Pods]
            }
            Some(Watched::Pods) => vec![Where::Pods],
            Some(Watched::Deployments) => vec![Where::Deployments, Where::Workloads],
            Some(Watched::ReplicaSets) => vec![Where::Workloads],
            Some(Watched::Nodes) => vec![Where::Nodes],
            Some(Watched::Events) => vec![Where::Events],
            Some(Watched::Namespaces) => vec![Where::Namespaces],
            _ if self.kind.scalable || matches!(self.kind.kind.as_str(), "DaemonSet" | "Job") => {
                vec![Where::Workloads]
            }
            _ => Vec::new(),
        };
        places.extend([Where::Objects, Where::List]);
        places
    }

    fn refuses(&self, _cx: &Context<'_>, command: Command) -> Option<String> {
        object_commands::refuses(&self.kind, command, self.marks.len())
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        match message {
            ScreenMessage::Shown => self.rebuild(cx),
            ScreenMessage::Opened | ScreenMessage::Scoped => return self.open(cx),
            ScreenMessage::Changed(kind, touched) => self.changed(cx, kind, &touched),
            ScreenMessage::Command(command) => return self.command(cx, command),
            ScreenMessage::Mouse(event) if self.mouse(event) => return self.command(cx, Command::Enter),
            ScreenMessage::Data(Data::Table(loaded)) => self.loaded(cx, loaded),
            _ => {}
        }
        Vec::new()
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        view::draw(self, cx, frame, area);
    }

    fn query(&self) -> &str {
        &self.query
    }

    fn set_query(&mut self, _cx: &Context<'_>, query: &str) -> Result<(), String> {
        self.query_text(query)?;
        // An object that the filter hides is no place to stay near; the first match is.
        if self.cursor.as_ref().and_then(|uid| self.index.place(uid)).is_none() {
            self.place = 0;
        }
        self.keep_cursor();
        Ok(())
    }
}
