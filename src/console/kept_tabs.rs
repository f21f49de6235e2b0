//! The tabs of the last run, on disk, with their panes and what they showed: tables, the views of objects and of the
//! cluster, and which editors, terminals and drains were open, to say what became of them. Nothing of it acts when it comes
//! back. One JSON document in a file of its own for each cluster, for its owner alone, beside the journal (CON-17).
//!
//! What is read is somebody's file, not ours: it is bounded, and what makes no sense in it is left out. A kind is found
//! again by its resource, an object by its name; its uid says whether it is still the same.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::access::Attributes;
use super::cluster_file::ClusterFiles;
use super::query::Query;
use super::resource::Uid;

/// Where they are.
const FILES: ClusterFiles = ClusterFiles { place: "tabs", longest: 256 << 10, what: "the tabs" };
/// Tabs, and views in each, that are taken from a file.
const TABS: usize = 9;
const VIEWS: usize = 8;
/// Drains and terminals that were left in the background.
const BACKGROUND: usize = 8;
/// Nodes of one drain.
const NODES: usize = 32;
/// Contexts of one table.
const CONTEXTS: usize = 16;
/// What is said of one question.
const NOTES: usize = 8;
/// Bytes of a name or a filter.
const TEXT: usize = 1_024;

/// All tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTabs {
    /// The one in front, counted from nought.
    pub(crate) front: usize,
    /// In their order.
    pub(crate) tabs: Vec<KeptTab>,
    /// What went on in the background, or had come to its end there.
    #[serde(default)]
    pub(crate) background: Vec<KeptView>,
    /// The user left the console after that; it was not killed. Files of earlier versions do not say it.
    #[serde(default = "was_left")]
    pub(crate) was_left: bool,
}

fn was_left() -> bool {
    true
}

/// One tab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptTab {
    /// The namespace; none is all.
    pub(crate) namespace: Option<String>,
    /// The views above its overview, the top one last.
    pub(crate) views: Vec<KeptView>,
    /// Its second pane.
    #[serde(default)]
    pub(crate) split: Option<KeptSplit>,
}

/// The second pane of a tab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptSplit {
    /// Whether it is below the first, not beside it.
    pub(crate) below: bool,
    /// Percent of the window that is the first one's.
    pub(crate) share: u16,
    /// What it shows of what is selected: one of the words after `:split`, or nothing for what is usual.
    pub(crate) shows: String,
    /// Whether it goes where the selection goes.
    pub(crate) follows: bool,
    /// Whether it has the focus.
    pub(crate) in_second: bool,
    /// The object it showed something of.
    pub(crate) at: KeptView,
    /// The views above that, the top one last.
    pub(crate) views: Vec<KeptView>,
}

/// What a view is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeptScreen {
    /// A table.
    #[default]
    Table,
    /// An object described.
    Describe,
    /// An object as YAML; of a Secret never its decoded data.
    Yaml,
    /// Logs.
    Logs {
        /// Of the run before the last restart.
        previous: bool,
        /// Of which containers.
        which: KeptContainers,
    },
    /// The editor. What was typed is not kept.
    Edit {
        /// Whether something was typed that was not saved.
        unsaved: bool,
    },
    /// A terminal, whose session ended with the console.
    Terminal {
        /// What was opened.
        what: KeptTerminal,
        /// In which container; of a program of the machine its name.
        container: String,
    },
    /// A drain, as far as it was.
    Drain(KeptDrain),
    /// The containers of a pod.
    Containers,
    /// The rollout of a Deployment.
    Rollout,
    /// Why an object is not ready.
    Explain,
    /// Why a pod waits for a node.
    Pending,
    /// A controller of the control plane.
    Controller,
    /// The versions of an object.
    Versions,
    /// What happened to an owner tree.
    Timeline,
    /// A way that a connection would take. It is not walked before the user says so: a walk opens connections.
    Connection {
        /// The pod that would open it.
        source: String,
        /// Whom to.
        destination: String,
    },
    /// What I may, or who may that; none is what I may.
    Access(Option<KeptQuestion>),
    /// Who owns whom, from objects of the view's kind down where it has one.
    Tree,
    /// Zones, nodes and pods.
    Topology,
    /// What there is to practise.
    Drills,
    /// The kinds of the server.
    Kinds,
    /// What was changed.
    Journal,
    /// The contexts of the user's kubeconfig.
    Contexts,
    /// A directory with manifests.
    Files(PathBuf),
    /// What was saved.
    Dumps,
}

