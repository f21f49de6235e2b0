//! The tabs of the last run, on disk, with their panes and content: tables, views of objects and of the cluster, and
//! the editors, terminals and drains that were open, so that the console can report their fate. A restored view starts
//! no action. One JSON document per cluster, readable only by its owner, beside the journal (CON-17).
//!
//! The files are untrusted input: their size is bounded, and invalid entries are dropped. A kind is found by its
//! resource, an object by its name; the uid shows whether it is still the same object.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::access::Attributes;
use super::cluster_file::ClusterFiles;
use super::query::Query;
use super::resource::{ObjectRef, Uid};

/// The location of the files.
const FILES: ClusterFiles = ClusterFiles { directory: "tabs", max_bytes: 256 << 10, description: "the tabs" };
/// The maximum number of tabs, and of views in each.
const TABS: usize = 9;
const VIEWS: usize = 8;
/// The maximum number of drains and terminals in the background.
const BACKGROUND: usize = 8;
/// The maximum number of nodes of one drain.
const NODES: usize = 32;
/// The maximum number of contexts of one table.
const CONTEXTS: usize = 16;
/// The maximum number of names of one image.
pub const IMAGE_NAMES: usize = 16;
/// The maximum number of notes on one access query.
const NOTES: usize = 8;
/// The maximum length of a name or a filter in bytes.
const TEXT: usize = 1_024;

/// All tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedTabs {
    /// The index of the front tab, from zero.
    pub front: usize,
    /// The tabs in order.
    pub tabs: Vec<SavedTab>,
    /// The views in the background, active or finished.
    #[serde(default)]
    pub background: Vec<SavedView>,
    /// The user left the console normally; it was not killed. Files of earlier versions do not have this field.
    #[serde(default = "was_left")]
    pub was_left: bool,
}

fn was_left() -> bool {
    true
}

/// One tab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedTab {
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// The views above the overview, the top one last.
    pub views: Vec<SavedView>,
    /// Its second pane.
    #[serde(default)]
    pub split: Option<SavedSplit>,
}

/// The second pane of a tab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSplit {
    /// The pane is below the first one instead of beside it.
    pub below: bool,
    /// The first pane's share of the window in percent.
    pub share: u16,
    /// The content for the selected object: an argument of `:split`, or empty for the default.
    pub shows: String,
    /// The pane follows the selection.
    pub follows: bool,
    /// The pane has the focus.
    pub in_second: bool,
    /// The object of the pane's base view.
    pub at: SavedView,
    /// The views above the base view, the top one last.
    pub views: Vec<SavedView>,
}

/// The type of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedScreen {
    /// The table of a kind.
    #[default]
    Table,
    /// The description of an object.
    Describe,
    /// The YAML of an object; for a Secret never its decoded data.
    Yaml,
    /// The logs of an object.
    Logs {
        /// The logs of the run before the last restart.
        previous: bool,
        /// The containers.
        which: SavedContainers,
    },
    /// The editor. Its text is saved as a draft, not here.
    Edit {
        /// The editor had unsaved text.
        unsaved: bool,
    },
    /// A terminal; its session ended with the console.
    Terminal {
        /// The type of session.
        what: SavedTerminal,
        /// The container, or the name of a local program.
        container: String,
    },
    /// A drain and its progress.
    Drain(SavedDrain),
    /// The containers of a pod.
    Containers,
    /// The rollout of a Deployment.
    Rollout,
    /// The explanation of why an object is not ready.
    Explain,
    /// The explanation of why a pod is pending.
    Pending,
    /// A controller of the control plane.
    Controller,
    /// The versions of an object.
    Versions,
    /// The timeline of an owner tree.
    Timeline,
    /// A connection trace. It does not run before the user confirms, because it opens connections.
    Connection {
        /// The pod that opens the connection.
        source: String,
        /// The destination.
        destination: String,
    },
    /// The user's permissions (`None`), or the subjects that have a permission.
    Access(Option<SavedQuery>),
    /// The owner tree, from objects of the view's kind down if it has one.
    Tree,
    /// The topology: zones, nodes and pods.
    Topology,
    /// The list of drills.
    Drills,
    /// The kinds that the server serves.
    Kinds,
    /// The journal of changes.
    Journal,
    /// The contexts of the user's kubeconfig.
    Contexts,
    /// A directory with manifests.
    Files(PathBuf),
    /// The saved files.
    Dumps,
    /// The images of this node, or of all.
    Images(Option<String>),
}

