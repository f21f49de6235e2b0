//! Where one can go: each screen by what it needs to be made. The application makes the screen, so that no screen
//! has to know another.

use std::path::PathBuf;

use crate::access::Question;
use crate::moment::When;
use crate::resource::{ClusterId, Kind, ObjectRef, Uid};

/// Which objects of a kind a table shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Only {
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
    /// Pods that name this ConfigMap, Secret, ServiceAccount or claim in their spec.
    Using(ObjectRef),
    /// Events about this object.
    About(ObjectRef),
}

/// How the panes of a tab lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The second on the right.
    Beside,
    /// The second under the first.
    Below,
}

/// What the second pane of a tab shows of what is selected in the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Logs of what has pods, YAML of all else.
    Usual,
    /// Its logs, or YAML where it has none.
    Logs,
    /// Its YAML.
    Yaml,
    /// Its description.
    Describe,
    /// The events about it.
    Events,
}

impl Shows {
    /// The words after `:split`.
    pub(crate) const WORDS: [(&str, Self); 4] =
        [("logs", Self::Logs), ("yaml", Self::Yaml), ("describe", Self::Describe), ("events", Self::Events)];
}

/// A table to open.
#[derive(Clone, Debug)]
pub struct TableRoute {
    /// Of what.
    pub(crate) kind: Kind,
    /// Which of them.
    pub(crate) only: Only,
    /// Where the cursor starts.
    pub(crate) at: Option<Uid>,
    /// The filter it starts with; a sound one.
    pub(crate) filter: String,
    /// The clusters whose objects it shows; of the screen's own where there are none.
    pub(crate) over: Vec<ClusterId>,
    /// The moment that it shows first; none is now.
    pub(crate) when: Option<When>,
}

impl TableRoute {
    /// All objects of a kind in scope.
    pub(crate) fn of(kind: Kind) -> Self {
        Self { kind, only: Only::All, at: None, filter: String::new(), over: Vec::new(), when: None }
    }

    /// Only some of them.
    #[must_use]
    pub(crate) fn only(self, only: Only) -> Self {
        Self { only, ..self }
    }

    /// With the cursor on an object.
    #[must_use]
    pub(crate) fn at(self, uid: Option<Uid>) -> Self {
        Self { at: uid, ..self }
    }
}

/// Which run of a container logs are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRun {
    /// The one now.
    Current,
    /// The one before the last restart.
    Previous,
}

/// What to open in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalPurpose {
    /// A shell in a container.
    Shell,
    /// The container's own process.
    Attach,
    /// A new ephemeral container.
    Debug,
    /// A shell on a node, in a pod that is made for it.
    NodeShell,
    /// A program of this machine, for what is selected.
    Program,
}

/// A way that a connection would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The pod that would open it: `NAMESPACE/NAME`.
    pub(crate) source: String,
    /// Whom to, as `podium why-not-connected` takes it.
    pub(crate) destination: String,
}

/// A port of a pod that is to be reached from this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The pod.
    pub pod: ObjectRef,
    /// Its port.
    pub remote: u16,
    /// The port here; 0 is any that is free.
    pub local: u16,
}

impl Forward {
    /// `default/web-1:80`.
    pub(crate) fn describe(&self) -> String {
        let namespace = self.pod.namespace.as_deref().unwrap_or("default");
        format!("{namespace}/{}:{}", self.pod.name, self.remote)
    }
}

/// A directory or file of the user's, to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesRoute {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Whether it is asked at once about applying what is there.
    pub(crate) apply: bool,
}

/// A screen to open.
#[derive(Clone, Debug)]
pub enum Route {
    /// Objects of a kind.
    Table(TableRoute),
    /// An object described.
    Describe(ObjectRef),
    /// An object as YAML.
    Yaml(ObjectRef),
    /// An object as YAML, as it was.
    YamlAt(ObjectRef, When),
    /// An object described as it was.
    DescribeAt(ObjectRef, When),
    /// The versions of an object.
    Versions(ObjectRef),
    /// What happened to an object, to its owners and to what they own.
    Timeline(ObjectRef),
    /// An object in the editor.
    Edit(ObjectRef),
    /// Logs of a pod or of the pods of a workload.
    Logs(ObjectRef, LogRun),
    /// Logs of one container of a pod.
    ContainerLogs(ObjectRef, LogRun, String),
    /// Who owns whom, from objects of a kind down, or from all that nobody owns.
    Tree(Option<Kind>),
    /// Manifests on the user's disk.
    Files(FilesRoute),
    /// What was saved, in this directory.
    Dumps(PathBuf),
    /// One of those files.
    Dump(PathBuf),
    /// Zones, their nodes, and the pods on them.
    Topology,
    /// The containers of a pod.
    Containers(ObjectRef),
    /// A Secret as YAML, its data decoded.
    Decoded(ObjectRef),
    /// The rollout of a Deployment.
    Rollout(ObjectRef),
    /// The same, with the revision picked that the ReplicaSet of this name is.
    RolloutAt(ObjectRef, String),
    /// A drain of nodes.
    Drain(Vec<ObjectRef>),
    /// Why something is not ready.
    Explain(ObjectRef),
    /// Why a pod waits for a node.
    Pending(ObjectRef),
    /// A controller of the control plane.
    Controller(ObjectRef),
    /// Why a pod is not connected to somebody.
    Connection(Connect),
    /// What I may, whether I may, and who may.
    Access(Question),
    /// A copy out of a container of a pod, or into it.
    Transfer(ObjectRef, Option<String>),
    /// A terminal in one container of a pod.
    ContainerTerminal(ObjectRef, TerminalPurpose, String),
    /// A terminal in a pod, or on a node.
    Terminal(ObjectRef, TerminalPurpose),
}

impl Route {
    /// Returns whether the view shows the past, or nothing that changes in time.
    pub(crate) fn is_of_the_past(&self) -> bool {
        match self {
            Self::YamlAt(..)
            | Self::DescribeAt(..)
            | Self::Versions(_)
            | Self::Timeline(_)
            | Self::Files(_)
            | Self::Dumps(_)
            | Self::Dump(_) => true,
            Self::Table(table) => table.when.is_some(),
            _ => false,
        }
    }
}

impl From<TableRoute> for Route {
    fn from(table: TableRoute) -> Self {
        Self::Table(table)
    }
}
