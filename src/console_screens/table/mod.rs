//! The table of a kind: sort, filter, marks, drill-down; and every command on its objects.
//!
//! ```text
//!  mod            the screen                     keys                   moving, marks, sorting, mouse
//!  follow         updates of the rows            row_scope              the listed objects
//!  column_layout  columns and their widths       view                   draws
//!  past           a point in the past            restore                saved for the next session
//!  custom         the user's columns             workloads              several kinds: all workloads
//!  multi_cluster  several clusters               multi_cluster_actions  commands on their rows
//!  linear         read row by row                build                  very many rows, step by step
//!  groups         groups of events               empty                  the text without rows
//! ```
//!
//! The selection is a uid. Rows follow the store change by change; a screen that was covered rebuilds its rows when it
//! is shown again.

mod build;
mod column_layout;
mod custom;
mod empty;
mod follow;
mod groups;
mod keys;
mod linear;
mod multi_cluster;
mod multi_cluster_actions;
mod past;
mod restore;
mod row_scope;
mod view;
mod workloads;

use std::borrow::Cow;
use std::cell::{Cell as Slot, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Pod};
use ratatui::Frame;
use ratatui::layout::Rect;

use super::View;
use crate::object_commands;
use base::sort::SliceOrder;
use build::TableBuild;
use column_layout::Widths;
use console_data::context::Context;
use console_data::index::{Filter, Index, Sort};
use console_data::kind_view;
use console_data::list::List;
use console_data::message::ScreenMessage;
use console_data::past::PastView;
use console_data::point_in_time::{PointInTime, TimeSelector, TimeTravel, WayBack};
use console_data::query::Query;
use console_data::related;
use console_data::resource::{ClusterId, Kind, ObjectRef, Uid};
use console_data::rows::custom::Layout;
use console_data::rows::{Column, Row, RowKey};
use console_data::sort_memory::Direction;
use console_data::workloads::Workload;
use console_operations::command_availability;
use console_operations::effect::{Effect, RowScope, TableRoute};
use console_toolkit::command::{Command, KeyContext};
use console_toolkit::text::clean;
use console_toolkit::widget::cursor::Window;
use groups::Groups;
use multi_cluster::MultiClusterScope;
pub use multi_cluster::State;

/// Duration of the highlight of a changed cell.
const FLASH: SignedDuration = SignedDuration::from_millis(1_500);

/// The screen that shows a table.
#[derive(Debug)]
pub struct Table {
    pub(super) kind: Kind,
    pub(super) only: RowScope,
    pub(super) columns: Vec<Column>,
    pub(super) index: Index,
    pub(super) query: String,
    pub(super) cursor: Option<RowKey>,
    /// The index of the cursor's row; the cursor stays at this index when its object disappears.
    pub(super) row_index: usize,
    pub(super) marks: HashSet<RowKey>,
    pub(super) last_mark: Option<RowKey>,
    pub(super) flashes: HashMap<RowKey, (u64, Timestamp)>,
    pub(super) wide: bool,
    pub(super) picked: Option<usize>,
    pub(super) loaded: bool,
    /// True while the table of events is paused; the drawn rows stay.
    pub(super) paused: bool,
    /// Number of changes that were not shown since the pause.
    pub(super) missed: usize,
    /// The groups, if events are shown in groups.
    groups: Option<Groups>,
    pub(super) warnings: bool,
    /// The past state that is shown instead of the present.
    past: Option<Box<PastView>>,
    /// A step of time travel is in progress.
    pub(super) travelling: bool,
    /// The point in time to show first; nothing is shown until it arrives.
    opens_at: Option<TimeSelector>,
    back_target: WayBack,
    widths: RefCell<Widths>,
    /// A row with the widest text of a column has changed or is gone.
    has_narrowed: Slot<bool>,
    /// The clusters of a table over several clusters, or over other clusters than the screen's own.
    over: Option<MultiClusterScope>,
    /// The kinds of its rows, if there are several.
    kinds: BTreeMap<(Option<ClusterId>, Workload), Kind>,
    /// The names of the kind's own columns.
    own: Vec<Cow<'static, str>>,
    /// The user's columns.
    layout: Option<Layout>,
    /// Pending warnings about columns and the selection.
    news: Vec<String>,
    /// Pending sort order and selection.
    restore_target: restore::RestoreTarget,
    /// True if the user moved the cursor.
    pub(super) moved: bool,
    rebuilt: Option<Timestamp>,
    /// Objects with outdated rows, to be rebuilt.
    stale: Vec<Uid>,
    /// New rows, shown when they are complete.
    building: Option<Box<TableBuild>>,
    pub(super) window: Window,
    pub(super) body: Slot<Rect>,
    pub(super) shift: Slot<usize>,
}

