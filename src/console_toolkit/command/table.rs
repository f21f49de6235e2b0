//! The one table of commands, the source of keys, help, footer and palette.
//!
//! A command is a verb. Its line has the name, the default keys, the footer's word, the effect and a line for the help,
//! then the contexts in which it applies. In braces a context gives what differs there. The first context is the
//! command's own: its keys appear in texts that do not concern another context.
//!
//! In help and footer, commands of one context have the order of this table.

use super::{CommandImpact, Entry, KeyContext};

macro_rules! commands {
    ($(
        $command:ident $name:literal $keys:tt $short:literal $impact:ident $about:literal
        in $( $context:ident $( { $($field:ident: $value:expr),+ $(,)? } )? ),+ ;
    )*) => {
        /// Every command of keys and the palette.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Command {
            $( #[doc = $about] $command, )*
        }

        #[cfg(test)]
        impl Command {
            /// All commands, in the order of the table.
            pub(crate) const ALL: &[Self] = &[$( Self::$command, )*];
        }

        /// The table: an entry for each command and context.
        pub const TABLE: &[Entry] = &[$( $( {
            let entry = Entry {
                command: Command::$command,
                name: $name,
                keys: &$keys,
                short: $short,
                context: KeyContext::$context,
                impact: CommandImpact::$impact,
                about: $about,
            };
            $( let entry = Entry { $($field: $value,)+ ..entry }; )?
            entry
        }, )+ )*];
    };
}

