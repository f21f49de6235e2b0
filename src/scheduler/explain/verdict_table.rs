//! The result of every filter for every node and one pod, and the scores the nodes would have if they took it.
//!
//! Architecture Invariant: a table is built only for a pod that fits on no node.

use std::collections::HashMap;
use std::sync::Arc;

use crate::framework::{PluginId, PluginSet};
use crate::reason::Refusal;
use crate::state::node_info::NodeName;

/// One attempt's node × plugin table.
#[derive(Clone, Debug)]
pub(crate) struct VerdictTable {
    nodes: Arc<[NodeName]>,
    filters: Vec<PluginId>,
    /// The different refusals; there are few, even for many nodes.
    refusals: Vec<Refusal>,
    /// Node by node, one cell for each filter: 0 if the node passes it, otherwise the index of the refusal plus 1.
    cells: Vec<u32>,
    scores: Vec<ScoreColumn>,
}

/// One plugin's normalised, weighted scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScoreColumn {
    pub(crate) plugin: PluginId,
    /// The weight of its score.
    pub(crate) weight: i64,
    /// Indexed by node position; at most 100.
    pub(crate) scores: Vec<u8>,
}

/// One node's row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'t> {
    table: &'t VerdictTable,
    position: usize,
}

impl<'t> Row<'t> {
    pub(crate) fn node(self) -> &'t NodeName {
        &self.table.nodes[self.position]
    }

    /// Returns every filter that ran, in order, with its refusal or `None`.
    pub(crate) fn verdicts(self) -> impl Iterator<Item = (PluginId, Option<&'t Refusal>)> {
        let table = self.table;
        let width = table.filters.len();
        let cells = &table.cells[self.position * width..(self.position + 1) * width];
        table.filters.iter().copied().zip(cells.iter().map(|cell| match *cell {
            0 => None,
            n => Some(&table.refusals[n as usize - 1]),
        }))
    }

    /// Returns the decisive refusal: the first.
    pub(crate) fn refused(self) -> Option<(PluginId, &'t Refusal)> {
        self.verdicts().find_map(|(plugin, refusal)| refusal.map(|r| (plugin, r)))
    }

    /// Returns the scores of the node, column by column of [`VerdictTable::scored_by`].
    pub(crate) fn scores(self) -> impl Iterator<Item = i64> {
        let position = self.position;
        self.table.scores.iter().map(move |column| i64::from(column.scores[position]))
    }
}

impl VerdictTable {
    /// Returns the filters that ran for the pod.
    pub(crate) fn filters(&self) -> &[PluginId] {
        &self.filters
    }

    /// Returns the plugins that scored, with their weights.
    pub(crate) fn scored_by(&self) -> impl Iterator<Item = (PluginId, i64)> {
        self.scores.iter().map(|column| (column.plugin, column.weight))
    }

    /// Returns the number of nodes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes, one row each.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.nodes.len()).map(|position| Row { table: self, position })
    }

    /// Returns the plugins with decisive refusals: only a change that resolves one of these can help the pod.
    pub(crate) fn rejected_by(&self) -> PluginSet {
        self.rows().filter_map(|row| row.refused().map(|(plugin, _)| plugin)).collect()
    }

    /// Returns the number of cells, which determines the table's memory.
    pub(super) fn cells(&self) -> usize {
        self.cells.len() + self.scores.iter().map(|column| column.scores.len()).sum::<usize>() + 1
    }
}

/// Fills a table cell by cell.
pub(crate) struct TableBuilder {
    table: VerdictTable,
    refusal_ids: HashMap<Refusal, u32>,
    /// The number of the last refusal written.
    last: Option<u32>,
}

impl TableBuilder {
    pub(crate) fn new(nodes: Arc<[NodeName]>, filters: Vec<PluginId>) -> Self {
        let cells = vec![0; nodes.len() * filters.len()];
        let table = VerdictTable { nodes, filters, refusals: Vec::new(), cells, scores: Vec::new() };
        Self { table, refusal_ids: HashMap::new(), last: None }
    }

    pub(crate) fn refuse(&mut self, node: usize, filter: usize, refusal: Refusal) {
        let table = &mut self.table;
        // Adjacent nodes often refuse the pod for the same reason: comparing with the last refusal saves the lookup.
        let last = self.last.filter(|number| table.refusals[*number as usize - 1] == refusal);
        let number = last.unwrap_or_else(|| {
            *self.refusal_ids.entry(refusal).or_insert_with_key(|refusal| {
                table.refusals.push(refusal.clone());
                table.refusals.len() as u32
            })
        });
        self.last = Some(number);
        table.cells[node * table.filters.len() + filter] = number;
    }

    pub(crate) fn score(&mut self, column: ScoreColumn) {
        self.table.scores.push(column);
    }

    pub(crate) fn table(&self) -> &VerdictTable {
        &self.table
    }

    pub(crate) fn finish(self) -> VerdictTable {
        self.table
    }
}