impl Table {
    /// Creates the table that a route describes.
    pub(crate) fn new(route: TableRoute) -> Self {
        let TableRoute { kind, only, at, name, filter, clusters: over, when } = route;
        // The newest event has the smallest age, and comes first.
        let column = kind.is::<Event>().then_some(0);
        let mut table = Self {
            columns: Vec::new(),
            kind,
            only,
            index: Index::new(Sort { column, direction: Direction::Up }),
            query: String::new(),
            cursor: at.map(RowKey::from),
            row_index: 0,
            marks: HashSet::new(),
            last_mark: None,
            flashes: HashMap::new(),
            wide: false,
            picked: None,
            loaded: false,
            paused: false,
            missed: 0,
            groups: None,
            warnings: false,
            past: None,
            travelling: false,
            opens_at: when,
            back_target: if when.is_some() { WayBack::ViewBelow } else { WayBack::Now },
            widths: RefCell::default(),
            has_narrowed: Slot::new(false),
            over: (!over.is_empty()).then(|| MultiClusterScope::new(over)),
            kinds: BTreeMap::new(),
            own: Vec::new(),
            layout: None,
            news: Vec::new(),
            restore_target: restore::RestoreTarget::named(name),
            moved: false,
            rebuilt: None,
            stale: Vec::new(),
            building: None,
            window: Window::default(),
            body: Slot::new(Rect::ZERO),
            shift: Slot::new(0),
        };
        // The filter of a route is already validated.
        let _ = table.query_text(&filter);
        table
    }