commands! {
    // All views.
    Prompt "command" [":"] "command" Nothing "Type a command or a kind" in Everywhere;
    Filter "filter" ["/"] "filter" Nothing "Filter rows or search text" in Everywhere;
    Help "help" ["?"] "help" Nothing "Show every key that works here" in Everywhere;
    Back "back" ["esc"] "" Nothing "Go back; a filter is cleared first" in Everywhere;
    HistoryBack "history-back" ["["] "" Nothing "Run the history's previous command" in Everywhere;
    HistoryForward "history-forward" ["]"] "" Nothing "Run the history's next command" in Everywhere;
    LastView "last-view" ["-"] "" Nothing "Return to the previous view" in Everywhere;
    Aliases "aliases" ["ctrl-a"] "" Nothing "List kinds and their short names" in Everywhere;
    Refresh "refresh" ["ctrl-r"] "" Nothing "Redraw and reload" in Everywhere;
    ToggleHeader "toggle-header" ["ctrl-e"] "" Nothing "Show or hide the header" in Everywhere;
    OpenJournal "journal" ["U"] "" Nothing "List changes, and undo them" in Everywhere;
    OpenOverview "overview" ["~"] "" Nothing "Open the overview" in Everywhere;
    OpenDrills "drills" [] "" Nothing "Drills: faults to find and repair" in Everywhere;
    TabNew "tabnew" ["ctrl-t"] "" Nothing "Open a tab" in Everywhere;
    TabClose "tabclose" ["alt-w"] "" Nothing "Close this tab; its work continues in the background"
        in Everywhere;
    TabNext "tabnext" ["ctrl-n", "alt-right", "ctrl-pagedown"] "" Nothing "Go to the next tab" in Everywhere;
    TabPrevious "tabprevious" ["ctrl-p", "alt-left", "ctrl-pageup"] "" Nothing "Go to the previous tab"
        in Everywhere;
    SplitBeside "split-beside" ["|"] "" Nothing
        "Open a pane beside: logs or YAML of the selection; more with :vsplit"
        in Everywhere;
    SplitBelow "split-below" ["_"] "" Nothing "Open a pane below; more with :split" in Everywhere;
    ThemeNext "theme" ["ctrl-y"] "" Nothing "Pick a theme, with preview" in Everywhere;
    Quit "quit" ["ctrl-c"] "" Nothing "Quit" in Everywhere;
    Tab1 "tab-1" ["alt-1"] "" Nothing "Go to the tab with this number" in Tabs;
    Tab2 "tab-2" ["alt-2"] "" Nothing "Go to the tab with this number" in Tabs;
    Tab3 "tab-3" ["alt-3"] "" Nothing "Go to the tab with this number" in Tabs;
    Tab4 "tab-4" ["alt-4"] "" Nothing "Go to the tab with this number" in Tabs;
    Tab5 "tab-5" ["alt-5"] "" Nothing "Go to the tab with this number" in Tabs;
    Tab6 "tab-6" ["alt-6"] "" Nothing "Go to the tab with this number" in Tabs;
    Tab7 "tab-7" ["alt-7"] "" Nothing "Go to the tab with this number" in Tabs;
    Tab8 "tab-8" ["alt-8"] "" Nothing "Go to the tab with this number" in Tabs;
    Tab9 "tab-9" ["alt-9"] "" Nothing "Go to the tab with this number" in Tabs;
    PaneFocus "pane-focus" ["f6", "alt-o"] "" Nothing "Go to the other pane" in Panes;
    PaneShrink "pane-shrink" ["f7", "alt--"] "" Nothing "Make this pane smaller" in Panes;
    PaneGrow "pane-grow" ["f8", "alt-="] "" Nothing "Make this pane larger" in Panes;
    PaneFollow "pane-follow" ["f9"] "" Nothing "Make the second pane follow the selection, or stay" in Panes;
    PaneClose "pane-close" ["alt-q"] "" Nothing "Close the second pane" in Panes;

    // Moving.
    Up "up" ["k", "up"] "" Nothing "Up" in List;
    Down "down" ["j", "down"] "" Nothing "Down" in List;
    Top "top" ["g", "home"] "" Nothing "First" in List;
    Bottom "bottom" ["G", "end"] "" Nothing "Last" in List;
    PageUp "page-up" ["ctrl-b", "pageup"] "" Nothing "A page up" in List;
    PageDown "page-down" ["ctrl-f", "pagedown"] "" Nothing "A page down" in List;
    Left "left" ["h", "left"] "" Nothing "Left" in List;
    Right "right" ["l", "right"] "" Nothing "Right" in List;
    Enter "enter" ["enter"] "" Nothing "Open or pick"
        in List, Drills { short: "start", impact: CommandImpact::Cluster, about: "Start the drill, after its story" };
    NextPart "next-part" ["tab"] "" Nothing "Go to the next part of the screen"
        in List, Logs { about: "Show the next container" };
    PreviousPart "previous-part" ["shift-tab"] "" Nothing "Go to the previous part of the screen" in List;
    BackOrQuit "back-or-quit" ["q"] "" Nothing "Go back; quit from the first view" in List;
    OneContext "one-context" ["@"] "one context" Nothing
        "Show rows of this row's context only, or of all contexts"
        in Contexts;

    // Going on, stopping and undoing.
    DrainStart "drain-start" ["D"] "drain" Cluster "Start or resume the drain" in Drain;
    Stop "stop" ["x"] "stop" Nothing "Stop"
        in Forwards { keys: &["ctrl-d", "x"], about: "Stop it, with its connections" },
        Transfer { keys: &["x", "ctrl-d"], about: "Stop; the partial copy is removed" },
        Drain { about: "Stop; evicted pods stay evicted" },
        Drills { impact: CommandImpact::Cluster, about: "Stop; the drill's objects are removed" };
    Retry "retry" ["r"] "again" Cluster "Retry what failed"
        in Transfer,
        Connection { impact: CommandImpact::Nothing, about: "Check the connection again now" },
        TerminalEnded { impact: CommandImpact::Nothing, about: "Start it again" };
    Undo "undo" ["u"] "undo" Cluster "Undo the change"
        in Rollout { keys: &["u", "ctrl-l"], about: "Undo to the picked revision" }, Journal;
    Pause "pause" ["p"] "pause/resume" Cluster "Pause or resume"
        in Rollout,
        Controllers { about: "Pause or resume it; its queue grows while it is paused" },
        Events { short: "pause", impact: CommandImpact::Nothing, about: "Pause, or follow new events" };
    ControllerStep "controller-step" ["s"] "step" Cluster
        "Reconcile one key of a paused controller: the picked one, or the next"
        in Controllers;
    DrillHint "drill-hint" ["h"] "hint" Cluster "Show the next hint, at a cost" in Drills;

    // Workloads.
    Scale "scale" ["s"] "scale" Cluster "Scale" in Workloads, Rollout;
    Restart "restart" ["r"] "restart" Cluster "Restart its pods step by step" in Workloads, Rollout;
    SetImage "set-image" ["i"] "image" Cluster "Set an image"
        in Workloads, Rollout, Pods { short: "", about: "Set an image: its container restarts" };
    Rollout "rollout" ["R"] "rollout" Nothing "Rollout: progress, history, undo" in Deployments;
    Rollback "rollback" ["ctrl-l"] "" Cluster "Roll back to a revision; asks for it"
        in Deployments,
        ReplicaSets {
            impact: CommandImpact::Nothing,
            about: "Show its Deployment's rollout, to roll back to a revision",
        };
    ReplicaSets "replica-sets" ["z"] "" Nothing "List its replica sets" in Deployments;

    // Pods and their containers.
    Logs "logs" ["l"] "logs" Nothing "Show its logs"
        in Pods,
        Workloads { about: "Show the logs of all its pods" },
        Services { about: "Show the logs of all pods that it selects" },
        Rollout { about: "Show the logs of all its pods" },
        Containers, Tree, Explain, Describe;
    PreviousLogs "previous-logs" ["p"] "previous" Nothing "Show the logs of the previous run"
        in Pods { short: "" },
        Containers,
        Logs { about: "Show the previous run, or this one" };
    Shell "shell" ["s"] "shell" Cluster "Open a shell in a container"
        in Pods,
        Containers { about: "Open a shell in it" },
        Nodes { about: "Open a shell on it, in a temporary pod" };
    Attach "attach" ["a"] "attach" Cluster "Attach to a container"
        in Pods { short: "" }, Containers { about: "Attach to it" };
    Debug "debug" ["D"] "debug" Cluster "Start an ephemeral container and attach to it" in Pods, Containers;
    Kill "kill" ["ctrl-k"] "" Cluster "Kill: delete without a grace period" in Pods;
    Transfer "transfer" ["t"] "copy files" Cluster "Copy files out of it, or into it"
        in Pods { short: "" }, Containers;
    PodNode "node" ["o"] "" Nothing "Go to its node" in Pods, Images;

    // Nodes.
    Cordon "cordon" ["c"] "cordon" Cluster "Cordon: the node accepts no new pods" in Nodes;
    Uncordon "uncordon" ["u"] "uncordon" Cluster "Uncordon: the node accepts new pods again" in Nodes, Drain;
    OpenDrain "drain" ["r"] "drain" Cluster "Drain: preview, then evict with progress" in Nodes, Topology;
    Taint "taint" ["t"] "taint" Cluster "Set or remove taints" in Nodes;
    Fence "fence" ["F"] "fence" Cluster "Fence: kill all its processes, after confirmation; or unfence"
        in Nodes;
    ShowImages "show-images" ["I"] "" Nothing "List its images, as :images does"
        in Pods, Nodes, Containers { about: "List the images of the pod, as :images does" };
    ImagePull "image-pull" ["p"] "pull" Cluster "Pull an image; asks for its name and the node" in Images;
    ImageExplain "image-explain" ["e"] "explain" Nothing
        "Explain where its name comes from, as podium image explain does"
        in Images;
    SortSize "sort-size" ["S"] "" Nothing "Sort by size" in Images;
    AddNode "add-node" ["a"] "add" Cluster "Add a node, if Podium runs the cluster" in Nodes;

    // Podium's own kinds.
    Break "break" ["a"] "add" Cluster "Add a fault; asks for its type and duration" in Faults;
    Heal "heal" ["H"] "heal" Cluster "End a fault now" in Faults;
    SnapshotSave "snapshot-save" ["a"] "save" Cluster "Save the current state of the cluster; asks for a name"
        in Snapshots;
    SnapshotRestore "snapshot-restore" ["r"] "restore" Cluster
        "Restore the cluster from it, after its name is typed"
        in Snapshots;
    SnapshotFork "snapshot-fork" ["f"] "fork" Nothing
        "Create a data directory from it, for a second cluster"
        in Snapshots;
    Unfence "unfence" ["u"] "unfence" Cluster "Unfence the node, after confirmation: it starts without pods"
        in Fences;

    // Other kinds.
    Trigger "trigger" ["t"] "trigger" Cluster "Run it now, after confirmation" in CronJobs;
    Suspend "suspend" ["s"] "suspend/resume" Cluster "Suspend or resume it" in CronJobs;
    UseNamespace "use-namespace" ["u"] "use" Nothing "Show this namespace only" in Namespaces;
    GoToObject "object" ["o"] "object" Nothing "Go to the object"
        in Timeline, Events { about: "Go to the object of the event" };
    EventsGroup "events-group" ["ctrl-g"] "group" Nothing
        "Show one row for each object and reason, or for each event"
        in Events;
    EventsWarnings "events-warnings" ["w"] "warnings" Nothing "Show warnings only, or all" in Events;
    UsedBy "used-by" ["u"] "used by" Nothing "List the pods that use it" in Referenced, Images;
    WhyNotConnected "why-not-connected" ["C"] "connection" Nothing "Explain a failing connection"
        in ConnectionEnds;
    ShowForwards "show-forwards" ["f"] "" Nothing "List port-forwards, as :pf does" in Forwardable;

    // The overview.
    ShowPods "show-pods" ["p"] "pods" Nothing "List pods"
        in Overview, Rollout { keys: &["o"], about: "List its pods" };
    ShowDeployments "show-deployments" ["d"] "deployments" Nothing "List deployments" in Overview;
    ShowNodes "show-nodes" ["n"] "nodes" Nothing "List nodes" in Overview;
    ShowEvents "show-events" ["e"] "events" Nothing "List events" in Overview;
    ShowServices "show-services" ["s"] "services" Nothing "List services" in Overview;

    // Lists with options.
    Toggle "toggle" ["space"] "toggle" Nothing "Turn the option or the pod's exception on or off"
        in Drain, Pending { short: "open", about: "Open or close a group of nodes; go to a node" };
    VersionsCompare "versions-compare" ["space"] "compare with" Nothing
        "Compare all with this version, or each with the previous one"
        in Versions;
    ShowAll "show-all" ["a"] "all" Nothing "Show all, or one"
        in Logs { about: "Show all containers, or one" },
        Versions { about: "Show or hide versions that changed only the status" };
    FilesApply "files-apply" ["a"] "apply" Cluster
        "Apply the file, or the files of the directory, after a preview"
        in Files;

    // Any object.
    Describe "describe" ["d"] "describe" Nothing "Describe"
        in Objects, Tree, Explain, Timeline, Topology, Rollout, Yaml,
        Containers { about: "Describe the pod" },
        Images { about: "Show its configuration, layers and digests" },
        Pending { about: "Describe the pod" },
        Versions { about: "Describe it as it was then" },
        ControllerKeys { about: "Describe the object of the key" };
    Yaml "yaml" ["y"] "yaml" Nothing "Show as YAML"
        in Objects, Tree, Explain, Topology, Rollout, Describe,
        Containers { about: "Show the pod as YAML" },
        Pending { about: "Show the pod as YAML" },
        ControllerKeys { about: "Show the object of the key as YAML" },
        Versions { about: "Show the object's YAML as it was then" },
        Timeline { short: "yaml then", about: "Show the object's YAML as it was then" },
        Files { short: "show", about: "Show the text of the file, as it is now" };
    Edit "edit" ["e"] "edit" Cluster "Edit as YAML"
        in Objects, Yaml,
        Files { impact: CommandImpact::Nothing, about: "Edit the file in $EDITOR, then reload it" },
        Dumps { impact: CommandImpact::Nothing, about: "Edit the file in $EDITOR" },
        DumpText { impact: CommandImpact::Nothing, about: "Edit the file in $EDITOR, then reload it" };
    Delete "delete" ["ctrl-d"] "delete" Cluster "Delete, after confirmation"
        in Objects,
        Files { about: "Delete its objects, after confirmation" },
        Images { short: "remove", about: "Remove it from the node, after confirmation, unless a pod uses it" },
        Dumps {
            short: "remove",
            impact: CommandImpact::Nothing,
            about: "Remove the file, after confirmation",
        };
    Label "label" ["L"] "" Cluster "Set or remove labels" in Objects;
    Explain "explain" ["W"] "why" Nothing
        "Explain why it is not ready: the causes, down to the container"
        in Objects, Tree, Explain, Rollout, Describe, Overview, Topology,
        Containers { about: "Explain why the pod is not ready" },
        Unscheduled {
            short: "why pending",
            about: "Explain why no node accepts it, and what would change that",
        };
    Owner "owner" ["J"] "" Nothing "Go to its owner" in Objects, Tree;
    PortForward "port-forward" ["F"] "forward" Cluster
        "Forward a port of it, or of one of its pods, to this machine"
        in Forwardable { short: "" },
        Containers { keys: &["F", "f"], about: "Forward a port of it to this machine" };
    Copy "copy" ["c"] "copy" Nothing "Copy the text"
        in Text,
        Objects { short: "", about: "Copy its name" },
        Containers { short: "", about: "Copy the name of its image" },
        Forwards { about: "Copy its URL" },
        Images { short: "", about: "Copy its name" },
        Explain { about: "Copy the causes" },
        Pending { about: "Copy the scheduler's message" },
        Connection { about: "Copy the findings" },
        ControllerKeys { about: "Copy the key and its result" },
        Versions { about: "Copy the difference" },
        Timeline { about: "Copy all lines" },
        TerminalEnded { about: "Copy the text, with the lines above" },
        Transfer { short: "", about: "Copy the kubectl command" },
        Journal { about: "Copy the kubectl command" };
    CopyNamespace "copy-namespace" ["n"] "" Nothing "Copy the name of its namespace" in Objects;

    // Tables.
    Mark "mark" ["space"] "" Nothing "Mark for a bulk action" in Objects;
    MarkRange "mark-range" ["ctrl-space"] "" Nothing "Mark from the last mark to here" in Objects;
    ClearMarks "clear-marks" ["ctrl-\\"] "unmark" Nothing "Clear all marks" in Objects;
    Faults "faults" ["ctrl-z"] "faults" Nothing "Show unhealthy objects only, with their owners"
        in Tree, Objects { short: "", about: "Show unhealthy rows only, or all" };
    Wide "wide" ["ctrl-w"] "" Nothing "Show more columns, or fewer" in Objects;
    SortName "sort-name" ["N"] "" Nothing "Sort by name" in Objects, Images;
    SortAge "sort-age" ["A"] "" Nothing "Sort by age" in Objects, Images { about: "Sort by the last use" };
    SortStatus "sort-status" ["S"] "" Nothing "Sort by status" in Objects;
    ColumnLeft "column-left" ["shift-left"] "" Nothing "Pick the column to the left" in Objects, Images;
    ColumnRight "column-right" ["shift-right"] "" Nothing "Pick the column to the right" in Objects, Images;
    SortColumn "sort-column" ["O"] "" Nothing "Sort by the picked column, or reverse it"
        in Objects, Images, Timeline { short: "order", about: "Show the newest first, or the oldest" };
    AllNamespaces "all-namespaces" ["0"] "" Nothing "Show all namespaces" in Objects;
    Namespace1 "namespace-1" ["1"] "" Nothing "Show the namespace with this number in the header" in Objects;
    Namespace2 "namespace-2" ["2"] "" Nothing "Show the namespace with this number in the header" in Objects;
    Namespace3 "namespace-3" ["3"] "" Nothing "Show the namespace with this number in the header" in Objects;
    Namespace4 "namespace-4" ["4"] "" Nothing "Show the namespace with this number in the header" in Objects;
    Namespace5 "namespace-5" ["5"] "" Nothing "Show the namespace with this number in the header" in Objects;
    Namespace6 "namespace-6" ["6"] "" Nothing "Show the namespace with this number in the header" in Objects;
    Namespace7 "namespace-7" ["7"] "" Nothing "Show the namespace with this number in the header" in Objects;
    Namespace8 "namespace-8" ["8"] "" Nothing "Show the namespace with this number in the header" in Objects;
    Namespace9 "namespace-9" ["9"] "" Nothing "Show the namespace with this number in the header" in Objects;

    // Time travel.
    PastBack "past-back" ["<"] "" Nothing "Go back in time, to the previous change; esc returns to now"
        in TimeTravel;
    PastForward "past-forward" [">"] "" Nothing "Go forward in time, to the next change" in TimeTravel;
    PastBackMore "past-back-more" ["{"] "past" Nothing "Go back in time by ten seconds" in TimeTravel;
    PastForwardMore "past-forward-more" ["}"] "" Nothing "Go forward in time by ten seconds" in TimeTravel;
    PastAt "past-go-to" ["@"] "" Nothing "Go to a time: -5m, 14:03:05, an RFC 3339 timestamp" in TimeTravel;
    OpenVersions "versions" ["V"] "versions" Nothing
        "List its versions with their times, and the diff of any two"
        in TimeTravel, Tree, Rollout, Containers;
    OpenTimeline "timeline" ["T"] "timeline" Nothing "Show the timeline of it, its owners and their dependents"
        in TimeTravel, Tree, Explain, Rollout, Containers, Pending;

    // Text.
    Decode "decode" ["x"] "decode" Nothing "Show its data decoded"
        in Secrets, Yaml { short: "", about: "Show or hide a Secret's data decoded" };
    ManagedFields "managed-fields" ["m"] "managed" Nothing "Show or hide managedFields" in Yaml;
    SearchNext "search-next" ["n"] "" Nothing "Go to the next match" in Text;
    SearchPrevious "search-previous" ["N"] "" Nothing "Go to the previous match" in Text;
    Wrap "wrap" ["w"] "" Nothing "Wrap long lines, or stop wrapping" in Text;
    Save "save" ["ctrl-s"] "save" Nothing "Save to a file"
        in Text, Objects { short: "", about: "Save the table as CSV" };
    FullScreen "full-screen" ["f"] "" Nothing "Hide or show the frame and the header" in Text;
    LogsTail "logs-tail" ["0"] "tail" Nothing "Show the last lines" in Logs;
    LogsHead "logs-head" ["1"] "head" Nothing "Show all lines from the start" in Logs;
    Logs1m "logs-1m" ["2"] "1m" Nothing "Show the last minute" in Logs;
    Logs5m "logs-5m" ["3"] "5m" Nothing "Show the last five minutes" in Logs;
    Logs15m "logs-15m" ["4"] "" Nothing "Show the last fifteen minutes" in Logs;
    Logs30m "logs-30m" ["5"] "" Nothing "Show the last thirty minutes" in Logs;
    Logs1h "logs-1h" ["6"] "" Nothing "Show the last hour" in Logs;
    LogsAutoscroll "logs-autoscroll" ["s"] "autoscroll" Nothing "Follow new lines" in Logs;
    LogsTimestamps "logs-timestamps" ["t"] "timestamps" Nothing "Show or hide timestamps" in Logs;
    LogsMark "logs-mark" ["m"] "mark" Nothing "Draw a line with the time, as a mark" in Logs;
    LogsClear "logs-clear" ["C"] "" Nothing "Clear the view" in Logs;
    LogsFilter "logs-filter" ["F"] "" Nothing
        "Show only lines that match, or all; JSON by path: /.level == error"
        in Logs;

    // The editor and terminals have commands of their own: other keys are text there, so that a letter bound to a
    // command of other views must not reach them.
    EditorSave "editor-save" ["ctrl-s"] "save" Cluster "Check, show the difference and save" in Editor;
    EditorExternal "editor-external" ["ctrl-o"] "$EDITOR" Nothing "Continue in $EDITOR" in Editor;
    EditorBack "editor-back" ["esc"] "back" Nothing "Go back; unsaved changes need confirmation" in Editor;
    ReviewSave "review-save" ["enter", "ctrl-s"] "save" Cluster "Save this change" in Review;
    EditOn "edit-on" ["esc"] "edit" Nothing "Return to the text"
        in Review, Conflict { about: "Return to the text as you typed it" };
    DraftRestore "draft-restore" ["r", "enter"] "restore" Nothing "Restore the unsaved edit" in Draft;
    DraftDiscard "draft-discard" ["x"] "discard" Nothing "Delete the unsaved edit" in Draft;
    DraftLater "draft-later" ["esc"] "later" Nothing "Edit the current object; the unsaved edit stays on disk"
        in Draft;
    ConflictMine "conflict-mine" ["m"] "take mine" Cluster "Use your value where both changed a field"
        in Conflict;
    ConflictTheirs "conflict-theirs" ["t"] "take theirs" Cluster "Use their value where both changed a field"
        in Conflict;
    TerminalClose "terminal-close" ["enter", "esc", "q"] "close" Nothing "Close the terminal" in TerminalEnded;
    TerminalDetach "terminal-detach" ["ctrl-]"] "detach" Nothing
        "Detach from the terminal; it continues in the background"
        in Terminal,
        TerminalStarting { keys: &["esc", "ctrl-]"], short: "cancel", about: "Cancel the start" },
        TerminalEnded { short: "", about: "Close the terminal" };
    TerminalEnd "terminal-end" ["f12"] "end" Nothing "Close the terminal and its session"
        in Terminal,
        TerminalStarting { short: "", about: "Cancel the start" },
        TerminalEnded { short: "", about: "Close the terminal" };
    TerminalScrollUp "terminal-scroll-up" ["shift-pageup"] "" Nothing "Scroll back"
        in Terminal, TerminalEnded { keys: &["pageup", "up", "shift-pageup"], short: "scroll" };
    TerminalScrollDown "terminal-scroll-down" ["shift-pagedown"] "" Nothing "Scroll forward"
        in Terminal, TerminalEnded { keys: &["pagedown", "down", "shift-pagedown"] };
}