/// What it was asked who may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptQuestion {
    /// What.
    #[serde(flatten)]
    pub(crate) asked: Attributes,
    /// What had to be said of the question.
    pub(crate) notes: Vec<String>,
}

impl KeptQuestion {
    /// Whether it makes sense.
    fn is_sound(&self) -> bool {
        let asked = &self.asked;
        let texts = [&asked.verb, &asked.group, &asked.resource];
        let more = asked.subresource.iter().chain(&asked.name).chain(&asked.namespace).chain(&self.notes);
        self.notes.len() <= NOTES && texts.into_iter().chain(more).all(|text| short(text))
    }
}

/// What a terminal was opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeptTerminal {
    /// A shell.
    #[default]
    Shell,
    /// The container's own process.
    Attach,
    /// A debugger.
    Debug,
    /// A program of the machine.
    Program,
}

/// A drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptDrain {
    /// The nodes, one after another.
    pub(crate) nodes: Vec<String>,
    /// How far it was.
    pub(crate) stage: KeptStage,
    /// Pods that were gone.
    pub(crate) gone: usize,
    /// Pods that were to leave.
    pub(crate) leaving: usize,
    /// The grace period of its options; none is each pod's own.
    pub(crate) grace_seconds: Option<u32>,
    /// When it was to give up on a node; none is never.
    pub(crate) timeout_seconds: Option<u64>,
    /// The switches of its options.
    pub(crate) ignore_daemon_sets: bool,
    /// Pods that nobody replaces were to go, too.
    pub(crate) force: bool,
    /// So were those with `emptyDir` data.
    pub(crate) delete_empty_dir_data: bool,
    /// No budget was asked.
    pub(crate) disable_eviction: bool,
}

/// How far a drain was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum KeptStage {
    /// It had not begun.
    #[default]
    Preview,
    /// It was under way when the console ended.
    Running,
    /// It had been stopped.
    Stopped,
    /// It had come to its end.
    Over,
}

/// Of which containers of a pod logs were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeptContainers {
    /// The one that is usual.
    #[default]
    Usual,
    /// All of them.
    All,
    /// The one of this name.
    One(String),
}

/// The name of the cluster whose file it is, among those of contexts: no context is called so by kubectl.
pub(crate) const HOME: &str = "-";

/// What became of the object of a view since the last run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// It is not there any more.
    Gone,
    /// One of its name is there, of this uid.
    Is(Uid),
}

/// One view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptView {
    /// What it is.
    #[serde(default)]
    pub(crate) screen: KeptScreen,
    /// Namespace and name of the object that it is of, where it is no table.
    #[serde(default)]
    pub(crate) object: Option<(Option<String>, String)>,
    /// The uid of that object, or of the one that a table belongs to, where it was known.
    #[serde(default)]
    pub(crate) uid: Option<String>,
    /// The context whose cluster it is of; none is the one whose file this is.
    #[serde(default)]
    pub(crate) context: Option<String>,
    /// The contexts that a table is over; none where it is over no others.
    #[serde(default)]
    pub(crate) contexts: Vec<String>,
    /// API group of its kind, empty for the core group.
    pub(crate) group: String,
    /// Its plural name in paths.
    pub(crate) plural: String,
    /// Which of them a table shows.
    #[serde(default)]
    pub(crate) only: KeptOnly,
    /// The filter, or what is searched for.
    #[serde(default)]
    pub(crate) filter: String,
    /// The name of the column that it is sorted by; none is the object's name.
    #[serde(default)]
    pub(crate) sort: Option<String>,
    /// Whether the greatest comes first.
    #[serde(default)]
    pub(crate) descending: bool,
    /// Whether all columns are shown.
    #[serde(default)]
    pub(crate) wide: bool,
    /// Whether only what is not well is.
    #[serde(default)]
    pub(crate) faults: bool,
    /// Namespace and name of what is selected.
    #[serde(default)]
    pub(crate) selected: Option<(Option<String>, String)>,
    /// The context that it is of, in a table over several.
    #[serde(default)]
    pub(crate) selected_in: Option<String>,
}

/// Which objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeptOnly {
    /// All in scope.
    #[default]
    All,
    /// Pods on a node.
    OnNode(String),
    /// In one namespace, whatever the scope.
    In(String),
    /// What belongs to an object, which the uid of the view is of.
    Belonging(KeptBelongs, KeptObject),
}