    /// Returns the number of all rows, including hidden ones.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn row_count(&self) -> usize {
        self.index.total()
    }

    /// Time of the last complete rebuild.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn rebuilt_at(&self) -> Option<Timestamp> {
        self.rebuilt
    }

    fn query_text(&mut self, text: &str) -> Result<(), String> {
        let query = Query::parse(text)?;
        text.clone_into(&mut self.query);
        self.index.set_filter(Filter { query, ..self.index.filter().clone() });
        Ok(())
    }

    /// Returns the index of the cursor's row.
    pub(super) fn cursor_row(&self) -> usize {
        let last = self.index.len().saturating_sub(1);
        self.cursor.as_ref().and_then(|uid| self.index.position_of(uid)).unwrap_or(self.row_index).min(last)
    }

    /// Returns the object of a row.
    pub(super) fn object(&self, row: &Row) -> ObjectRef {
        ObjectRef {
            kind: self.kind_of(row).clone(),
            namespace: row.namespace.clone(),
            name: row.name.clone(),
            uid: Some(row.uid.clone()),
        }
    }

    /// Returns the object under the cursor.
    pub fn selected(&self) -> Option<ObjectRef> {
        self.index.at(self.cursor_row()).map(|row| self.object(row))
    }

    /// Returns the marked objects, including hidden ones; the one under the cursor if none is marked.
    pub(crate) fn targets(&self) -> Vec<ObjectRef> {
        let marked = self.marked();
        if marked.is_empty() {
            return self.selected().into_iter().collect();
        }
        marked.into_iter().map(|row| self.object(row)).collect()
    }

    /// Returns the target of a command for one object: the marked object, or the one under the cursor.
    pub(super) fn single_target(&self) -> Option<ObjectRef> {
        match self.marked().as_slice() {
            [marked] => Some(self.object(marked)),
            _ => self.selected(),
        }
    }

    /// Returns whether rows other than the one under the cursor are marked.
    pub fn has_other_marks(&self) -> bool {
        let selected = self.index.at(self.cursor_row()).map(Row::key);
        self.marked().into_iter().any(|row| Some(row.key()) != selected)
    }

    /// Returns the marked rows, including hidden ones, by name.
    fn marked(&self) -> Vec<&Row> {
        let mut marked: Vec<&Row> = self.marks.iter().filter_map(|key| self.index.get(key)).collect();
        marked.order_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        marked
    }

    /// Returns the number of marked objects that the filter hides.
    pub(crate) fn hidden_marks(&self) -> usize {
        self.marks
            .iter()
            .filter(|uid| self.index.get(uid).is_some() && self.index.position_of(uid).is_none())
            .count()
    }

    fn go(&mut self, place: usize) {
        let place = place.min(self.index.len().saturating_sub(1));
        self.row_index = place;
        self.cursor = self.index.at(place).map(Row::key);
    }

    fn take(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        // Keys typed while a table is built apply to the new rows.
        while self.building.is_some()
            && matches!(message, ScreenMessage::Command(_) | ScreenMessage::Mouse(_))
        {
            self.build_on(cx);
        }
        if matches!(message, ScreenMessage::Opened) {
            self.restore_sort(cx);
        }
        match message {
            // A paused table does not change until it is resumed.
            ScreenMessage::Shown | ScreenMessage::ColumnsChanged if self.paused => {}
            ScreenMessage::Opened | ScreenMessage::ScopeChanged if self.opens_at.is_some() => {
                return self.travel(cx, self.opens_at.map_or(TimeTravel::Live, TimeTravel::To));
            }
            ScreenMessage::Shown | ScreenMessage::Changed(..) | ScreenMessage::ColumnsChanged
                if self.opens_at.is_some() => {}
            ScreenMessage::Shown | ScreenMessage::Changed(..) if self.past.is_some() => {}
            ScreenMessage::Shown | ScreenMessage::ColumnsChanged => self.rebuild(cx),
            ScreenMessage::Opened | ScreenMessage::ScopeChanged => {
                self.widths.get_mut().clear();
                if let Some(moment) = self.displayed_time() {
                    return self.travel(cx, TimeTravel::To(moment.when()));
                }
                self.rebuild(cx);
            }
            ScreenMessage::Travel(_) if self.over.is_some() => {
                let reason = self.refuses_over(cx, Command::PastBack).unwrap_or_default();
                return vec![Effect::info(reason)];
            }
            ScreenMessage::Travel(go) => return self.travel(cx, go),
            ScreenMessage::Data(data) => return self.travelled(cx, data),
            ScreenMessage::Work if !self.index.is_filtering() => self.build_on(cx),
            ScreenMessage::Work if self.index.continue_filter() => self.select_first_match(),
            ScreenMessage::Changed(resource, touched) => self.changed(cx, &resource, &touched),
            ScreenMessage::ChangedIn(cluster, resource, touched) => {
                self.changed_in(cx, cluster, &resource, &touched);
            }
            ScreenMessage::Command(command) => {
                self.moved = true;
                return self.command(cx, command);
            }
            ScreenMessage::Mouse(event) if self.mouse(event) => {
                // A click opens the row under the pointer, not the marked one.
                let marks = std::mem::take(&mut self.marks);
                let effects = match self.refuses(cx, Command::Enter) {
                    Some(why) => vec![Effect::info(why)],
                    None => self.command(cx, Command::Enter),
                };
                self.marks = marks;
                return effects;
            }
            _ => {}
        }
        Vec::new()
    }

    /// If the filter hides the cursor's object, the cursor goes to the first match instead of a neighbour.
    fn select_first_match(&mut self) {
        if self.cursor.as_ref().and_then(|uid| self.index.position_of(uid)).is_none() {
            self.row_index = 0;
        }
        self.keep_cursor();
    }

    fn keep_cursor(&mut self) {
        let place = self.cursor_row();
        self.go(place);
    }
}

impl View for Table {
    fn title(&self, cx: &Context<'_>) -> String {
        let of = match &self.only {
            RowScope::All => self.clusters_label(cx),
            RowScope::OnNode(name) | RowScope::In(name) => format!(" of {name}"),
            RowScope::UsingImage(used) => format!(" of {}", used.name()),
            RowScope::OwnedBy(object)
            | RowScope::Selected(object)
            | RowScope::Using(object)
            | RowScope::About(object) => {
                format!(" of {}", object.name)
            }
        };
        clean(&format!("{}{of}", self.kind.heading())).into_owned()
    }