/// A query for the subjects that have a permission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedQuery {
    /// The request attributes.
    #[serde(flatten)]
    pub attributes: Attributes,
    /// Notes on the query for the user.
    pub notes: Vec<String>,
}

impl SavedQuery {
    /// Reports whether the query is valid and within bounds.
    fn is_sound(&self) -> bool {
        let attributes = &self.attributes;
        let texts = [&attributes.verb, &attributes.group, &attributes.resource];
        let more = attributes
            .subresource
            .iter()
            .chain(&attributes.name)
            .chain(&attributes.namespace)
            .chain(&self.notes);
        self.notes.len() <= NOTES && texts.into_iter().chain(more).all(|text| short(text))
    }
}

/// The type of a terminal session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedTerminal {
    /// A shell.
    #[default]
    Shell,
    /// An attach to the container's own process.
    Attach,
    /// A debugger.
    Debug,
    /// A local program.
    Program,
}

/// A drain and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedDrain {
    /// The nodes, in order.
    pub nodes: Vec<String>,
    /// The progress.
    pub stage: SavedStage,
    /// The number of pods that were removed.
    pub gone: usize,
    /// The number of pods to remove.
    pub leaving: usize,
    /// The grace period; `None` for each pod's own.
    pub grace_seconds: Option<u32>,
    /// The timeout per node; `None` for no timeout.
    pub timeout_seconds: Option<u64>,
    /// Leaves pods of DaemonSets alone; this option and the following ones are those of `kubectl drain`.
    pub ignore_daemon_sets: bool,
    /// Also removes pods without a controller.
    pub force: bool,
    /// Also removes pods with `emptyDir` data.
    pub delete_empty_dir_data: bool,
    /// Deletes pods instead of evicting them, regardless of budgets.
    pub disable_eviction: bool,
}

/// The progress of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SavedStage {
    /// The drain had not started.
    #[default]
    Preview,
    /// The drain was in progress when the console ended.
    Running,
    /// The user had stopped the drain.
    Stopped,
    /// It was complete.
    Over,
}

/// The containers of a view of logs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedContainers {
    /// The default container.
    #[default]
    Usual,
    /// All containers.
    All,
    /// The container of this name.
    One(String),
}

/// Stands for the cluster that the file belongs to, among the names of contexts; kubectl names no context this way.
pub const HOME: &str = "-";

/// The fate of a view's object since the last run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectFate {
    /// The object no longer exists.
    Deleted,
    /// An object with its name exists, and has this uid.
    Is(Uid),
}

/// One view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedView {
    /// The type of the view.
    #[serde(default)]
    pub screen: SavedScreen,
    /// Namespace and name of its object; absent for tables.
    #[serde(default)]
    pub object: Option<(Option<String>, String)>,
    /// The uid of that object, or of the object that the rows of a table belong to, if it was known.
    #[serde(default)]
    pub uid: Option<String>,
    /// The context of the cluster that it shows; `None` for the cluster of the file.
    #[serde(default)]
    pub context: Option<String>,
    /// The contexts of a table over several clusters; empty for a table of one cluster.
    #[serde(default)]
    pub contexts: Vec<String>,
    /// API group of its kind, empty for the core group.
    pub group: String,
    /// Its plural name in paths.
    pub plural: String,
    /// The restriction of a table.
    #[serde(default)]
    pub only: SavedScope,
    /// The filter or search text.
    #[serde(default)]
    pub filter: String,
    /// The name of the sort column; `None` for the object's name.
    #[serde(default)]
    pub sort: Option<String>,
    /// The sort order is descending.
    #[serde(default)]
    pub descending: bool,
    /// All columns are shown.
    #[serde(default)]
    pub wide: bool,
    /// Only unhealthy objects are shown.
    #[serde(default)]
    pub faults: bool,
    /// Namespace and name of the selected row.
    #[serde(default)]
    pub selected: Option<(Option<String>, String)>,
    /// The context of that row, in a table over several clusters.
    #[serde(default)]
    pub selected_in: Option<String>,
}

