//! The words of the `:` prompt that are neither a kind nor a command of the table.

/// A word that is neither a kind nor a command of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(crate) name: &'static str,
    /// Its aliases, separated by spaces.
    pub(crate) aliases: &'static str,
    /// Its arguments, for the help.
    pub(crate) rest: &'static str,
    /// A line for the help.
    pub(crate) about: &'static str,
}

const fn word(name: &'static str, aliases: &'static str, rest: &'static str, about: &'static str) -> Word {
    Word { name, aliases, rest, about }
}

/// All words, in the order of the help.
pub(crate) const WORDS: &[Word] = &[
    word("namespace", "ns", "NAME, all", "Show one namespace, or all"),
    word("theme", "skin", "NAME", "Use a theme, now and in the next run"),
    word(
        "add-node",
        "",
        "NAME zone=… hollow LABEL=… KEY=VALUE:EFFECT cpu=…",
        "Add a node, or ask what it is to be",
    ),
    word(
        "node-shells",
        "",
        "",
        "Pods of shells on nodes that consoles have left which were killed: says which, and removes them after asking",
    ),
    word("dir", "", "DIRECTORY", "Manifests of a directory: look, apply, delete"),
    word("apply", "", "FILE", "Apply a manifest, or those of a directory: says first what that would do"),
    word(
        "screendumps",
        "sd screendump scr",
        "",
        "What was saved with ctrl-s: look at it, edit it, remove it",
    ),
    word("overview", "home pulse pulses pu", "", "The overview"),
    word("aliases", "kinds a", "", "List kinds and their short names"),
    word("journal", "", "", "What was changed, and undo"),
    word("tab", "tabnew tabe tabedit", "N, KIND, COMMAND", "Go to a tab, or open one, with what follows"),
    word("restore", "", "", "Open the tabs of the last run, where they did not come by themselves"),
    word("vsplit", "vsp vs", "logs, yaml, describe, events", "A pane beside, of what is selected"),
    word("split", "sp", "logs, yaml, describe, events", "A pane below, of what is selected"),
    word("background", "bg", "", "Bring back drains and terminals that go on, and results"),
    word(
        "xray",
        "tree owners",
        "KIND",
        "Who owns whom, down to the pods, from objects of a kind or from all",
    ),
    word(
        "context",
        "ctx contexts",
        "NAME, -",
        "Go to a cluster of the kubeconfig, to the one of the start (-), or list all; :pods @NAME,NAME or @* is one table \
         over several",
    ),
    word(
        "can",
        "can-i who-can",
        "VERB RESOURCE NAME",
        "What I may here; with words whether I may, and who may; :can VERB asks it of what is selected",
    ),
    word("tour", "", "stop", "Learn rollout, undo, drain and debug on the sample, step by step"),
    word("plugin", "plugins", "NAME", "Run a plugin of plugins.yaml on what is selected"),
    word(
        "controllers",
        "xc",
        "",
        "The controllers of the control plane: queues, latencies, errors; pause and step",
    ),
    word(
        "workloads",
        "wk workload",
        "NAMESPACE",
        "All workloads in one table: what runs, how it is and why, whatever kind it is",
    ),
    word("snapshots", "snap snapshot", "", "Snapshots of the whole cluster: save, restore, fork"),
    word("topology", "topo map", "", "Zones, their nodes, and the pods on them by how they are"),
    word(
        "at",
        "time",
        "-5m, 14:03:05, 2026-01-31T14:03:05Z, @1204, now",
        "Look at this table, YAML or description as it was then",
    ),
    word("port-forwards", "pf portforwards forwards", "", "What is forwarded to this machine"),
    word("help", "h ?", "", "Show every key that works here"),
    word("quit", "q q! qa quit! exit", "", "Leave"),
];
