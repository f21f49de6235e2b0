//! The console's knowledge of clusters: its copy of them, which discovery and watches fill, the changes made from it, and
//! the settings and unsaved work of the user.
//!
//! Reading comes through [`feed`] and [`past`], as a [`message::Message`]. An [`action::Action`] is a change of the
//! cluster as data; nothing here decides to make one.
//!
//! The modules from the bottom up:
//!
//! | modules | content |
//! |---|---|
//! | [`resource`], [`scope`], [`container`], [`template`], [`node_shell`], [`forks`], [`project`] | names of kinds and objects; parts of pods; what the configuration sets; what `podium dev` builds |
//! | [`server_table`], [`decoded`], [`read_only`] | requests and responses: tables, typed objects, a client that cannot change anything |
//! | [`pod_status`], [`store`], [`builtin_kinds`], [`workloads`], [`catalogue`], [`links`], [`container_state`] | the cluster as reported by discovery and watches: objects of any kind, by group, version and plural name |
//! | [`jq`], [`extensions`] | the user's files in k9s' formats |
//! | [`changes`], [`action`], [`journal`] | changes of the cluster as data, and their undo |
//! | [`clusters`], [`contexts`] | the clusters that are shown at the same time, each with its own stores, kinds, links and journal; the user's other clusters |
//! | [`access`] | permissions: the user's own, and the subjects to which RBAC grants one |
//! | [`context`], [`thresholds`], [`sort_memory`] | the state that screens may read |
//! | [`rows`], [`list`], [`node_images`], [`kind_view`], [`index`], [`query`], [`related`], [`capacity`] | rows of tables; relations between objects; how many pods fit |
//! | [`cluster_file`], [`drafts`], [`saved_tabs`], [`screen_dumps`] | files that the console saves; among them unsaved editor texts and the tabs of the last run |
//! | [`point_in_time`], [`past`] | earlier states of the cluster: their names, and requests for them |
//! | [`message`], [`feed`] | events, and the watchers that send them |

pub mod access;
pub mod action;
pub mod builtin_kinds;
pub mod capacity;
pub mod catalogue;
pub mod changes;
pub(crate) mod cluster_file;
pub mod clusters;
pub mod container;
pub mod container_state;
pub mod context;
pub mod contexts;
pub mod decoded;
pub mod drafts;
pub mod extensions;
pub mod feed;
pub mod forks;
pub mod index;
pub mod journal;
pub(crate) mod jq;
pub mod kind_view;
pub mod kubeconfig;
pub mod links;
pub mod list;
pub mod message;
pub mod node_images;
pub mod node_shell;
pub mod past;
pub mod pod_status;
pub mod point_in_time;
pub mod project;
pub mod query;
pub mod read_only;
pub mod related;
pub mod resource;
pub mod rows;
pub mod saved_tabs;
pub mod scope;
pub mod screen_dumps;
pub mod server_table;
pub mod sort_memory;
pub mod store;
pub mod template;
pub mod thresholds;
pub mod workloads;
