//! The contexts of keys: the views and selections in which a command applies.

macro_rules! key_contexts {
    ($( $(#[$about:meta])* $context:ident $title:literal, )*) => {
        /// The context in which a command applies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum KeyContext {
            $( $(#[$about])* $context, )*
        }

        impl KeyContext {
            /// All contexts, in the order of the key reference.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$( Self::$context, )*];

            /// Returns the heading in the help.
            pub fn title(self) -> &'static str {
                match self {
                    $( Self::$context => $title, )*
                }
            }
        }
    };
}

key_contexts! {
    /// Everywhere, unless a screen takes all keys.
    Everywhere "Everywhere",
    /// Switching tabs, if there are several; also in terminals and editors.
    Tabs "Tabs",
    /// The panes of a split tab; also in terminals and editors.
    Panes "Panes",
    /// Lists with a selection.
    List "Moving",
    /// Tables of objects.
    Objects "Any table",
    /// Tables over several contexts.
    Contexts "Several contexts",
    /// Views that can travel in time: tables, YAML, descriptions.
    TimeTravel "Time travel",
    /// The versions of an object.
    Versions "Versions",
    /// The timeline of an owner tree.
    Timeline "Timeline",
    /// Pods.
    Pods "Pods",
    /// The containers of a pod.
    Containers "Containers",
    /// The owner tree.
    Tree "Owner tree",
    /// The topology.
    Topology "Topology",
    /// Port-forwards.
    Forwards "Port-forwards",
    /// Directories with manifests.
    Files "Manifests",
    /// The list of saved files.
    Dumps "Screen dumps",
    /// The text of a saved file.
    DumpText "A screen dump",
    /// The images of nodes.
    Images "Images of nodes",
    /// CronJobs.
    CronJobs "CronJobs",
    /// Secrets.
    Secrets "Secrets",
    /// Pods and services.
    ConnectionEnds "Pods, services",
    /// Objects with pods for port-forwards: pods, services, workloads.
    Forwardable "Pods, services, workloads",
    /// Objects that pods refer to in their spec: ConfigMaps, Secrets, service accounts, claims.
    Referenced "ConfigMaps, Secrets, accounts, claims",
    /// A pending pod without a node.
    Unscheduled "A pod without a node",
    /// Deployments and replica sets.
    Workloads "Deployments, replica sets",
    /// Deployments only.
    Deployments "Deployments",
    /// Replica sets only.
    ReplicaSets "Replica sets",
    /// Services only.
    Services "Services",
    /// Nodes.
    Nodes "Nodes",
    /// Faults.
    Faults "Faults",
    /// Snapshots of the cluster.
    Snapshots "Snapshots",
    /// Fences of nodes.
    Fences "Fences of nodes",
    /// Controllers of the control plane.
    Controllers "Controllers",
    /// The queue and the reconciles of one controller.
    ControllerKeys "A controller",
    /// Namespaces.
    Namespaces "Namespaces",
    /// Events.
    Events "Events",
    /// The overview.
    Overview "Overview",
    /// Text that scrolls: YAML, describe, logs.
    Text "Text",
    /// YAML.
    Yaml "YAML",
    /// Describe.
    Describe "Describe",
    /// Logs.
    Logs "Logs",
    /// The rollout view.
    Rollout "Rollout",
    /// The explanation of why an object is not ready.
    Explain "Why not ready",
    /// The explanation of why a pod is pending.
    Pending "Why pending",
    /// The diagnosis of a pod's connection.
    Connection "Why not connected",
    /// A copy from or to a container.
    Transfer "Copy",
    /// A drain.
    Drain "Drain",
    /// The journal.
    Journal "Journal",
    /// The editor; keys without a command insert text.
    Editor "Editor",
    /// The editor's difference before it is saved.
    Review "Editor: diff before saving",
    /// The editor's offer of a draft.
    Draft "Editor: unsaved edit",
    /// The editor's choice in a merge conflict.
    Conflict "Editor: merge conflict",
    /// A terminal pane; keys without a command go to the process.
    Terminal "Terminal",
    /// A terminal pane before its program has started; keys without a command are sent to it then.
    TerminalStarting "Terminal: starting",
    /// A terminal pane after its program has ended.
    TerminalEnded "Terminal: ended",
    /// The drills.
    Drills "Drills",
}

impl KeyContext {
    /// Reports whether the context's commands work in views of many kinds.
    pub(super) fn is_of_many_views(self) -> bool {
        matches!(
            self,
            Self::Everywhere
                | Self::Tabs
                | Self::Panes
                | Self::List
                | Self::Objects
                | Self::Contexts
                | Self::TimeTravel
                | Self::Forwardable
                | Self::Text
        )
    }
}
