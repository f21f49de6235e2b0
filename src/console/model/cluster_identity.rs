//! The identity of the cluster and its dependents: journal, tabs, drafts, and the favourite namespaces.

use super::{DiskJob, Job, Model};
use base::sort::SliceOrder;
use console_data::journal::Journal;
use console_data::resource::ClusterId;
use console_data::store::uid_of;

/// The maximum size in bytes of journal lines that wait for the cluster's identity.
const EARLY: usize = 1 << 20;

impl Model {
    /// Learns the cluster's identity from a unique property, the uid of `kube-system`. Then requests the journal,
    /// drafts and tabs of the cluster, and writes the journal lines that waited.
    pub(super) fn learn_cluster(&mut self) -> Vec<Job> {
        let system = self.shared.cluster.stores.namespaces().by_name("", "kube-system").and_then(uid_of);
        if self.shared.front != ClusterId::HOME && system.is_some() && system != self.cluster_uid {
            // The kubeconfig was changed: the context now leads to another cluster.
            if self.cluster_uid.take().is_some() {
                self.shared.cluster.journal = Journal::default();
            }
        }
        let Some(uid) = system.filter(|_| self.cluster_uid.is_none() && self.setup.config_dir.is_some())
        else {
            return Vec::new();
        };
        self.cluster_uid = Some(uid.clone());
        let mut jobs = vec![DiskJob::ReadJournal(self.shared.front), DiskJob::ListDrafts];
        if self.shared.front == ClusterId::HOME {
            jobs.push(DiskJob::ReadTabs);
        }
        let early = std::mem::take(&mut self.early_lines);
        if !early.is_empty() {
            jobs.push(DiskJob::AppendJournal(early));
        }
        jobs.into_iter().map(|job| Job::Disk(uid.clone(), job)).collect()
    }

    /// Writes a journal line as soon as the cluster's identity is known.
    pub(super) fn keep_journal(&mut self, line: String) -> Option<Job> {
        self.setup.config_dir.as_ref()?;
        if let Some(uid) = &self.cluster_uid {
            return Some(Job::Disk(uid.clone(), DiskJob::AppendJournal(line)));
        }
        if self.early_lines.len() < EARLY {
            self.early_lines.push_str(&line);
        }
        None
    }

    pub(super) fn learn_namespaces(&mut self) {
        let names = self.shared.cluster.stores.namespaces().iter();
        let mut names: Vec<String> = names.filter_map(|(_, object)| object.metadata.name.clone()).collect();
        // System namespaces come last, because users rarely open them.
        names.order_by(|a, b| (a.starts_with("kube-"), a).cmp(&(b.starts_with("kube-"), b)));
        self.shared.cluster.favourites.retain(|name| names.contains(name));
        for name in names {
            if self.shared.cluster.favourites.len() >= 9 {
                break;
            }
            if !self.shared.cluster.favourites.contains(&name) {
                self.shared.cluster.favourites.push(name);
            }
        }
    }
}