/// How objects of a table belong to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeptBelongs {
    /// It owns them.
    Owned,
    /// It selects them by their labels.
    Selected,
    /// They name it in their spec.
    Using,
    /// They are events about it.
    About,
}

/// An object by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptObject {
    /// API group of its kind, empty for the core group.
    pub(crate) group: String,
    /// Its plural name in paths.
    pub(crate) plural: String,
    /// Its namespace.
    pub(crate) namespace: Option<String>,
    /// Its name.
    pub(crate) name: String,
}

impl KeptObject {
    /// Whether it makes sense.
    fn is_sound(&self) -> bool {
        short(&self.group)
            && short(&self.plural)
            && is_segment(&self.name)
            && self.namespace.as_deref().is_none_or(is_segment)
    }
}

impl KeptTabs {
    /// Whether it is what every console begins with.
    fn is_nothing(&self) -> bool {
        self.background.is_empty()
            && self.tabs.len() < 2
            && self.tabs.iter().all(|tab| tab.views.is_empty() && tab.split.is_none())
    }

    /// Without what makes no sense.
    fn bounded(mut self) -> Self {
        self.tabs.truncate(TABS);
        for tab in &mut self.tabs {
            tab.namespace = tab.namespace.take().filter(|name| short(name));
            tab.views.retain(KeptView::is_sound);
            tab.views.truncate(VIEWS);
            tab.split = tab.split.take().filter(|split| split.at.is_sound() && split.at.object.is_some());
            if let Some(split) = &mut tab.split {
                split.share = split.share.clamp(20, 80);
                split.views.retain(KeptView::is_sound);
                split.views.truncate(VIEWS);
            }
        }
        self.background.retain(KeptView::is_sound);
        self.background.truncate(BACKGROUND);
        self.front = self.front.min(self.tabs.len().saturating_sub(1));
        self
    }
}

fn short(text: &str) -> bool {
    text.len() <= TEXT
}

/// A name that becomes a part of a path.
fn is_segment(name: &str) -> bool {
    short(name)
        && !matches!(name, "" | "." | "..")
        && !name.contains(['/', '%', '?', '#'])
        && !name.contains(char::is_control)
}

impl KeptView {
    /// Whether it is of one object, which it cannot be without.
    pub(crate) fn is_of_an_object(&self) -> bool {
        !matches!(self.screen, KeptScreen::Table) && self.is_of_a_kind()
    }

    /// Whether it is of a kind, which it cannot be without; a tree can.
    pub(crate) fn is_of_a_kind(&self) -> bool {
        match &self.screen {
            KeptScreen::Connection { .. }
            | KeptScreen::Access(_)
            | KeptScreen::Tree
            | KeptScreen::Topology
            | KeptScreen::Drills
            | KeptScreen::Kinds
            | KeptScreen::Journal
            | KeptScreen::Contexts
            | KeptScreen::Files(_)
            | KeptScreen::Dumps => false,
            KeptScreen::Table
            | KeptScreen::Describe
            | KeptScreen::Yaml
            | KeptScreen::Logs { .. }
            | KeptScreen::Edit { .. }
            | KeptScreen::Terminal { .. }
            | KeptScreen::Drain(_)
            | KeptScreen::Containers
            | KeptScreen::Rollout
            | KeptScreen::Explain
            | KeptScreen::Pending
            | KeptScreen::Controller
            | KeptScreen::Versions
            | KeptScreen::Timeline => true,
        }
    }

