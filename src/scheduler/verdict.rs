//! Verdicts: what every filter said of every node for one pod, and how the nodes would score if they took it.
//!
//! Architecture Invariant: a table is made when a pod fits nowhere, never for a pod that found its node.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::advice::Advice;
use super::framework::{PluginId, PluginSet};
use super::node_info::NodeName;
use super::reason::Refusal;
use crate::object::Uid;

/// One attempt's node × plugin table.
#[derive(Clone, Debug)]
pub struct VerdictTable {
    nodes: Arc<[NodeName]>,
    filters: Vec<PluginId>,
    /// The different refusals; few, however many nodes there are.
    refusals: Vec<Refusal>,
    /// Node by node, a cell a filter: 0 takes the pod, n is refusal n − 1.
    cells: Vec<u32>,
    scores: Vec<ScoreColumn>,
}

/// One plugin's normalised, weighted scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreColumn {
    /// The plugin.
    pub plugin: PluginId,
    /// How much its score counts.
    pub weight: i64,
    /// By node position, of 100.
    pub scores: Vec<u8>,
}

/// One node's row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t> {
    table: &'t VerdictTable,
    position: usize,
}

impl<'t> Row<'t> {
    /// The node.
    pub fn node(self) -> &'t NodeName {
        &self.table.nodes[self.position]
    }

    /// Every filter that had something to say, in order, with its refusal or None.
    pub fn verdicts(self) -> impl Iterator<Item = (PluginId, Option<&'t Refusal>)> {
        let table = self.table;
        let width = table.filters.len();
        let cells = &table.cells[self.position * width..(self.position + 1) * width];
        table.filters.iter().copied().zip(cells.iter().map(|cell| match *cell {
            0 => None,
            n => Some(&table.refusals[n as usize - 1]),
        }))
    }

    /// The refusal that decided: the first.
    pub fn refused(self) -> Option<(PluginId, &'t Refusal)> {
        self.verdicts().find_map(|(plugin, refusal)| refusal.map(|r| (plugin, r)))
    }

    /// The scores of the node, column by column of [`VerdictTable::scored_by`].
    pub fn scores(self) -> impl Iterator<Item = i64> {
        let position = self.position;
        self.table.scores.iter().map(move |column| i64::from(column.scores[position]))
    }
}

impl VerdictTable {
    /// The filters that had something to say about the pod.
    pub fn filters(&self) -> &[PluginId] {
        &self.filters
    }

    /// The plugins that scored, with their weights.
    pub fn scored_by(&self) -> impl Iterator<Item = (PluginId, i64)> {
        self.scores.iter().map(|column| (column.plugin, column.weight))
    }

    /// How many nodes there were.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes, one row each.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.nodes.len()).map(|position| Row { table: self, position })
    }

    /// The plugins whose refusals decided: only what turns one of these can help the pod.
    pub fn rejected_by(&self) -> PluginSet {
        self.rows().filter_map(|row| row.refused().map(|(plugin, _)| plugin)).collect()
    }

    fn cells(&self) -> usize {
        self.cells.len() + self.scores.iter().map(|column| column.scores.len()).sum::<usize>() + 1
    }
}

/// Fills a table cell by cell.
pub(super) struct TableBuilder {
    table: VerdictTable,
    known: HashMap<Refusal, u32>,
    /// The number of the refusal written last.
    last: Option<u32>,
}

impl TableBuilder {
    pub(super) fn new(nodes: Arc<[NodeName]>, filters: Vec<PluginId>) -> Self {
        let cells = vec![0; nodes.len() * filters.len()];
        let table = VerdictTable { nodes, filters, refusals: Vec::new(), cells, scores: Vec::new() };
        Self { table, known: HashMap::new(), last: None }
    }

    pub(super) fn refuse(&mut self, node: usize, filter: usize, refusal: Refusal) {
        let table = &mut self.table;
        // Node after node is refused for the same reason: then there is nothing to look up.
        let last = self.last.filter(|number| table.refusals[*number as usize - 1] == refusal);
        let number = last.unwrap_or_else(|| {
            *self.known.entry(refusal).or_insert_with_key(|refusal| {
                table.refusals.push(refusal.clone());
                table.refusals.len() as u32
            })
        });
        self.last = Some(number);
        table.cells[node * table.filters.len() + filter] = number;
    }

    pub(super) fn score(&mut self, column: ScoreColumn) {
        self.table.scores.push(column);
    }

    pub(super) fn table(&self) -> &VerdictTable {
        &self.table
    }

    pub(super) fn finish(self) -> VerdictTable {
        self.table
    }
}

/// The last attempt at a pod that found no node.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What every filter said of every node.
    pub table: VerdictTable,
    /// What the pod's event says.
    pub message: String,
    /// What would make it fit, the least first.
    pub advice: Vec<Advice>,
    /// When it was, on the monotonic clock.
    pub at: Duration,
}

/// Cells kept over all tables: some ten megabytes.
const CELLS_KEPT: usize = 2_000_000;

/// The last verdict of each pod that found no node; the oldest go when there are too many.
#[derive(Debug, Default)]
pub struct Verdicts {
    tables: HashMap<Uid, (u64, Arc<Verdict>)>,
    oldest: VecDeque<(u64, Uid)>,
    turn: u64,
    cells: usize,
}

impl Verdicts {
    /// Keeps a pod's table in place of its last.
    pub fn keep(&mut self, pod: &str, verdict: Arc<Verdict>) {
        self.forget(pod);
        self.turn += 1;
        self.cells += verdict.table.cells();
        self.oldest.push_back((self.turn, pod.to_string()));
        self.tables.insert(pod.to_string(), (self.turn, verdict));
        while self.cells > CELLS_KEPT || self.oldest.len() > self.tables.len() * 2 + 16 {
            let Some((turn, pod)) = self.oldest.pop_front() else { break };
            match self.tables.get(&pod) {
                // The pod's last table: it goes only when there is no room for it.
                Some((last, _)) if *last == turn && self.cells > CELLS_KEPT => self.forget(&pod),
                Some((last, _)) if *last == turn => self.oldest.push_back((turn, pod)),
                _ => {}
            }
        }
    }

    /// The pod found a node, or is gone.
    pub fn forget(&mut self, pod: &str) {
        if let Some((_, verdict)) = self.tables.remove(pod) {
            self.cells -= verdict.table.cells();
        }
    }

    /// The last verdict of a pod.
    pub fn get(&self, pod: &str) -> Option<Arc<Verdict>> {
        self.tables.get(pod).map(|(_, verdict)| verdict.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_table_of_a_pod_is_kept_and_the_oldest_go_first() {
        let table = |nodes: usize| {
            let names: Arc<[NodeName]> = (0..nodes).map(|n| NodeName::from(n.to_string())).collect();
            let table = TableBuilder::new(names, vec![PluginId::NodeName]).finish();
            Arc::new(Verdict { table, message: String::new(), advice: Vec::new(), at: Duration::ZERO })
        };
        let mut verdicts = Verdicts::default();
        for _ in 0..100 {
            verdicts.keep("a", table(3));
        }
        assert_eq!((verdicts.tables.len(), verdicts.cells), (1, 4));
        assert!(verdicts.oldest.len() < 32, "{}", verdicts.oldest.len());
        verdicts.keep("big", table(CELLS_KEPT - 2));
        assert!(verdicts.get("a").is_none(), "the oldest made room");
        assert_eq!(verdicts.get("big").map(|v| v.table.len()), Some(CELLS_KEPT - 2));
        verdicts.forget("big");
        assert_eq!(verdicts.cells, 0);
    }
}
