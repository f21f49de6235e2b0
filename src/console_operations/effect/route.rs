//! The routes to screens: each names a screen by its parameters. The application creates the screen, so that no screen
//! depends on another.

use std::path::PathBuf;

use console_data::access::AccessQuery;
use console_data::node_images::full_image_name;
use console_data::point_in_time::TimeSelector;
use console_data::resource::{ClusterId, Kind, ObjectRef, Uid};

/// The restriction of a table to some objects of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowScope {
    /// All objects in scope.
    All,
    /// Pods on a node.
    OnNode(String),
    /// Pods on a node that use an image.
    UsingImage(ImageUse),
    /// Objects owned by this object, directly or indirectly.
    OwnedBy(ObjectRef),
    /// Objects in one namespace, regardless of the scope.
    In(String),
    /// Pods that a service or budget selects.
    Selected(ObjectRef),
    /// Pods that refer to this ConfigMap, Secret, ServiceAccount or claim in their spec.
    Using(ObjectRef),
    /// Events about this object.
    About(ObjectRef),
}

/// An image of a node, and its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUse {
    /// The node.
    pub node: String,
    /// The image's names, best first; its identity if it has none.
    pub names: Vec<String>,
    /// The pods that the node has named: `NAMESPACE/NAME`. Others use the image if one of their containers names it.
    pub pods: Vec<String>,
}

impl ImageUse {
    /// Describes the image: `nginx:1.27 on node-1`.
    pub fn describe(&self) -> String {
        format!("{} on {}", self.name(), self.node)
    }

    /// Returns the best name of the image.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Reports whether a pod of the node uses the image; `images` are those of its containers, separated by commas.
    pub fn includes(&self, namespace: &str, name: &str, images: &str) -> bool {
        let is_named = |pod: &String| pod.split_once('/') == Some((namespace, name));
        let full = || self.names.iter().map(|name| full_image_name(name));
        self.pods.iter().any(is_named)
            || images.split(',').any(|image| full().any(|name| name == full_image_name(image)))
    }
}

/// The arrangement of a tab's panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitDirection {
    /// The second pane is to the right of the first.
    Beside,
    /// The second pane is below the first.
    Below,
}

/// The view of the selected object in the second pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaneContent {
    /// Logs of objects with pods, YAML of all others.
    Default,
    /// The object's logs, or its YAML if it has no logs.
    Logs,
    /// Its YAML.
    Yaml,
    /// Its description.
    Describe,
    /// The events about the object.
    Events,
}

impl PaneContent {
    /// The arguments of `:split`.
    pub const ARGUMENTS: [(&str, Self); 4] =
        [("logs", Self::Logs), ("yaml", Self::Yaml), ("describe", Self::Describe), ("events", Self::Events)];
}

/// A table to open.
#[derive(Clone, Debug)]
pub struct TableRoute {
    /// The kind of its rows.
    pub kind: Kind,
    /// The restriction.
    pub only: RowScope,
    /// The initial position of the cursor.
    pub at: Option<Uid>,
    /// The name of the object on which the cursor is placed once the rows are known.
    pub name: Option<String>,
    /// The initial filter; must be valid.
    pub filter: String,
    /// The clusters of the rows; empty for the screen's own cluster.
    pub clusters: Vec<ClusterId>,
    /// The point in time that the table shows first; `None` for the present.
    pub when: Option<TimeSelector>,
}

impl TableRoute {
    /// Creates a table of all objects of a kind in scope.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            only: RowScope::All,
            at: None,
            name: None,
            filter: String::new(),
            clusters: Vec::new(),
            when: None,
        }
    }

    /// Restricts the table to some objects of its kind.
    #[must_use]
    pub fn only(self, only: RowScope) -> Self {
        Self { only, ..self }
    }

    /// Puts the cursor on an object.
    #[must_use]
    pub(crate) fn at(self, uid: Option<Uid>) -> Self {
        Self { at: uid, ..self }
    }
}

/// The run of a container that wrote the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRun {
    /// The current run.
    Current,
    /// The run before the last restart.
    Previous,
}

/// The position at which the reading of logs starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// The last lines of each container.
    Tail(i64),
    /// The first line.
    Head,
    /// The lines of the last seconds.
    Since(i64),
}

/// The selected containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerFilter {
    /// All containers, including init and ephemeral ones.
    All,
    /// The container of this name.
    One(String),
}

/// Logs to open.
#[derive(Clone, Debug)]
pub struct LogsRoute {
    /// The pod, or the object with pods; without an object, the kind and namespace of the pods.
    pub target: ObjectRef,
    /// The label selector of the pods; `None` for those of the target.
    pub labels: Option<String>,
    /// The run of each container.
    pub run: LogRun,
    /// The containers; `None` for the default container of a pod, and all containers of several pods.
    pub which: Option<ContainerFilter>,
    /// The position at which reading starts; `None` for the default number of last lines.
    pub start: Option<LogStart>,
    /// Times are shown.
    pub timestamps: bool,
}

impl LogsRoute {
    /// Creates the route to the logs of a pod or of an object with pods.
    pub fn of(target: ObjectRef, run: LogRun) -> Self {
        Self { target, labels: None, run, which: None, start: None, timestamps: false }
    }