    /// Whether it makes sense.
    fn is_sound(&self) -> bool {
        let only = match &self.only {
            KeptOnly::All => true,
            KeptOnly::OnNode(name) | KeptOnly::In(name) => short(name),
            KeptOnly::Belonging(_, object) => object.is_sound(),
        };
        let all_short = |object: &(Option<String>, String), is: fn(&str) -> bool| {
            is(&object.1) && object.0.as_deref().is_none_or(is)
        };
        let selected = self.selected.as_ref().is_none_or(|selected| all_short(selected, short));
        let object = self.object.as_ref().is_none_or(|object| all_short(object, is_segment));
        let of_object = !self.is_of_an_object() || self.object.is_some();
        let uid = self.uid.as_deref().is_none_or(short);
        let container = match &self.screen {
            KeptScreen::Logs { which: KeptContainers::One(name), .. } => is_segment(name),
            // A debugger that was not yet there has no name.
            KeptScreen::Terminal { what: KeptTerminal::Program, container } => short(container),
            KeptScreen::Terminal { container, .. } => container.is_empty() || is_segment(container),
            KeptScreen::Drain(drain) => {
                (1..=NODES).contains(&drain.nodes.len()) && drain.nodes.iter().all(|node| is_segment(node))
            }
            KeptScreen::Connection { source, destination } => short(source) && short(destination),
            KeptScreen::Access(question) => question.as_ref().is_none_or(KeptQuestion::is_sound),
            KeptScreen::Files(path) => path.is_absolute() && path.as_os_str().len() <= TEXT,
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

/// What was kept of a cluster; nothing where there is no file, or none that can be read: it is only comfort.
pub(crate) fn read(dir: &Path, cluster: &Uid) -> KeptTabs {
    FILES.read(dir, cluster).map_or_else(KeptTabs::default, KeptTabs::bounded)
}

/// Keeps them.
pub(crate) fn write(dir: &Path, cluster: &Uid, tabs: &KeptTabs) -> std::io::Result<()> {
    if tabs.is_nothing() { FILES.remove(dir, cluster) } else { FILES.write(dir, cluster, tabs) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::cluster_file::CLUSTERS;

    fn view(plural: &str) -> KeptView {
        KeptView { plural: plural.to_owned(), filter: "web".to_owned(), ..KeptView::default() }
    }

    fn two() -> KeptTabs {
        let tab = |plural| KeptTab {
            namespace: Some("shop".into()),
            views: vec![view(plural)],
            ..KeptTab::default()
        };
        KeptTabs { front: 1, tabs: vec![tab("pods"), tab("nodes")], ..KeptTabs::default() }
    }

    #[test]
    fn tabs_are_read_as_they_were_kept_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("../0c/ff-1");
        assert_eq!(read(dir.path(), &cluster), KeptTabs::default());
        write(dir.path(), &cluster, &two()).unwrap();
        assert_eq!(read(dir.path(), &cluster), two());
        let file = dir.path().join("tabs/0cff-1.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(dir.path(), &Uid::from("other")), KeptTabs::default(), "another cluster has its own");
        // What every console begins with needs no file.
        write(dir.path(), &cluster, &KeptTabs { tabs: vec![KeptTab::default()], ..KeptTabs::default() })
            .unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("tabs")).unwrap().count(), 0, "nothing is left");
        for n in 0..CLUSTERS + 5 {
            write(dir.path(), &Uid::from(format!("c{n}").as_str()), &two()).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path().join("tabs")).unwrap().count(), CLUSTERS);
    }

    #[test]
    fn what_is_not_ours_is_left_out_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("c");
        let place = dir.path().join("tabs");
        std::fs::create_dir_all(&place).unwrap();
        let file = place.join("c.json");
        for text in ["", "{ half", "[]", "{\"front\": -1, \"tabs\": []}", "\u{0}", &"[".repeat(100_000)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(dir.path(), &cluster), KeptTabs::default(), "{text:.20}");
        }
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(read(dir.path(), &cluster), KeptTabs::default());
        std::fs::write(&file, " ".repeat(usize::try_from(FILES.longest).unwrap() + 1)).unwrap();
        assert_eq!(read(dir.path(), &cluster), KeptTabs::default());
        let mut many = two();
        many.front = 700;
        many.tabs[0].views = vec![view("pods"); 50];
        many.tabs[0].views[0].filter = "web(".to_owned();
        many.tabs[0].views[2].object = Some((None, "a/../../b".to_owned()));
        many.tabs[0].views[3].screen = KeptScreen::Yaml;
        let terminal = |container: &str| KeptView {
            object: Some((None, "p".to_owned())),
            screen: KeptScreen::Terminal { what: KeptTerminal::Shell, container: container.to_owned() },
            ..view("pods")
        };
        let drain = |nodes: Vec<String>| KeptView {
            object: Some((None, "n".to_owned())),
            screen: KeptScreen::Drain(KeptDrain { nodes, ..KeptDrain::default() }),
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
        let split = KeptSplit { share: 900, ..KeptSplit::default() };
        many.tabs[0].split = Some(split.clone());
        many.tabs[1].split =
            Some(KeptSplit { at: KeptView { object: Some((None, "n".into())), ..view("nodes") }, ..split });
        many.tabs[0].views[1].plural = "x".repeat(TEXT + 1);
        many.tabs[1].namespace = Some("n".repeat(TEXT + 1));
        many.tabs.resize(40, KeptTab::default());
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