/// The restriction of a table to some objects of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedScope {
    /// All objects in scope.
    #[default]
    All,
    /// Pods on a node.
    OnNode(String),
    /// Pods on a node that use an image of one of these names.
    UsingImage {
        /// The node.
        node: String,
        /// The names of the image.
        names: Vec<String>,
    },
    /// Objects in one namespace, regardless of the scope.
    In(String),
    /// Objects that belong to an object, which has the uid of the view.
    Belonging(SavedRelation, SavedObject),
}

/// The relation of a table's objects to the object that they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedRelation {
    /// The object owns them.
    Owned,
    /// The object selects them by their labels.
    Selected,
    /// They refer to the object in their spec.
    Using,
    /// They are events about the object.
    About,
}

/// An object by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedObject {
    /// API group of its kind, empty for the core group.
    pub group: String,
    /// Its plural name in paths.
    pub plural: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl SavedObject {
    /// Reports whether the reference is valid and within bounds.
    fn is_sound(&self) -> bool {
        short(&self.group)
            && short(&self.plural)
            && is_segment(&self.name)
            && self.namespace.as_deref().is_none_or(is_segment)
    }
}

impl SavedTabs {
    /// Reports whether these are the tabs of a fresh console.
    fn is_nothing(&self) -> bool {
        self.background.is_empty()
            && self.tabs.len() < 2
            && self.tabs.iter().all(|tab| tab.views.is_empty() && tab.split.is_none())
    }

    /// Drops invalid entries and those over the limits.
    fn bounded(mut self) -> Self {
        self.tabs.truncate(TABS);
        for tab in &mut self.tabs {
            tab.namespace = tab.namespace.take().filter(|name| short(name));
            tab.views.retain(SavedView::is_sound);
            tab.views.truncate(VIEWS);
            tab.split = tab.split.take().filter(|split| split.at.is_sound() && split.at.object.is_some());
            if let Some(split) = &mut tab.split {
                split.share = split.share.clamp(20, 80);
                split.views.retain(SavedView::is_sound);
                split.views.truncate(VIEWS);
            }
        }
        self.background.retain(SavedView::is_sound);
        self.background.truncate(BACKGROUND);
        self.front = self.front.min(self.tabs.len().saturating_sub(1));
        self
    }
}

fn short(text: &str) -> bool {
    text.len() <= TEXT
}

/// Reports whether a name is safe as a part of a path.
fn is_segment(name: &str) -> bool {
    short(name)
        && !matches!(name, "" | "." | "..")
        && !name.contains(['/', '%', '?', '#'])
        && !name.contains(char::is_control)
}

impl SavedView {
    /// Returns the saved reference to an object, by its name.
    pub fn of_object(target: &ObjectRef) -> Self {
        Self {
            group: target.kind.resource.group.to_string(),
            plural: target.kind.resource.plural.to_string(),
            object: Some((target.namespace.clone(), target.name.clone())),
            uid: target.uid.as_ref().map(|uid| uid.as_str().to_owned()),
            ..Self::default()
        }
    }

    /// Reports whether the view requires an object.
    pub fn is_of_an_object(&self) -> bool {
        !matches!(self.screen, SavedScreen::Table) && self.is_of_a_kind()
    }

    /// Reports whether the view requires a kind; a tree does not.
    pub fn is_of_a_kind(&self) -> bool {
        match &self.screen {
            SavedScreen::Connection { .. }
            | SavedScreen::Access(_)
            | SavedScreen::Tree
            | SavedScreen::Topology
            | SavedScreen::Drills
            | SavedScreen::Kinds
            | SavedScreen::Journal
            | SavedScreen::Contexts
            | SavedScreen::Files(_)
            | SavedScreen::Dumps
            | SavedScreen::Images(_) => false,
            SavedScreen::Table
            | SavedScreen::Describe
            | SavedScreen::Yaml
            | SavedScreen::Logs { .. }
            | SavedScreen::Edit { .. }
            | SavedScreen::Terminal { .. }
            | SavedScreen::Drain(_)
            | SavedScreen::Containers
            | SavedScreen::Rollout
            | SavedScreen::Explain
            | SavedScreen::Pending
            | SavedScreen::Controller
            | SavedScreen::Versions
            | SavedScreen::Timeline => true,
        }
    }

