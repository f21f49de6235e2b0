//! Verdicts: the last failed attempt at each pod, with hints.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::hints::Hint;
use super::verdict_table::VerdictTable;
use object::Uid;

/// The last attempt at a pod that found no node.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// The result of every filter for every node.
    pub(crate) table: VerdictTable,
    /// The message of the pod's event.
    pub message: String,
    /// The hints, smallest first.
    pub(crate) hints: Vec<Hint>,
    /// The time of the attempt on the monotonic clock.
    pub(crate) at: Duration,
}

/// The most cells retained in all tables: some ten megabytes.
const MAX_CELLS: usize = 2_000_000;

/// The last verdict of each pod without a node; the oldest are dropped at the limit.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    tables: HashMap<Uid, (u64, Arc<Verdict>)>,
    oldest: VecDeque<(u64, Uid)>,
    sequence: u64,
    cells: usize,
}

impl Verdicts {
    /// Stores a pod's verdict in place of its last one.
    pub(crate) fn keep(&mut self, pod: &str, verdict: Arc<Verdict>) {
        self.forget(pod);
        self.sequence += 1;
        self.cells += verdict.table.cells();
        self.oldest.push_back((self.sequence, pod.to_string()));
        self.tables.insert(pod.to_string(), (self.sequence, verdict));
        while self.cells > MAX_CELLS || self.oldest.len() > self.tables.len() * 2 + 16 {
            let Some((turn, pod)) = self.oldest.pop_front() else { break };
            match self.tables.get(&pod) {
                // The pod's latest table is dropped only if there is no capacity for it.
                Some((last, _)) if *last == turn && self.cells > MAX_CELLS => self.forget(&pod),
                Some((last, _)) if *last == turn => self.oldest.push_back((turn, pod)),
                _ => {}
            }
        }
    }

    /// Drops the verdict of a pod that has found a node or is deleted.
    pub(crate) fn forget(&mut self, pod: &str) {
        if let Some((_, verdict)) = self.tables.remove(pod) {
            self.cells -= verdict.table.cells();
        }
    }

    /// Returns the last verdict of a pod.
    pub(crate) fn get(&self, pod: &str) -> Option<Arc<Verdict>> {
        self.tables.get(pod).map(|(_, verdict)| verdict.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::verdict_table::TableBuilder;
    use crate::framework::PluginId;
    use crate::state::node_info::NodeName;

    #[test]
    fn only_the_last_table_of_a_pod_is_stored_and_the_oldest_go_first() {
        let table = |nodes: usize| {
            let names: Arc<[NodeName]> = (0..nodes).map(|n| NodeName::from(n.to_string())).collect();
            let table = TableBuilder::new(names, vec![PluginId::NodeName]).finish();
            Arc::new(Verdict { table, message: String::new(), hints: Vec::new(), at: Duration::ZERO })
        };
        let mut verdicts = Verdicts::default();
        for _ in 0..100 {
            verdicts.keep("a", table(3));
        }
        assert_eq!((verdicts.tables.len(), verdicts.cells), (1, 4));
        assert!(verdicts.oldest.len() < 32, "{}", verdicts.oldest.len());
        verdicts.keep("big", table(MAX_CELLS - 2));
        assert!(verdicts.get("a").is_none(), "the oldest made room");
        assert_eq!(verdicts.get("big").map(|v| v.table.len()), Some(MAX_CELLS - 2));
        verdicts.forget("big");
        assert_eq!(verdicts.cells, 0);
    }
}
