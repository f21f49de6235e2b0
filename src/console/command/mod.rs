//! The one table of commands, the source of keys, help, footer and palette.
//!
//! A key is looked up in the contexts of the top screen, the most specific first, so that `s` can mean a shell on a pod
//! and scale on a deployment. Within one context no key has two meanings (tested).

mod bindings;
#[cfg(test)]
mod key_reference_tests;
mod prompt_words;

pub use bindings::{BindError, Bindings};
pub(crate) use prompt_words::PROMPT_WORDS;

/// The context in which a command applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyContext {
    /// Everywhere, unless a screen takes all keys.
    Everywhere,
    /// Switching tabs, if there are several; also in terminals and editors.
    Tabs,
    /// The panes of a split tab; also in terminals and editors.
    Panes,
    /// Lists with a selection.
    List,
    /// Tables of objects.
    Objects,
    /// Tables over several contexts.
    Contexts,
    /// Views that can travel in time: tables, YAML, descriptions.
    TimeTravel,
    /// The versions of an object.
    Versions,
    /// The timeline of an owner tree.
    Timeline,
    /// Pods.
    Pods,
    /// The containers of a pod.
    Containers,
    /// The owner tree.
    Tree,
    /// The topology.
    Topology,
    /// Port-forwards.
    Forwards,
    /// Directories with manifests.
    Files,
    /// The list of saved files.
    Dumps,
    /// The text of a saved file.
    DumpText,
    /// CronJobs.
    CronJobs,
    /// Secrets.
    Secrets,
    /// Pods and services.
    ConnectionEnds,
    /// Objects with pods for port-forwards: pods, services, workloads.
    Forwardable,
    /// Objects that pods refer to in their spec: ConfigMaps, Secrets, service accounts, claims.
    Referenced,
    /// A pending pod without a node.
    Unscheduled,
    /// Deployments and replica sets.
    Workloads,
    /// Deployments only.
    Deployments,
    /// Replica sets only.
    ReplicaSets,
    /// Services only.
    Services,
    /// Nodes.
    Nodes,
    /// Faults.
    Faults,
    /// Snapshots of the cluster.
    Snapshots,
    /// Fences of nodes.
    Fences,
    /// Controllers of the control plane.
    Controllers,
    /// The queue and the reconciles of one controller.
    ControllerKeys,
    /// Namespaces.
    Namespaces,
    /// Events.
    Events,
    /// The overview.
    Overview,
    /// Text that scrolls: YAML, describe, logs.
    Text,
    /// YAML.
    Yaml,
    /// Describe.
    Describe,
    /// Logs.
    Logs,
    /// The rollout view.
    Rollout,
    /// The explanation of why an object is not ready.
    Explain,
    /// The explanation of why a pod is pending.
    Pending,
    /// The diagnosis of a pod's connection.
    Connection,
    /// A copy from or to a container.
    Transfer,
    /// A drain.
    Drain,
    /// The journal.
    Journal,
    /// The editor; keys without a command insert text.
    Editor,
    /// The editor's difference before it is saved.
    Review,
    /// The editor's offer of a draft.
    Draft,
    /// The editor's choice in a merge conflict.
    Conflict,
    /// A terminal pane; keys without a command go to the process.
    Terminal,
    /// The drills.
    Drills,
}

impl KeyContext {
    /// Reports whether the context's commands work in views of many kinds.
    fn is_of_many_views(self) -> bool {
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

    /// Returns the heading in the help.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Everywhere => "Everywhere",
            Self::Tabs => "Tabs",
            Self::Panes => "Panes",
            Self::List => "Moving",
            Self::Objects => "Any table",
            Self::Contexts => "Several contexts",
            Self::TimeTravel => "Time travel",
            Self::Versions => "Versions",
            Self::Timeline => "Timeline",
            Self::Pods => "Pods",
            Self::Containers => "Containers",
            Self::Tree => "Owner tree",
            Self::Topology => "Topology",
            Self::Forwards => "Port-forwards",
            Self::Files => "Manifests",
            Self::Dumps => "Screen dumps",
            Self::DumpText => "A screen dump",
            Self::CronJobs => "CronJobs",
            Self::Secrets => "Secrets",
            Self::ConnectionEnds => "Pods, services",
            Self::Forwardable => "Pods, services, workloads",
            Self::Referenced => "ConfigMaps, Secrets, accounts, claims",
            Self::Unscheduled => "A pod without a node",
            Self::Workloads => "Deployments, replica sets",
            Self::Deployments => "Deployments",
            Self::ReplicaSets => "Replica sets",
            Self::Services => "Services",
            Self::Nodes => "Nodes",
            Self::Faults => "Faults",
            Self::Snapshots => "Snapshots",
            Self::Fences => "Fences of nodes",
            Self::Controllers => "Controllers",
            Self::ControllerKeys => "A controller",
            Self::Namespaces => "Namespaces",
            Self::Events => "Events",
            Self::Overview => "Overview",
            Self::Text => "Text",
            Self::Yaml => "YAML",
            Self::Describe => "Describe",
            Self::Logs => "Logs",
            Self::Rollout => "Rollout",
            Self::Explain => "Why not ready",
            Self::Pending => "Why pending",
            Self::Connection => "Why not connected",
            Self::Transfer => "Copy",
            Self::Drain => "Drain",
            Self::Journal => "Journal",
            Self::Editor => "Editor",
            Self::Review => "Editor: diff before saving",
            Self::Draft => "Editor: unsaved edit",
            Self::Conflict => "Editor: merge conflict",
            Self::Terminal => "Terminal",
            Self::Drills => "Drills",
        }
    }
}

