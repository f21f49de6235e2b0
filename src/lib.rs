//! Podium: a Kubernetes cluster in one program for one terminal.
//!
//! ```text
//!  manifest ─► api ─► store ─► watch ─► caches ─► controllers · scheduler · kubelet ─┐
//!               ▲        │                                                           │
//!               └────────│────────────── status, bindings, new objects ◄─────────────┘
//! kubectl ─► apiserver ──┘                     console ◄─ kube client ◄─ (in process | HTTPS)
//! ```
//!
//! Data flows one way. Every write goes through [`api`], and the [`console`] knows only the Kubernetes API. Besides
//! [`api`], only [`cluster`] uses the [`store`]: it opens and checks it, injects disk faults, and reads and writes
//! snapshot files. The simulator and the benchmarks create stores of their own.
//!
//! | layer | purpose | may use |
//! |---|---|---|
//! | [`base`] | clock (the only source of time), supervised tasks, back-off, sorts, types from JSON; knows no Kubernetes except its time types | – |
//! | [`object`] | vocabulary: the Kind table, objects, keys, quantities, selectors | base |
//! | [`extension`] | Podium's own kinds as custom resources: their Rust types, and the definitions derived from them | object, base |
//! | [`manifest`] | YAML and JSON documents with positions; the only user of YAML | object, base |
//! | [`store`] | revisioned state, watch history, durability | object, base |
//! | [`programs`] | the programs of built-in images, inside this binary (web server, nslookup, pause, entrypoints of others), and pid 1 of pods | object, base |
//! | [`fabric`] | the pods' network: namespaces, links, routes and nftables through netlink, and the process inside that hands out sockets; knows no Kubernetes | base |
//! | [`host`] | the node host: the process that runs a node's containers, its protocol and journal; knows no Kubernetes API | programs, fabric, base |
//! | [`images`] | images: names and what they resolve to, the store of their layers, registries; knows no Kubernetes API | host, base |
//! | [`apimachinery`] | what knows no store: schemas of all types, validation and defaults of parts that kinds share, patches, CEL, certificates, errors | object, base |
//! | [`kinds`] | the strategies of all kinds, one file each: defaults, validation, columns, selectable fields, usage of quotas; the rules of custom resources | apimachinery, object, base |
//! | [`api`] | the handle through which all writes go: admission, authorization, the order of the steps of a write, deletion, subresources, conversion | kinds, apimachinery, store, object, base |
//! | [`apiserver`] | the API over HTTP: serves the handle of [`api`] with authentication, fair queueing, audit, OpenAPI and metrics | api, kinds, apimachinery, manifest, object, base |
//! | [`reconcile`] | shared caches, keyed work queue, runner, event recorder | api, object, base |
//! | [`operators`] | the controllers of Podium's own kinds; what only the program that runs the cluster can do is behind traits | reconcile, api, apimachinery, extension, object, base |
//! | [`controllers`] | the actors of kube-controller-manager; they know no scheduler | operators, reconcile, api, apimachinery, object, base |
//! | [`scheduler`] | the actor that chooses a node for each pod; it knows no controller | reconcile, api, object, base |
//! | [`egress`] | pods' connections to the outside, relayed by this process; knows no Kubernetes | fabric, base |
//! | [`network_policy`] | NetworkPolicies: decides which connections are allowed, in pure functions | object, base |
//! | [`services`] | services joined with their EndpointSlices, and the proxy that serves them from this process | reconcile, api, fabric, object, base |
//! | [`dns`] | the cluster's DNS | services, egress, reconcile, api, object, base |
//! | [`reverse_proxy`] | the HTTP server of Ingresses and Gateways, which forwards requests to services' endpoints | services, reconcile, api, object, base |
//! | [`ingress`], [`gateway`] | the controllers of Ingresses and of the Gateway API | reverse_proxy, reconcile, api, object, base |
//! | [`why`] | explains why a connection fails, from objects and the results of probes; does no I/O | dns, services, network_policy, egress, object, base |
//! | [`network`] | the network inside a fabric: the kernel's rules for services, policies, egress and faults | services, network_policy, egress, operators, reconcile, api, fabric, extension, object, base |
//! | [`kubelet`] | a node's actor; the host's only client | reconcile, api, kinds, images, host, fabric, object, base |
//! | [`console_toolkit`] | text, keys, the table of commands, themes and widgets; knows no cluster | object, manifest, base |
//! | [`console_data`] | what the console knows: the cluster as reported by discovery and watches, the rows of tables, the journal, the past, the user's files; and the messages that bring it | console_toolkit, extension, object, manifest, base |
//! | [`console_operations`] | what the console does: effects, dialogs, operations on objects, drains, copies, terminals in containers | console_data, console_toolkit, extension, object, base |
//! | [`console_screens`] | one module for each screen | console_operations, console_data, console_toolkit, extension, object, manifest, base |
//! | [`console`] | the terminal program, a Kubernetes client like any other | console_screens, console_operations, console_data, console_toolkit, extension, object, manifest, base |
//! | [`cluster`] | composition root: starts, wires and stops everything; applies manifests over its API | kubelet, images, network, gateway, ingress, reverse_proxy, dns, services, egress, scheduler, operators, controllers, reconcile, apiserver, api, kinds, apimachinery, store, manifest, host, fabric, extension, object, base |
//! | [`testing`] | a cluster for the tests of crates that depend on this one | all |
//! | [`cli`] | flags, commands, exit codes | all |
//! | `lab` | `podium-lab`: simulator, torture, benchmarks, trials of controllers and fuzz targets; users do not run it | cluster, kubelet, images, network, dns, services, scheduler, operators, controllers, reconcile, apiserver, api, kinds, apimachinery, store, manifest, host, fabric, extension, object, base |
//!
//! Each layer is a crate of its own, so that the compiler enforces the table and a change to a layer builds only that
//! layer's tests. Only [`testing`] and [`cli`] belong to the program's own crate.
//! A test (`tests/it/layers/mod.rs`) checks that the table is true, and that the modules of one parent form no cycles.
//!
//! **A kind** is a handle ([`object::Kind`]); one file of [`kinds`] has its own rules. A custom resource
//! gets its handle and its rules at run time and is treated the same.
//!
//! **Podium's own kinds** are custom resources, too ([`extension`]): each start applies their definitions before any actor
//! runs.
//!
//! **A write** takes the steps of `api::write::pipeline`: default, own, mutate, validate, reserve. It is then applied
//! in memory under one short lock that gives it the next revision, and passed in that order to the disk thread, which
//! commits in groups. HTTP responses with objects, to reads and writes alike, and kubelets that start pods wait until
//! these objects are durable, so that a crash never takes back a state that was seen; control loops run ahead.
//!
//! **A custom resource** is stored in one version of its definition and converted for clients that use another
//! (`api::conversion`), by a webhook if the definition names one. Actors use the stored version.
//!
//! **An aggregated API group** (`api::aggregation`) is served by forwarding its requests over TLS to another server,
//! after authentication and authorization ([`apiserver`]); a controller records that server's availability.
//!
//! **A request** over HTTP is authenticated (`apiserver::auth`, certificates, tokens) and authorized by roles
//! (`api::authorization`). Actors in this process need neither.
//!
//! **A watcher** is a cursor over a ring of changes. A slow one falls behind and gets an expiry error; it
//! never delays others.
//!
//! **A controller** is level-triggered: cache → key on a queue → `reconcile(key)`. Its decisions are pure
//! functions tested as tables; a thin shell executes them.
//!
//! **The scheduler** and **the kubelet** decide in pure functions too (`cycle::schedule`, `plan`). A node's containers
//! are children of that node's own host process ([`host`], `podium node-host`), so that a crash of the control plane
//! neither kills nor orphans work. The host writes a journal of the pods it runs, from which the next host recovers if
//! it dies, and holds in its own memory the data that pods get from API objects.
//!
//! **Storage** is directories below the data directory: `controllers::volume` binds claims and creates and removes
//! the directories, the scheduler's `VolumeBinding` decides the moment, and the kubelet links a pod to them. Disks are
//! first attached, to one node at a time (`controllers::volume::attach`, `kubelet::volumes`).
//!
//! **Snapshots** of the whole cluster and restores are objects too; `operators::snapshots` executes them, and stops all
//! controllers during a restore.
//!
//! **Nodes** come from flags, the config file and Node objects with an annotation; `cluster::nodes` starts and stops
//! them while the cluster runs. `operators::fencing` kills all processes of a node for certain, so that its pods and
//! volumes can move to others.
//!
//! **Scenarios** are objects too (`operators::scenarios`): faults at given times, checks in CEL, a score.
//!
//! **The network**: where pods share the machine's network, a proxy ([`services::proxy`]) listens at services'
//! addresses and distributes connections to their endpoints. Where pods have networks of their own ([`fabric`]), there
//! are kernel rules ([`network::rules`]; [`network_policy`] decides those of NetworkPolicies), [`egress`] and the same
//! proxy for clients on the machine. The cluster's DNS ([`dns`]), Ingresses ([`ingress`]) and Gateways ([`gateway`]) are
//! served in both. All join services with their slices ([`services::Follower`]) and decide in pure functions.
//! Connections to a pod go through a dialer ([`base::dial`]), because the socket may have to come from inside the
//! fabric.
//!
//! | word of ours | meaning |
//! |---|---|
//! | host, node host | a container runtime (containerd and its shims) of one node, as one process |
//! | hollow node | as in kubemark: a kubelet that reports running containers without starting processes |
//! | fabric, leaf | the router namespace that connects all pods' networks, and a namespace linked to it; the counterpart of a CNI plugin |
//! | mirror | a loopback address that stands for a pod's or service's address in the fabric |
//! | strategy | the API server's registry strategy of a kind, with its table printer |
//! | part (of an object) | the fields that a write may touch: those of the resource itself, of a subresource, or all |
//! | reservation | quota, service addresses and node ports that a write holds until it is stored |
//! | revision | `resourceVersion`, as a number |
//! | verdict | the result of the scheduler's last attempt at a pending pod: each filter's refusal for each node; served as `schedulingverdicts` |
//! | hint | a change that would let a node accept a pending pod; not part of Kubernetes |
//! | journal (of a host) | the file from which a host learns of the pods of a host that died |
//! | journal (of the console) | the list of changes that can be undone |
//!
//! **Time** comes from [`base::clock`] and tokio's timers, so that the whole control plane runs under a virtual
//! clock: ten minutes are a millisecond in a test.

pub use {
    api, apimachinery, apiserver, base, cluster, console, console_data, console_operations, console_screens,
    console_toolkit, controllers, dns, egress, extension, fabric, gateway, host, images, ingress, kinds,
    kubelet, manifest, network, network_policy, object, operators, programs, reconcile, reverse_proxy,
    scheduler, services, store, why,
};

pub mod cli;
pub mod testing;