    /// Reports whether the view is valid and within bounds.
    fn is_sound(&self) -> bool {
        let only = match &self.only {
            SavedScope::All => true,
            SavedScope::OnNode(name) | SavedScope::In(name) => short(name),
            SavedScope::UsingImage { node, names } => {
                short(node)
                    && (1..=IMAGE_NAMES).contains(&names.len())
                    && names.iter().all(|name| short(name))
            }
            SavedScope::Belonging(_, object) => object.is_sound(),
        };
        let all_short = |object: &(Option<String>, String), is: fn(&str) -> bool| {
            is(&object.1) && object.0.as_deref().is_none_or(is)
        };
        let selected = self.selected.as_ref().is_none_or(|selected| all_short(selected, short));
        let object = self.object.as_ref().is_none_or(|object| all_short(object, is_segment));
        let of_object = !self.is_of_an_object() || self.object.is_some();
        let uid = self.uid.as_deref().is_none_or(short);
        let container = match &self.screen {
            SavedScreen::Logs { which: SavedContainers::One(name), .. } => is_segment(name),
            // A debugger that had not started has no container name.
            SavedScreen::Terminal { what: SavedTerminal::Program, container } => short(container),
            SavedScreen::Terminal { container, .. } => container.is_empty() || is_segment(container),
            SavedScreen::Drain(drain) => {
                (1..=NODES).contains(&drain.nodes.len()) && drain.nodes.iter().all(|node| is_segment(node))
            }
            SavedScreen::Connection { source, destination } => short(source) && short(destination),
            SavedScreen::Access(question) => question.as_ref().is_none_or(SavedQuery::is_sound),
            SavedScreen::Files(path) => path.is_absolute() && path.as_os_str().len() <= TEXT,
            _ => true,
        };
        let contexts = self.contexts.len() <= CONTEXTS
            && self
                .contexts
                .iter()
                .chain(&self.context)
                .chain(&self.selected_in)
                .all(|name| short(name) && !name.is_empty());
        let named = short(&self.group) && short(&self.plural) && self.sort.as_deref().is_none_or(short);
        let filter = short(&self.filter) && Query::parse(&self.filter).is_ok();
        only && selected && object && uid && of_object && container && contexts && named && filter
    }
}

/// The tabs of clusters, which one console at a time reads and writes. A console that is killed holds them no longer.
#[derive(Debug, Default)]
pub struct TabsHolder {
    held: Option<(Uid, Option<File>)>,
}