/// The effect of a command; commands that change the cluster are refused in read-only mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandImpact {
    /// Read-only.
    Nothing,
    /// It changes the cluster.
    Cluster,
}

/// One row of the table of commands.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The command.
    pub command: Command,
    /// Its name in configuration and palette.
    pub name: &'static str,
    /// The default keys.
    pub keys: &'static [&'static str],
    /// One word for the footer; empty if it appears in the help only.
    pub(crate) short: &'static str,
    /// The context in which it applies.
    pub context: KeyContext,
    /// Its effect.
    pub impact: CommandImpact,
    /// A line for the help.
    pub about: &'static str,
}

impl Entry {
    /// Returns the command's word in messages: the one of the footer, or else its name.
    pub(crate) fn word(&self) -> &'static str {
        if self.short.is_empty() { self.name } else { self.short }
    }

    /// Returns a short description for footer and help; the name is for configuration and the palette.
    pub(crate) fn in_short(&self) -> String {
        if !self.short.is_empty() {
            return self.short.to_owned();
        }
        // The first clause of a long description.
        let clause = self.about.split([':', ';', ',']).next().unwrap_or_default();
        let mut letters = clause.chars();
        match letters.next() {
            Some(first) => first.to_lowercase().chain(letters).collect(),
            None => self.name.to_owned(),
        }
    }
}