    /// Selects one container.
    #[must_use]
    pub fn in_container(self, name: String) -> Self {
        Self { which: Some(ContainerFilter::One(name)), ..self }
    }
}

/// The type of a terminal session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalPurpose {
    /// A shell in a container.
    Shell,
    /// An attach to the container's own process.
    Attach,
    /// A new ephemeral container.
    Debug,
    /// A shell on a node, in a pod created for it.
    NodeShell,
    /// A local program for the selection.
    Program,
}

/// A connection to diagnose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionRoute {
    /// The pod that opens it: `NAMESPACE/NAME`.
    pub source: String,
    /// The destination, as `podium why-not-connected` accepts it.
    pub destination: String,
}

/// A port-forward to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardRequest {
    /// The pod.
    pub pod: ObjectRef,
    /// The pod's port.
    pub remote: u16,
    /// The local port; 0 for any free one.
    pub local: u16,
}

impl ForwardRequest {
    /// Describes it: `default/web-1:80`.
    pub fn describe(&self) -> String {
        let namespace = self.pod.namespace.as_deref().unwrap_or("default");
        format!("{namespace}/{}:{}", self.pod.name, self.remote)
    }
}

/// A directory or file of the user's to view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesRoute {
    /// The path.
    pub path: PathBuf,
    /// The dialog for applying the manifests opens at once.
    pub apply: bool,
}

/// The images that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageScope {
    /// Those of all nodes.
    All,
    /// Those of one node.
    Node(String),
    /// Those that a pod uses, on its node.
    Pod(ObjectRef),
}

/// A text about an image of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTextRoute {
    /// The node.
    pub node: String,
    /// The name of the image, or its id.
    pub image: String,
    /// The text.
    pub content: ImageContent,
    /// The facts that are known before the node's answer.
    pub known: Vec<String>,
}

/// The content of a text about an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageContent {
    /// Its configuration, layers and digests.
    Details,
    /// The source of its name.
    Explanation,
}

/// A screen to open.
#[derive(Clone, Debug)]
pub enum Route {
    /// Objects of a kind.
    Table(TableRoute),
    /// The description of an object.
    Describe(ObjectRef),
    /// The YAML of an object.
    Yaml(ObjectRef),
    /// The YAML of an object at an earlier time.
    YamlAt(ObjectRef, TimeSelector),
    /// The description of an object at an earlier time.
    DescribeAt(ObjectRef, TimeSelector),
    /// The versions of an object.
    Versions(ObjectRef),
    /// The timeline of an object, its owners and its dependents.
    Timeline(ObjectRef),
    /// An object in the editor.
    Edit(ObjectRef),
    /// Logs of a pod or of several pods.
    Logs(LogsRoute),
    /// The builds and the merged logs of the project under development.
    Project,
    /// The owner tree, from objects of a kind down, or from all objects without an owner.
    Tree(Option<Kind>),
    /// Manifests on the user's disk.
    Files(FilesRoute),
    /// The saved files in this directory.
    Dumps(PathBuf),
    /// A saved file.
    Dump(PathBuf),
    /// The images of nodes.
    Images(ImageScope),
    /// A text about an image of a node.
    ImageText(ImageTextRoute),
    /// The topology: zones, their nodes, and the pods on them.
    Topology,
    /// The containers of a pod.
    Containers(ObjectRef),
    /// The YAML of a Secret with decoded data.
    Decoded(ObjectRef),
    /// The rollout of a Deployment.
    Rollout(ObjectRef),
    /// The rollout of a Deployment, with the revision of the ReplicaSet of this name selected.
    RolloutAt(ObjectRef, String),
    /// A drain of nodes.
    Drain(Vec<ObjectRef>),
    /// The explanation of why an object is not ready.
    Explain(ObjectRef),
    /// The explanation of why a pod is pending.
    Pending(ObjectRef),
    /// A controller of the control plane.
    Controller(ObjectRef),
    /// The diagnosis of a pod's connection.
    Connection(ConnectionRoute),
    /// The user's permissions, or the subjects that have a given permission.
    Access(AccessQuery),
    /// A copy from or to a container of a pod.
    Transfer(ObjectRef, Option<String>),
    /// A terminal in one container of a pod.
    ContainerTerminal(ObjectRef, TerminalPurpose, String),
    /// A terminal in a pod, or on a node.
    Terminal(ObjectRef, TerminalPurpose),
}

impl Route {
    /// Reports whether the view shows the past, or nothing that changes in time.
    pub fn is_historical(&self) -> bool {
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

    /// Reports whether the view lists something of the whole cluster or machine, and does not concern an object of the
    /// view below. Typed after `:`, it starts a new stack, as in k9s.
    pub fn starts_stack(&self) -> bool {
        matches!(
            self,
            Self::Table(_)
                | Self::Project
                | Self::Tree(_)
                | Self::Files(_)
                | Self::Dumps(_)
                | Self::Images(ImageScope::All | ImageScope::Node(_))
                | Self::Topology
        )
    }
}

impl From<TableRoute> for Route {
    fn from(table: TableRoute) -> Self {
        Self::Table(table)
    }
}

impl From<LogsRoute> for Route {
    fn from(logs: LogsRoute) -> Self {
        Self::Logs(logs)
    }
}