impl TabsHolder {
    /// Holds the tabs of a cluster until the console ends; false if another running console holds them.
    pub fn hold(&mut self, dir: &Path, cluster: &Uid) -> bool {
        if self.held.as_ref().is_some_and(|(held, _)| held == cluster) {
            return true;
        }
        match FILES.lock(dir, cluster) {
            Ok(lock) => {
                self.held = Some((cluster.clone(), Some(lock)));
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => false,
            // A directory without locks, or one that cannot be written, still has tabs to read.
            Err(error) => {
                tracing::warn!(%error, dir = %dir.display(), "cannot lock the tabs of the last run");
                self.held = Some((cluster.clone(), None));
                true
            }
        }
    }
}

/// Reads the tabs of a cluster; empty if the file is absent or unreadable, because they are a convenience only.
pub fn read(dir: &Path, cluster: &Uid) -> SavedTabs {
    FILES.read(dir, cluster).map_or_else(SavedTabs::default, SavedTabs::bounded)
}

/// Writes the tabs of a cluster, or removes the file if they are those of a fresh console.
pub fn write(dir: &Path, cluster: &Uid, tabs: &SavedTabs) -> std::io::Result<()> {
    if tabs.is_nothing() { FILES.remove(dir, cluster) } else { FILES.write(dir, cluster, tabs) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::cluster_file::MAX_CLUSTERS;

    fn view(plural: &str) -> SavedView {
        SavedView { plural: plural.to_owned(), filter: "web".to_owned(), ..SavedView::default() }
    }

    fn two() -> SavedTabs {
        let tab = |plural| SavedTab {
            namespace: Some("shop".into()),
            views: vec![view(plural)],
            ..SavedTab::default()
        };
        SavedTabs { front: 1, tabs: vec![tab("pods"), tab("nodes")], ..SavedTabs::default() }
    }

    #[test]
    fn saved_tabs_are_read_back_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("../0c/ff-1");
        assert_eq!(read(dir.path(), &cluster), SavedTabs::default());
        write(dir.path(), &cluster, &two()).unwrap();
        assert_eq!(read(dir.path(), &cluster), two());
        let file = dir.path().join("tabs/0cff-1.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            read(dir.path(), &Uid::from("other")),
            SavedTabs::default(),
            "another cluster has its own"
        );
        // The tabs of a fresh console need no file.
        write(dir.path(), &cluster, &SavedTabs { tabs: vec![SavedTab::default()], ..SavedTabs::default() })
            .unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("tabs")).unwrap().count(), 0, "nothing is left");
        for n in 0..MAX_CLUSTERS + 5 {
            write(dir.path(), &Uid::from(format!("c{n}").as_str()), &two()).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path().join("tabs")).unwrap().count(), MAX_CLUSTERS);
    }

    #[test]
    fn invalid_saved_tabs_are_ignored_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("c");
        let place = dir.path().join("tabs");
        std::fs::create_dir_all(&place).unwrap();
        let file = place.join("c.json");
        for text in ["", "{ half", "[]", "{\"front\": -1, \"tabs\": []}", "\u{0}", &"[".repeat(100_000)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(dir.path(), &cluster), SavedTabs::default(), "{text:.20}");
        }
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(read(dir.path(), &cluster), SavedTabs::default());
        std::fs::write(&file, " ".repeat(usize::try_from(FILES.max_bytes).unwrap() + 1)).unwrap();
        assert_eq!(read(dir.path(), &cluster), SavedTabs::default());
        let mut many = two();
        many.front = 700;
        many.tabs[0].views = vec![view("pods"); 50];
        many.tabs[0].views[0].filter = "web(".to_owned();
        many.tabs[0].views[2].object = Some((None, "a/../../b".to_owned()));
        many.tabs[0].views[3].screen = SavedScreen::Yaml;
        let terminal = |container: &str| SavedView {
            object: Some((None, "p".to_owned())),
            screen: SavedScreen::Terminal { what: SavedTerminal::Shell, container: container.to_owned() },
            ..view("pods")
        };
        let drain = |nodes: Vec<String>| SavedView {
            object: Some((None, "n".to_owned())),
            screen: SavedScreen::Drain(SavedDrain { nodes, ..SavedDrain::default() }),
            ..view("nodes")
        };
        many.background = vec![
            drain(Vec::new()),
            drain(vec!["../n".to_owned()]),
            drain(vec!["n".to_owned(); NODES + 1]),
            terminal("a?b"),
            terminal("main"),
        ];
        many.background.extend(vec![drain(vec!["n".to_owned()]); 20]);
        many.tabs[0].views[4].contexts = vec!["c".to_owned(); CONTEXTS + 1];
        let split = SavedSplit { share: 900, ..SavedSplit::default() };
        many.tabs[0].split = Some(split.clone());
        many.tabs[1].split =
            Some(SavedSplit { at: SavedView { object: Some((None, "n".into())), ..view("nodes") }, ..split });
        many.tabs[0].views[1].plural = "x".repeat(TEXT + 1);
        many.tabs[1].namespace = Some("n".repeat(TEXT + 1));
        many.tabs.resize(40, SavedTab::default());
        std::fs::write(&file, serde_json::to_vec(&many).unwrap()).unwrap();
        let read = read(dir.path(), &cluster);
        assert_eq!((read.tabs.len(), read.front), (TABS, TABS - 1));
        assert_eq!(read.tabs[0].views, vec![view("pods"); VIEWS]);
        assert_eq!(read.background.len(), BACKGROUND);
        assert_eq!(read.background[0], terminal("main"));
        assert_eq!(read.tabs[1].namespace, None);
        assert_eq!(read.tabs[0].split, None, "of no object");
        assert_eq!(read.tabs[1].split.as_ref().map(|split| split.share), Some(80));
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(write(dir.path(), &cluster, &two()).is_err());
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1, "nothing else is left behind");
    }
}