macro_rules! commands {
    ($( $context:ident { $( $command:ident $name:literal [$($key:literal),*] $short:literal $touches:ident $about:literal; )* } )*) => {
        /// Every command of keys and the palette.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Command {
            $( $( #[doc = $about] $command, )* )*
        }
        /// The table of commands.
        pub const TABLE: &[Entry] = &[
            $( $( Entry { command: Command::$command, name: $name, keys: &[$($key),*], short: $short,
                context: KeyContext::$context, impact: CommandImpact::$touches, about: $about }, )* )*
        ];
    };
}

commands! {
    Everywhere {
        Prompt "command" [":"] "command" Nothing "Type a command or a kind";
        Filter "filter" ["/"] "filter" Nothing "Filter rows or search text";
        Help "help" ["?"] "help" Nothing "Show every key that works here";
        Back "back" ["esc"] "" Nothing "Go back; a filter is cleared first";
        HistoryBack "history-back" ["["] "" Nothing "Run the history's previous command";
        HistoryForward "history-forward" ["]"] "" Nothing "Run the history's next command";
        LastView "last-view" ["-"] "" Nothing "Return to the previous view";
        Aliases "aliases" ["ctrl-a"] "" Nothing "List kinds and their short names";
        Refresh "refresh" ["ctrl-r"] "" Nothing "Redraw and reload";
        ToggleHeader "toggle-header" ["ctrl-e"] "" Nothing "Show or hide the header";
        OpenJournal "journal" ["U"] "" Nothing "List changes, and undo them";
        OpenOverview "overview" ["~"] "" Nothing "Open the overview";
        OpenDrills "drills" [] "" Nothing "Drills: faults to find and repair";
        TabNew "tabnew" ["ctrl-t"] "" Nothing "Open a tab";
        TabClose "tabclose" ["alt-w"] "" Nothing "Close this tab; its work continues in the background";
        TabNext "tabnext" ["ctrl-n", "alt-right", "ctrl-pagedown"] "" Nothing "Go to the next tab";
        TabPrevious "tabprevious" ["ctrl-p", "alt-left", "ctrl-pageup"] "" Nothing "Go to the previous tab";
        SplitBeside "split-beside" ["|"] "" Nothing "Open a pane beside: logs or YAML of the selection; more with :vsplit";
        SplitBelow "split-below" ["_"] "" Nothing "Open a pane below; more with :split";
        ThemeNext "theme" ["ctrl-y"] "" Nothing "Pick a theme, with preview";
        Quit "quit" ["ctrl-c"] "" Nothing "Quit";
    }
    Tabs {
        Tab1 "tab-1" ["alt-1"] "" Nothing "Go to the tab with this number";
        Tab2 "tab-2" ["alt-2"] "" Nothing "Go to the tab with this number";
        Tab3 "tab-3" ["alt-3"] "" Nothing "Go to the tab with this number";
        Tab4 "tab-4" ["alt-4"] "" Nothing "Go to the tab with this number";
        Tab5 "tab-5" ["alt-5"] "" Nothing "Go to the tab with this number";
        Tab6 "tab-6" ["alt-6"] "" Nothing "Go to the tab with this number";
        Tab7 "tab-7" ["alt-7"] "" Nothing "Go to the tab with this number";
        Tab8 "tab-8" ["alt-8"] "" Nothing "Go to the tab with this number";
        Tab9 "tab-9" ["alt-9"] "" Nothing "Go to the tab with this number";
    }
    Panes {
        PaneFocus "pane-focus" ["f6", "alt-o"] "" Nothing "Go to the other pane";
        PaneShrink "pane-shrink" ["f7", "alt--"] "" Nothing "Make this pane smaller";
        PaneGrow "pane-grow" ["f8", "alt-="] "" Nothing "Make this pane larger";
        PaneFollow "pane-follow" ["f9"] "" Nothing "Make the second pane follow the selection, or stay";
        PaneClose "pane-close" ["alt-q"] "" Nothing "Close the second pane";
    }
    List {
        Up "up" ["k", "up"] "" Nothing "Up";
        Down "down" ["j", "down"] "" Nothing "Down";
        Top "top" ["g", "home"] "" Nothing "First";
        Bottom "bottom" ["G", "end"] "" Nothing "Last";
        PageUp "page-up" ["ctrl-b", "pageup"] "" Nothing "A page up";
        PageDown "page-down" ["ctrl-f", "pagedown"] "" Nothing "A page down";
        Left "left" ["h", "left"] "" Nothing "Left";
        Right "right" ["l", "right"] "" Nothing "Right";
        Enter "enter" ["enter"] "" Nothing "Open or pick";
        NextPart "next-part" ["tab"] "" Nothing "Go to the next part of the screen";
        PreviousPart "previous-part" ["shift-tab"] "" Nothing "Go to the previous part of the screen";
        Leave "leave" ["q"] "" Nothing "Go back; quit from the first view";
    }
    Objects {
        Describe "describe" ["d"] "describe" Nothing "Describe";
        Yaml "yaml" ["y"] "yaml" Nothing "Show as YAML";
        Edit "edit" ["e"] "edit" Cluster "Edit as YAML";
        Delete "delete" ["ctrl-d"] "delete" Cluster "Delete, after confirmation";
        Label "label" ["L"] "" Cluster "Set or remove labels";
        Explain "explain" ["W"] "why" Nothing "Explain why it is not ready: the causes, down to the container";
        Owner "owner" ["J"] "" Nothing "Go to its owner";
        CopyName "copy-name" ["c"] "" Nothing "Copy its name";
        CopyNamespace "copy-namespace" ["n"] "" Nothing "Copy the name of its namespace";
        Mark "mark" ["space"] "" Nothing "Mark for a bulk action";
        MarkRange "mark-range" ["ctrl-space"] "" Nothing "Mark from the last mark to here";
        ClearMarks "clear-marks" ["ctrl-\\"] "" Nothing "Clear all marks";
        SaveCsv "save-csv" ["ctrl-s"] "" Nothing "Save the table as CSV";
        Faults "faults" ["ctrl-z"] "" Nothing "Show unhealthy rows only, or all";
        Wide "wide" ["ctrl-w"] "" Nothing "Show more columns, or fewer";
        SortName "sort-name" ["N"] "" Nothing "Sort by name";
        SortAge "sort-age" ["A"] "" Nothing "Sort by age";
        SortStatus "sort-status" ["S"] "" Nothing "Sort by status";
        ColumnLeft "column-left" ["shift-left"] "" Nothing "Pick the column to the left";
        ColumnRight "column-right" ["shift-right"] "" Nothing "Pick the column to the right";
        SortColumn "sort-column" ["O"] "" Nothing "Sort by the picked column, or reverse it";
        AllNamespaces "all-namespaces" ["0"] "" Nothing "Show all namespaces";
        Namespace1 "namespace-1" ["1"] "" Nothing "Show the namespace with this number in the header";
        Namespace2 "namespace-2" ["2"] "" Nothing "Show the namespace with this number in the header";
        Namespace3 "namespace-3" ["3"] "" Nothing "Show the namespace with this number in the header";
        Namespace4 "namespace-4" ["4"] "" Nothing "Show the namespace with this number in the header";
        Namespace5 "namespace-5" ["5"] "" Nothing "Show the namespace with this number in the header";
        Namespace6 "namespace-6" ["6"] "" Nothing "Show the namespace with this number in the header";
        Namespace7 "namespace-7" ["7"] "" Nothing "Show the namespace with this number in the header";
        Namespace8 "namespace-8" ["8"] "" Nothing "Show the namespace with this number in the header";
        Namespace9 "namespace-9" ["9"] "" Nothing "Show the namespace with this number in the header";
    }
    Contexts {
        OneContext "one-context" ["@"] "one context" Nothing "Show rows of this row's context only, or of all contexts";
    }
    TimeTravel {
        PastBack "past-back" ["<"] "" Nothing "Go back in time, to the previous change; esc returns to now";
        PastForward "past-forward" [">"] "" Nothing "Go forward in time, to the next change";
        PastBackMore "past-back-more" ["{"] "past" Nothing "Go back in time by ten seconds";
        PastForwardMore "past-forward-more" ["}"] "" Nothing "Go forward in time by ten seconds";
        PastAt "past-go-to" ["@"] "" Nothing "Go to a time: -5m, 14:03:05, an RFC 3339 timestamp";
        OpenVersions "versions" ["V"] "versions" Nothing "List its versions with their times, and the diff of any two";
        OpenTimeline "timeline" ["T"] "timeline" Nothing "Show the timeline of it, its owners and their dependents";
    }
    Versions {
        VersionsBase "versions-compare" ["space"] "compare with" Nothing "Compare all with this version, or each with the previous one";
        VersionsYaml "versions-yaml" ["y"] "yaml" Nothing "Show the object's YAML as it was then";
        VersionsDescribe "versions-describe" ["d"] "describe" Nothing "Describe it as it was then";
        VersionsAll "versions-all" ["a"] "all" Nothing "Show or hide versions that changed only the status";
        VersionsCopy "versions-copy" ["c"] "copy" Nothing "Copy the difference";
    }
    Timeline {
        TimelineObject "timeline-object" ["o"] "object" Nothing "Go to the object";
        TimelineDescribe "timeline-describe" ["d"] "describe" Nothing "Describe the object";
        TimelineThen "timeline-yaml" ["y"] "yaml then" Nothing "Show the object's YAML as it was then";
        TimelineOrder "timeline-order" ["O"] "order" Nothing "Show the newest first, or the oldest";
        TimelineCopy "timeline-copy" ["c"] "copy" Nothing "Copy all lines";
    }
    Pods {
        Logs "logs" ["l"] "logs" Nothing "Show its logs";
        PreviousLogs "previous-logs" ["p"] "" Nothing "Show the logs of the previous run";
        Shell "shell" ["s"] "shell" Cluster "Open a shell in a container";
        Attach "attach" ["a"] "" Cluster "Attach to a container";
        Debug "debug" ["D"] "debug" Cluster "Start an ephemeral container and attach to it";
        Kill "kill" ["ctrl-k"] "" Cluster "Kill: delete without a grace period";
        Transfer "transfer" ["t"] "" Cluster "Copy files out of it, or into it";
        PodImage "pod-image" ["i"] "" Cluster "Set an image: its container restarts";
        PodNode "node" ["o"] "" Nothing "Go to its node";
    }
    Containers {
        ContainerLogs "container-logs" ["l"] "logs" Nothing "Show its logs";
        ContainerPrevious "container-previous" ["p"] "previous" Nothing "Show the logs of its previous run";
        ContainerShell "container-shell" ["s"] "shell" Cluster "Open a shell in it";
        ContainerAttach "container-attach" ["a"] "attach" Cluster "Attach to it";
        ContainerDebug "container-debug" ["D"] "debug" Cluster "Start an ephemeral container and attach to it";
        ContainerDescribe "container-describe" ["d"] "describe" Nothing "Describe the pod";
        ContainerYaml "container-yaml" ["y"] "yaml" Nothing "Show the pod as YAML";
        ContainerForward "container-forward" ["F", "f"] "forward" Cluster "Forward a port of it to this machine";
        ContainerTransfer "container-transfer" ["t"] "copy files" Cluster "Copy files out of it, or into it";
        ContainerCopy "container-copy" ["c"] "" Nothing "Copy the name of its image";
    }
    Tree {
        TreeDescribe "tree-describe" ["d"] "describe" Nothing "Describe the object at the cursor";
        TreeYaml "tree-yaml" ["y"] "yaml" Nothing "Show it as YAML";
        TreeLogs "tree-logs" ["l"] "logs" Nothing "Show its logs";
        TreeExplain "tree-explain" ["W"] "why" Nothing "Explain why it is not ready";
        TreeTimeline "tree-timeline" ["T"] "timeline" Nothing "Show the timeline of its owner tree";
        TreeFaults "tree-faults" ["ctrl-z"] "faults" Nothing "Show unhealthy objects only, with their owners";
    }
    Topology {
        TopologyDescribe "topology-describe" ["d"] "describe" Nothing "Describe the node";
        TopologyDrain "topology-drain" ["r"] "drain" Cluster "Drain the node: preview, then evict with progress";
    }
    Forwards {
        ForwardStop "forward-stop" ["ctrl-d", "x"] "stop" Nothing "Stop it, with its connections";
        ForwardCopy "forward-copy" ["c"] "copy" Nothing "Copy its URL";
    }
    Files {
        FilesApply "files-apply" ["a"] "apply" Cluster "Apply the file, or the files of the directory, after a preview";
        FilesDelete "files-delete" ["ctrl-d"] "delete" Cluster "Delete its objects, after confirmation";
        FilesShow "files-show" ["y"] "show" Nothing "Show the text of the file, as it is now";
        FilesEdit "files-edit" ["e"] "edit" Nothing "Edit the file in $EDITOR, then reload it";
    }
    Dumps {
        DumpEdit "screen-dump-edit" ["e"] "edit" Nothing "Edit the file in $EDITOR";
        DumpRemove "screen-dump-remove" ["ctrl-d"] "remove" Nothing "Remove the file, after confirmation";
    }
    DumpText {
        DumpTextEdit "screen-dump-text-edit" ["e"] "edit" Nothing "Edit the file in $EDITOR, then reload it";
    }
    CronJobs {
        Trigger "trigger" ["t"] "trigger" Cluster "Run it now, after confirmation";
        Suspend "suspend" ["s"] "suspend/resume" Cluster "Suspend or resume it";
    }
    Secrets {
        Decode "decode" ["x"] "decode" Nothing "Show its data decoded";
    }
    ConnectionEnds {
        WhyNotConnected "why-not-connected" ["C"] "connection" Nothing "Explain a failing connection";
    }
    Forwardable {
        PortForward "port-forward" ["F"] "" Cluster "Forward a port of it, or of one of its pods, to this machine";
        ShowForwards "show-forwards" ["f"] "" Nothing "List port-forwards, as :pf does";
    }
    Referenced {
        UsedBy "used-by" ["u"] "used by" Nothing "List the pods that use it";
    }
    Unscheduled {
        WhyPending "why-pending" ["W"] "why pending" Nothing "Explain why no node accepts it, and what would change that";
    }
    Workloads {
        Scale "scale" ["s"] "scale" Cluster "Scale";
        Restart "restart" ["r"] "restart" Cluster "Restart its pods step by step";
        SetImage "set-image" ["i"] "image" Cluster "Set an image";
        WorkloadLogs "workload-logs" ["l"] "logs" Nothing "Show the logs of all its pods";
    }
    Deployments {
        Rollout "rollout" ["R"] "rollout" Nothing "Rollout: progress, history, undo";
        Rollback "rollback" ["ctrl-l"] "" Cluster "Roll back to a revision; asks for it";
        ReplicaSets "replica-sets" ["z"] "" Nothing "List its replica sets";
    }
    ReplicaSets {
        OwnerRollback "owner-rollback" ["ctrl-l"] "" Nothing "Show its Deployment's rollout, to roll back to a revision";
    }
    Services {
        ServiceLogs "service-logs" ["l"] "logs" Nothing "Show the logs of all pods that it selects";
    }
    Nodes {
        Cordon "cordon" ["c"] "cordon" Cluster "Cordon: the node accepts no new pods";
        Uncordon "uncordon" ["u"] "uncordon" Cluster "Uncordon: the node accepts new pods again";
        OpenDrain "drain" ["r"] "drain" Cluster "Drain: preview, then evict with progress";
        Taint "taint" ["t"] "taint" Cluster "Set or remove taints";
        NodeShell "node-shell" ["s"] "shell" Cluster "Open a shell on it, in a temporary pod";
        Fence "fence" ["F"] "fence" Cluster "Fence: kill all its processes, after confirmation; or unfence";
        AddNode "add-node" ["a"] "add" Cluster "Add a node, if Podium runs the cluster";
    }
    Faults {
        Heal "heal" ["H"] "heal" Cluster "End a fault now";
        Break "break" ["a"] "add" Cluster "Add a fault; asks for its type and duration";
    }
    Snapshots {
        SnapshotSave "snapshot-save" ["a"] "save" Cluster "Save the current state of the cluster; asks for a name";
        SnapshotRestore "snapshot-restore" ["r"] "restore" Cluster "Restore the cluster from it, after its name is typed";
        SnapshotFork "snapshot-fork" ["f"] "fork" Nothing "Create a data directory from it, for a second cluster";
    }
    Fences {
        Unfence "unfence" ["u"] "unfence" Cluster "Unfence the node, after confirmation: it starts without pods";
    }
    Controllers {
        ControllerPause "controller-pause" ["p"] "pause/resume" Cluster "Pause or resume it; its queue grows while it is paused";
        ControllerStep "controller-step" ["s"] "step" Cluster "Reconcile one key of a paused controller: the picked one, or the next";
    }
    ControllerKeys {
        ControllerDescribe "controller-describe" ["d"] "describe" Nothing "Describe the object of the key";
        ControllerCopy "controller-copy" ["c"] "copy" Nothing "Copy the key and its result";
    }
    Namespaces {
        UseNamespace "use-namespace" ["u"] "use" Nothing "Show this namespace only";
    }
    Events {
        EventObject "event-object" ["o"] "object" Nothing "Go to the object of the event";
        EventsPause "events-pause" ["p"] "pause" Nothing "Pause, or follow new events";
        EventsGroup "events-group" ["ctrl-g"] "group" Nothing "Show one row for each object and reason, or for each event";
        EventsWarnings "events-warnings" ["w"] "warnings" Nothing "Show warnings only, or all";
    }
    Overview {
        ShowPods "show-pods" ["p"] "pods" Nothing "List pods";
        ShowDeployments "show-deployments" ["d"] "deployments" Nothing "List deployments";
        ShowNodes "show-nodes" ["n"] "nodes" Nothing "List nodes";
        ShowEvents "show-events" ["e"] "events" Nothing "List events";
        ShowServices "show-services" ["s"] "services" Nothing "List services";
    }
    Text {
        SearchNext "search-next" ["n"] "" Nothing "Go to the next match";
        SearchPrevious "search-previous" ["N"] "" Nothing "Go to the previous match";
        Wrap "wrap" ["w"] "" Nothing "Wrap long lines, or stop wrapping";
        Copy "copy" ["c"] "copy" Nothing "Copy the text";
        Save "save" ["ctrl-s"] "save" Nothing "Save to a file";
        FullScreen "full-screen" ["f"] "" Nothing "Hide or show the frame and the header";
    }
    Yaml {
        ManagedFields "managed-fields" ["m"] "managed" Nothing "Show or hide managedFields";
        YamlDecode "yaml-decode" ["x"] "" Nothing "Show or hide a Secret's data decoded";
        YamlEdit "yaml-edit" ["e"] "edit" Cluster "Edit the object";
    }
    Describe {
        DescribeYaml "describe-yaml" ["y"] "yaml" Nothing "Show the object as YAML";
        DescribeLogs "describe-logs" ["l"] "logs" Nothing "Show its logs";
    }
    Logs {
        LogsTail "logs-tail" ["0"] "tail" Nothing "Show the last lines";
        LogsHead "logs-head" ["1"] "head" Nothing "Show all lines from the start";
        Logs1m "logs-1m" ["2"] "1m" Nothing "Show the last minute";
        Logs5m "logs-5m" ["3"] "5m" Nothing "Show the last five minutes";
        Logs15m "logs-15m" ["4"] "" Nothing "Show the last fifteen minutes";
        Logs30m "logs-30m" ["5"] "" Nothing "Show the last thirty minutes";
        Logs1h "logs-1h" ["6"] "" Nothing "Show the last hour";
        LogsAutoscroll "logs-autoscroll" ["s"] "autoscroll" Nothing "Follow new lines";
        LogsTimestamps "logs-timestamps" ["t"] "timestamps" Nothing "Show or hide timestamps";
        LogsMark "logs-mark" ["m"] "mark" Nothing "Draw a line with the time, as a mark";
        LogsClear "logs-clear" ["C"] "" Nothing "Clear the view";
        LogsAllContainers "logs-all-containers" ["a"] "all" Nothing "Show all containers, or one";
        LogsPrevious "logs-previous" ["p"] "previous" Nothing "Show the previous run, or this one";
        LogsFilter "logs-filter" ["F"] "" Nothing "Show only lines that match, or all; JSON by path: /.level == error";
        LogsContainer "logs-container" ["tab"] "" Nothing "Show the next container";
    }
    Rollout {
        RolloutUndo "rollout-undo" ["u", "ctrl-l"] "undo" Cluster "Undo to the picked revision";
        RolloutPause "rollout-pause" ["p"] "pause/resume" Cluster "Pause or resume";
        RolloutRestart "rollout-restart" ["r"] "restart" Cluster "Restart";
        RolloutScale "rollout-scale" ["s"] "scale" Cluster "Scale";
        RolloutSetImage "rollout-set-image" ["i"] "image" Cluster "Set an image";
        RolloutExplain "rollout-explain" ["W"] "why" Nothing "Explain why it is not ready";
        RolloutTimeline "rollout-timeline" ["T"] "timeline" Nothing "Show the timeline of it, its replica sets and pods";
        RolloutPods "rollout-pods" ["o"] "pods" Nothing "List its pods";
    }
    Pending {
        PendingOpen "pending-open" ["space"] "open" Nothing "Open or close a group of nodes; go to a node";
        PendingDescribe "pending-describe" ["d"] "describe" Nothing "Describe the pod";
        PendingYaml "pending-yaml" ["y"] "yaml" Nothing "Show the pod as YAML";
        PendingCopy "pending-copy" ["c"] "copy" Nothing "Copy the scheduler's message";
    }
    Explain {
        ExplainDescribe "explain-describe" ["d"] "describe" Nothing "Describe the object at the cursor";
        ExplainYaml "explain-yaml" ["y"] "yaml" Nothing "Show it as YAML";
        ExplainLogs "explain-logs" ["l"] "logs" Nothing "Show its logs";
        ExplainTimeline "explain-timeline" ["T"] "timeline" Nothing "Show the timeline of its owner tree";
        ExplainCopy "explain-copy" ["c"] "copy" Nothing "Copy the causes";
    }
    Connection {
        ConnectionAgain "connection-retry" ["r"] "again" Nothing "Check the connection again now";
        ConnectionCopy "connection-copy" ["c"] "copy" Nothing "Copy the findings";
    }
    Transfer {
        TransferStop "transfer-stop" ["x", "ctrl-d"] "stop" Nothing "Stop; the partial copy is removed";
        TransferAgain "transfer-retry" ["r"] "again" Cluster "Retry what failed";
        TransferCopy "transfer-copy" ["c"] "" Nothing "Copy the kubectl command";
    }
    Drain {
        DrainStart "drain-start" ["D"] "drain" Cluster "Start or resume the drain";
        DrainStop "drain-stop" ["x"] "stop" Nothing "Stop; evicted pods stay evicted";
        DrainToggle "drain-toggle" ["space"] "toggle" Nothing "Turn the option or the pod's exception on or off";
        DrainUncordon "drain-uncordon" ["u"] "uncordon" Cluster "Uncordon the node";
    }
    Journal {
        JournalUndo "journal-undo" ["u"] "undo" Cluster "Undo the change";
        JournalCopy "journal-copy" ["c"] "copy" Nothing "Copy the kubectl command";
    }
    Editor {
        EditorSave "editor-save" ["ctrl-s"] "save" Cluster "Check, show the difference and save";
        EditorExternal "editor-external" ["ctrl-o"] "$EDITOR" Nothing "Continue in $EDITOR";
        EditorLeave "editor-leave" ["esc"] "leave" Nothing "Leave; changes need confirmation";
    }
    Review {
        ReviewSave "review-save" ["enter", "ctrl-s"] "save" Cluster "Save this change";
        ReviewBack "review-back" ["esc"] "go on editing" Nothing "Return to the text";
    }
    Draft {
        DraftRestore "draft-restore" ["r", "enter"] "restore" Nothing "Restore the unsaved edit";
        DraftDiscard "draft-discard" ["x"] "discard" Nothing "Delete the unsaved edit";
        DraftLater "draft-later" ["esc"] "later" Nothing "Edit the current object; the unsaved edit stays on disk";
    }
    Conflict {
        ConflictMine "conflict-mine" ["m"] "take mine" Cluster "Use your value where both changed a field";
        ConflictTheirs "conflict-theirs" ["t"] "take theirs" Cluster "Use their value where both changed a field";
        ConflictBack "conflict-back" ["esc"] "go on editing" Nothing "Return to the text as you typed it";
    }
    Drills {
        DrillHint "drill-hint" ["h"] "hint" Cluster "Show the next hint, at a cost";
        DrillStop "drill-stop" ["x"] "stop" Cluster "Give up; the drill's objects are removed";
    }
    Terminal {
        TerminalDetach "terminal-detach" ["ctrl-]"] "detach" Nothing "Leave the terminal; it continues in the background";
        TerminalEnd "terminal-end" ["f12"] "end" Nothing "Close the terminal and its session";
        TerminalScrollUp "terminal-scroll-up" ["shift-pageup"] "" Nothing "Scroll back";
        TerminalScrollDown "terminal-scroll-down" ["shift-pagedown"] "" Nothing "Scroll forward";
    }
}

/// The commands with priority in a narrow footer; those of the view itself follow.
const PROMINENT: &[Command] = &[
    Command::Logs,
    Command::WorkloadLogs,
    Command::ServiceLogs,
    Command::Describe,
    Command::WhyPending,
    Command::Explain,
    Command::Rollout,
    Command::Scale,
    Command::Shell,
];
/// The commands that follow those of the view itself; those of every view come last.
const SECONDARY: &[Command] = &[
    Command::OpenTimeline,
    Command::PastBackMore,
    Command::OpenVersions,
    Command::WhyNotConnected,
    Command::Yaml,
    Command::Edit,
    Command::Delete,
];

/// The commands' names in earlier versions, which `console.toml` may still have, and the present ones.
const RENAMED: &[(&str, &str)] = &[
    ("clash-mine", "conflict-mine"),
    ("clash-theirs", "conflict-theirs"),
    ("clash-back", "conflict-back"),
    ("timeline-then", "timeline-yaml"),
    ("dump-edit", "screen-dump-edit"),
    ("dump-remove", "screen-dump-remove"),
    ("dump-text-edit", "screen-dump-text-edit"),
    ("versions-base", "versions-compare"),
    ("past-at", "past-go-to"),
    ("connection-again", "connection-retry"),
    ("transfer-again", "transfer-retry"),
];

impl Command {
    /// Returns the command's rank in the footer. A narrow footer shows only the commands with the lowest ranks.
    pub(crate) fn rank(self) -> usize {
        let place = |commands: &[Self]| commands.iter().position(|command| *command == self);
        let of_view = PROMINENT.len();
        match (place(PROMINENT), place(SECONDARY)) {
            (Some(rank), _) => rank,
            (None, Some(rank)) => of_view + 1 + rank,
            (None, None) if self.entry().context.is_of_many_views() => of_view + 1 + SECONDARY.len(),
            (None, None) => of_view,
        }
    }

    /// Returns the command's row of the table.
    pub(crate) fn entry(self) -> &'static Entry {
        TABLE.iter().find(|entry| entry.command == self).expect("the macro makes a row for each command")
    }

    /// Finds a command by its name, or by its name in an earlier version.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |&(_, new)| new);
        TABLE.iter().find(|entry| entry.name == name).map(|entry| entry.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;

    #[test]
    fn the_table_is_sound_con_3() {
        let mut names = std::collections::HashSet::new();
        for entry in TABLE {
            assert!(names.insert(entry.name), "two commands are called {}", entry.name);
            for key in entry.keys {
                assert!(Key::parse(key).is_some(), "{}: no key {key}", entry.name);
            }
        }
        for (old, new) in RENAMED {
            assert!(names.contains(new) && !names.contains(old), "{old} is now {new}");
        }
        Bindings::with(&std::collections::BTreeMap::new()).expect("no two commands of a place share a key");
    }
}
