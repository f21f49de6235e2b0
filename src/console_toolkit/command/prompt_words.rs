//! The words of the `:` prompt that are neither a kind nor a command of the table.

/// A word that is neither a kind nor a command of the table.
#[derive(Clone, Copy, Debug)]
pub struct PromptWord {
    pub name: &'static str,
    /// Its aliases, separated by spaces.
    pub aliases: &'static str,
    /// Its arguments, for the help.
    pub rest: &'static str,
    /// A line for the help.
    pub about: &'static str,
}

const fn prompt_word(
    name: &'static str,
    aliases: &'static str,
    rest: &'static str,
    about: &'static str,
) -> PromptWord {
    PromptWord { name, aliases, rest, about }
}

/// All words, in the order of the help.
pub const PROMPT_WORDS: &[PromptWord] = &[
    prompt_word("namespace", "ns", "NAME, all", "Show one namespace, or all"),
    prompt_word("theme", "skin", "NAME", "Use a theme, now and in later runs"),
    prompt_word(
        "add-node",
        "",
        "NAME zone=… hollow LABEL=… KEY=VALUE:EFFECT cpu=…",
        "Add a node; without NAME asks for its properties",
    ),
    prompt_word("node-shells", "", "", "List and remove node shell pods that killed consoles left behind"),
    prompt_word("discard-edits", "", "", "Discard unsaved edits of earlier runs, all or one; asks first"),
    prompt_word("dir", "", "DIRECTORY", "List the manifests of a directory: show, apply, delete"),
    prompt_word("apply", "", "FILE", "Apply a manifest, or those of a directory, after a preview"),
    prompt_word("screendumps", "sd screendump scr", "", "List files saved with ctrl-s: show, edit, remove"),
    prompt_word(
        "images",
        "image img",
        "NODE",
        "List the images of all nodes, or of one: pull, remove, explain",
    ),
    prompt_word("overview", "home pulse pulses pu", "", "Open the overview"),
    prompt_word("aliases", "kinds a", "", "List kinds and their short names"),
    prompt_word("journal", "", "", "List changes, and undo them"),
    prompt_word("tab", "tabnew tabe tabedit", "N, KIND, COMMAND", "Go to a tab, or open one with this view"),
    prompt_word("restore", "", "", "Open the tabs of the last run, if they were not restored"),
    prompt_word("vsplit", "vsp vs", "logs, yaml, describe, events", "Open a pane beside, of the selection"),
    prompt_word("split", "sp", "logs, yaml, describe, events", "Open a pane below, of the selection"),
    prompt_word("background", "bg", "", "Return to drains and terminals in the background, and to results"),
    prompt_word("xray", "tree owners", "KIND", "Show owner trees down to the pods, of one kind or of all"),
    prompt_word(
        "context",
        "ctx contexts",
        "NAME, -",
        "Go to a kubeconfig context, to the initial one (-), or list all; :pods @NAME,NAME (or @* for all) \
         shows the pods of several contexts in one table",
    ),
    prompt_word(
        "can",
        "can-i who-can",
        "VERB RESOURCE NAME",
        "List my permissions; with arguments, check one and list who has it; :can VERB checks the selection",
    ),
    prompt_word(
        "tour",
        "",
        "stop",
        "Learn rollout, undo, drain and debug on a sample application, step by step",
    ),
    prompt_word("plugin", "plugins", "NAME", "Run a plugin of plugins.yaml on the selection"),
    prompt_word(
        "controllers",
        "xc",
        "/TEXT",
        "List the controllers of the control plane: queues, latencies, errors; pause and step",
    ),
    prompt_word(
        "workloads",
        "wk workload",
        "NAMESPACE",
        "List workloads of all kinds in one table, with their health and its cause",
    ),
    prompt_word(
        "snapshots",
        "snap snapshot",
        "NAME",
        "List snapshots of the whole cluster: save, restore, fork",
    ),
    prompt_word(
        "project",
        "dev",
        "",
        "Show the builds and the merged logs of the project that `podium dev` runs",
    ),
    prompt_word("topology", "topo map", "", "Show zones, their nodes, and the pods on them by health"),
    prompt_word(
        "at",
        "time",
        "-5m, 14:03:05, 2026-01-31T14:03:05Z, @1204, now",
        "Show this table, YAML or description as it was then",
    ),
    prompt_word("port-forwards", "pf portforwards forwards", "", "List port-forwards to this machine"),
    prompt_word("help", "h ?", "", "Show every key that works here"),
    prompt_word("quit", "q q! qa quit! exit", "", "Quit"),
];
