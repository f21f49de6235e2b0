//! Podium: a Kubernetes you hold in one terminal.
//!
//! ```text
//!  manifest ─► api ─► store ─► watch ─► caches ─► controllers · scheduler · kubelet ─┐
//!               ▲        │                                                           │
//!               └────────│────────────── status, bindings, new objects ◄─────────────┘
//!    kubectl ─► http ────┘                     console ◄─ kube client ◄─ (in process | HTTPS)
//! ```
//!
//! Data flows one way. Every write goes through [`api`], and the [`console`] knows only the Kubernetes API. Besides [`api`], only
//! [`cluster`] uses the [`store`]: it opens it, checks it, makes its disk fail on purpose, and reads and writes files of snapshots.
//! The simulator and the benchmarks create stores of their own.
//!
//! | layer | what it is | may name |
//! |---|---|---|
//! | [`base`] | clock (the only source of time), supervised tasks, back-off; knows no Kubernetes but the types of its times | – |
//! | [`object`] | vocabulary: the Kind table, objects, keys, quantities, selectors | base |
//! | [`manifest`] | YAML and JSON documents with positions; the only user of YAML | object, base |
//! | [`store`] | revisioned state, watch history, durability | object, base |
//! | [`programs`] | the programs of built-in images, inside this binary: web server, nslookup, pause | object, base |
//! | [`fabric`] | the pods' network: namespaces, links, routes and nftables by netlink, and the process that is inside and hands sockets out; knows no Kubernetes | base |
//! | [`host`] | the node host: the process that holds a node's containers, its protocol and journal; knows no Kubernetes API | programs, fabric, base |
//! | [`api`] | the only door: admission, defaulting, validation, patching, deletion, subresources; `http` is a thin face over the same handle | store, manifest, object, base |
//! | [`reconcile`] | shared caches, keyed work queue, runner, event recorder | api, object, base |
//! | [`controllers`], [`scheduler`] | the actors; they never name each other | reconcile, api, object, base |
//! | [`network`] | the actor of services: the proxy or the kernel's rules, and the cluster's DNS | reconcile, api, fabric, object, base |
//! | [`kubelet`] | the actor of a node; the host's only client | reconcile, api, host, fabric, object, base |
//! | [`console`] | the terminal program, a Kubernetes client like any other | object, manifest, base |
//! | [`cluster`] | composition root: starts, wires and stops everything | all |
//! | `apply` | manifests into a cluster and out of it, over its API | all |
//! | [`cli`] | flags, commands, exit codes | all |
//! | `simulate` | the control plane under virtual time, with faults from a seed, and what checks it | all |
//! | [`testing`] | a cluster for the tests of whoever depends on this crate | all |
//! | `trial` | somebody's controller, run as a process against a cluster that makes trouble | all |
//!
//! Each layer above [`cluster`] in this table is a crate of its own, so that the compiler holds the table and who
//! changes a layer builds only that layer's tests; `cluster`, `cli` and `testing` are the program's own crate. A test
//! (`tests/it/layers/mod.rs`) holds that the table is true, and that no modules of one parent name each other in a circle.
//!
//! **A kind** is a handle ([`object::Kind`]); what is particular to it is one file of [`api::kinds`]. A custom resource
//! gets its handle and its rules at run time and is treated the same.
//!
//! **A write** takes the steps of `api::write::pipeline`: default, own, mutate, validate, reserve. It is then applied in
//! memory under one short lock that gives it the next revision, and handed in that order to the disk thread, which
//! commits in groups. HTTP answers that show objects, of reads as of writes, and kubelets that start pods wait
//! until what they show or act on is durable, so that what was seen stays true; control loops run ahead.
//!
//! **A custom resource** is stored in one version of its definition and converted where it shows in another
//! (`api::conversion`), by a webhook where the definition names one. Actors take it as it is stored.
//!
//! **A group of another server's** (`api::aggregation`) is served by passing its requests on, judged, over TLS
//! (`api::http`); a controller keeps whether that server answers.
//!
//! **A request** over HTTP is judged before it is answered: who asks (`api::http::auth`, certificates, tokens), and whether
//! roles allow it (`api::authorization`). Actors in this process are not asked.
//!
//! **A watcher** is a cursor over a ring of changes. A slow one falls behind and learns that it has expired; it
//! never holds anybody up.
//!
//! **A controller** is level-triggered: cache → key on a queue → `reconcile(key)`. Its decisions are pure
//! functions tested as tables; a thin shell executes them.
//!
//! **The scheduler** and **the kubelet** decide in pure functions too (`cycle::schedule`, `plan`). A node's
//! containers are children of that node's own host process ([`host`], `podium node-host`), so that a crash of the control
//! plane neither kills nor orphans work.
//! The host keeps one journal of what it runs, from which the next one learns should it die, and holds in its own memory
//! what pods are given from API objects.
//!
//! **Storage** is directories below the data directory: `controllers::volume` binds claims and makes and removes
//! the directories, the scheduler's `VolumeBinding` decides when, the kubelet links a pod to them. Disks are attached to
//! one node at a time before (`controllers::volume::attach`, `kubelet::volumes`).
//!
//! **Snapshots** of the whole cluster and restores are objects too; `cluster::snapshots` takes them, and while it restores no
//! controller works.
//!
//! **Nodes** are those that flags, config file and Node objects with an annotation ask for; `cluster::nodes` starts
//! and ends them while the cluster runs. `cluster::fencing` has one killed for certain, so that others go on without it.
//!
//! **Scenarios** are objects too (`cluster::scenarios`): trouble at set times, checks in CEL, a score.
//!
//! **The network** is, where pods share the machine's, a proxy that listens at services' addresses and deals out their
//! endpoints; where they have networks of their own ([`fabric`]), rules of the kernel (`network::rules`), a way out
//! (`network::egress`) and the same proxy for whoever comes from the machine. The cluster's DNS and Ingresses are served in
//! both. All join services with their slices (`network::follow`) and decide in pure functions. Who connects to a pod asks a
//! dialer ([`base::dial`]): its socket may have to come from inside.
//!
//! | word of ours | what it is elsewhere |
//! |---|---|
//! | host, node host | a container runtime (containerd and its shims) of one node, as one process |
//! | hollow node | kubemark's: a kubelet whose containers are only said to run |
//! | fabric, leaf | the router namespace of all pods' networks, and a namespace joined to it: what a CNI plugin makes |
//! | mirror | a loopback address that stands for a pod's or service's of a network of their own |
//! | strategy | the API server's registry strategy of a kind, with its table printer |
//! | part (of an object) | the fields that a write may touch: those of the resource itself, of a subresource, or all |
//! | reservation | what a write takes of quotas, service addresses and node ports before it is stored |
//! | revision | `resourceVersion`, as a number |
//! | verdict | why a pod is pending: what each filter said of each node; served as `schedulingverdicts` |
//! | hint | what would have to change for a node to take a pending pod; no API of Kubernetes has it |
//! | journal (of a host) | the checkpoint from which a host learns of the pods of one that died |
//! | journal (of the console) | what was done and can be undone |
//!
//! **Time** comes from [`base::clock`] and tokio's timers, so that the whole control plane runs under a virtual
//! clock: ten minutes are a millisecond in a test.

pub use {
    api, base, console, controllers, fabric, host, kubelet, manifest, network, object, programs, reconcile,
    scheduler, store,
};

mod apply;
pub mod cli;
pub mod cluster;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod simulate;
pub mod testing;
mod trial;