    fn key_contexts(&self, cx: &Context<'_>) -> Vec<KeyContext> {
        let kind = if self.is_mixed() { self.kind_at_cursor() } else { &self.kind };
        let kind = cx.catalogue.current(kind);
        let mut contexts = kind_view::key_contexts(kind);
        let own = self.cluster_of_selected().map_or(Some(Context { ..*cx }), |cluster| cx.on(cluster));
        if self.past.is_none()
            && kind.is::<Pod>()
            && let Some(cx) = own
            && self.selected().is_some_and(|pod| related::is_unscheduled(&cx, &pod))
        {
            contexts.insert(0, KeyContext::Unscheduled);
        }
        if self.over.is_some() {
            contexts.insert(0, KeyContext::Contexts);
        }
        contexts.extend([KeyContext::Objects, KeyContext::TimeTravel, KeyContext::List]);
        contexts
    }

    fn works(&self) -> bool {
        self.index.is_filtering() || self.is_building()
    }

    fn refuses(&self, cx: &Context<'_>, command: Command) -> Option<String> {
        if command == Command::ClearMarks && self.marks.is_empty() {
            return Some("nothing is marked".into());
        }
        let refused = if self.over.is_some() || self.is_mixed() {
            self.refuses_over(cx, command)
        } else {
            object_commands::refuses_marks(cx, command, self.marked().len())
                .or_else(|| command_availability::refuses(cx.catalogue, &self.kind, command))
        };
        // The footer must not flicker while a list arrives, and keys typed while rows are built apply to the new rows.
        let is_refused = cx.links.refused(&self.kind.resource).is_some();
        let has_rows_soon = self.is_building() || !self.loaded && !is_refused;
        // The table of events pauses itself.
        let needs_no_row = command == Command::Pause && self.kind.is::<Event>() || has_rows_soon;
        let has_target = !self.index.is_empty() || !self.marked().is_empty();
        match refused {
            None if !has_target && !needs_no_row => object_commands::refuses_without_row(command),
            refused => refused,
        }
    }

    fn update(&mut self, cx: &Context<'_>, message: ScreenMessage) -> Vec<Effect> {
        let mut effects = self.take(cx, message);
        effects.extend(self.take_warnings());
        effects
    }

    fn view(&self, cx: &Context<'_>, frame: &mut Frame<'_>, area: Rect) {
        match &self.past {
            Some(past) => view::draw(self, &past.context(cx), frame, area),
            None => view::draw(self, cx, frame, area),
        }
    }

    fn list(&self, cx: &Context<'_>) -> Option<List> {
        Some(match &self.past {
            Some(past) => linear::list(self, &past.context(cx)),
            None => linear::list(self, cx),
        })
    }

    fn moment(&self) -> Option<PointInTime> {
        self.displayed_time()
    }

    fn back_target(&self) -> WayBack {
        self.back_target
    }

    fn selected(&self, _cx: &Context<'_>) -> Option<ObjectRef> {
        Self::selected(self)
    }

    fn cluster_of_selected(&self) -> Option<ClusterId> {
        let over = self.over.as_ref()?;
        let selected = self.index.at(self.cursor_row()).and_then(|row| row.cluster);
        selected.or(over.narrowed).or_else(|| over.clusters.first().copied())
    }

    fn variables(&self, cx: &Context<'_>) -> Vec<(String, String)> {
        let Some(row) = self.index.at(self.cursor_row()) else { return Vec::new() };
        let cells = self.columns.iter().zip(&row.cells);
        cells.map(|(column, cell)| (format!("COL-{}", column.name), cell.show(cx).into_owned())).collect()
    }

    fn query(&self) -> Option<&str> {
        Some(&self.query)
    }

    fn set_query(&mut self, _cx: &Context<'_>, query: &str) -> Result<(), String> {
        self.query_text(query)?;
        if !self.index.is_filtering() {
            self.select_first_match();
        }
        Ok(())
    }
}
