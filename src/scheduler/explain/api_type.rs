//! A verdict in the API's form: texts instead of the scheduler's own types.

use crate::explain::verdict::Verdict;
use crate::explain::verdict_table::Row;
use crate::framework::PluginId;
use crate::reason::Refusal;
use api::verdicts::{FilterRefusal, Hint, NodeVerdict, SchedulingVerdict};
use base::clock::Clock;

/// Converts a verdict for the API.
pub(crate) fn to_api(verdict: &Verdict, clock: &Clock) -> SchedulingVerdict {
    let ago = clock.monotonic().saturating_sub(verdict.at);
    SchedulingVerdict {
        attempted_at: clock.now() - ago,
        message: verdict.message.clone(),
        hints: verdict.hints.iter().map(hint).collect(),
        filters: verdict.table.filters().iter().map(|filter| filter.name()).collect(),
        scored_by: verdict.table.scored_by().map(|(plugin, weight)| (plugin.name(), weight)).collect(),
        nodes: verdict.table.rows().map(node).collect(),
    }
}

fn hint(hint: &crate::explain::hints::Hint) -> Hint {
    Hint {
        node: hint.node.to_string(),
        changes: hint.changes.iter().map(ToString::to_string).collect(),
        alike: hint.alike,
    }
}

fn node(row: Row<'_>) -> NodeVerdict {
    NodeVerdict { name: row.node().to_string(), refusals: refusals(row), scores: row.scores().collect() }
}

fn refusals(row: Row<'_>) -> Vec<FilterRefusal> {
    let refused = row.verdicts().filter_map(|(plugin, refusal)| Some((plugin, refusal?)));
    let to_refusal = |(plugin, refusal): (PluginId, &Refusal)| FilterRefusal {
        plugin: plugin.name(),
        reasons: refusal.reasons.as_slice().iter().map(ToString::to_string).collect(),
    };
    refused.map(to_refusal).collect()
}
