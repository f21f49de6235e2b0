//! The rows of the table: nodes refused for the same reasons form one row, which can be expanded.
//!
//! A cluster of thousands of nodes has few distinct reasons. Groups are computed once for each verdict; expanding,
//! filtering and drawing only touch rows.

use std::collections::{BTreeSet, HashMap};

use super::verdict::{NodeVerdict, PluginRefusal, Verdict};
use base::sort::SliceOrder;
use console_toolkit::search::Filter;

/// Minimum number of nodes for grouping.
const GROUPED_FROM: usize = 16;

/// Identifies a row across verdicts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Name {
    /// A group, by its reasons.
    Group(String),
    Node(String),
}

/// Nodes with the same refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Identifies the group.
    pub(crate) name: Name,
    /// Indexes in the verdict, the best score first.
    pub(crate) nodes: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Row<'g> {
    /// Several nodes, and whether they are shown below it.
    Group(&'g Group, GroupExpansion),
    /// One node, by index, and whether it belongs to a group above it.
    Node(usize, RowNesting),
}

/// The state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupExpansion {
    /// Its nodes are listed below.
    Yes,
    /// Its nodes are hidden.
    No,
}

/// The relation of a node's row to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowNesting {
    /// It belongs to the group above.
    Yes,
    /// It has no group.
    No,
}

impl Row<'_> {
    /// Identifies the row.
    pub(crate) fn name(&self, verdict: &Verdict) -> Name {
        match self {
            Self::Group(group, _) => group.name.clone(),
            Self::Node(position, _) => Name::Node(verdict.nodes[*position].name.clone()),
        }
    }

    /// Returns a node of the row: all nodes of a group have the same refusals.
    pub(crate) fn example<'v>(&self, verdict: &'v Verdict) -> &'v NodeVerdict {
        match self {
            Self::Group(group, _) => &verdict.nodes[group.nodes[0]],
            Self::Node(position, _) => &verdict.nodes[*position],
        }
    }
}

/// Returns the nodes in groups: fewest reasons first, then the best score.
pub(crate) fn groups(verdict: &Verdict) -> Vec<Group> {
    let together = verdict.nodes.len() >= GROUPED_FROM;
    let mut by_reasons: HashMap<&[PluginRefusal], Vec<usize>> = HashMap::new();
    for (position, node) in verdict.nodes.iter().enumerate() {
        by_reasons.entry(&node.refusals).or_default().push(position);
    }
    let mut groups: Vec<Group> = Vec::new();
    for mut nodes in by_reasons.into_values() {
        nodes.order_by(|a, b| order(verdict, *a).cmp(&order(verdict, *b)));
        if together && nodes.len() > 1 {
            groups.push(Group { name: Name::Group(reasons(&verdict.nodes[nodes[0]])), nodes });
        } else {
            groups.extend(nodes.into_iter().map(|position| Group {
                name: Name::Node(verdict.nodes[position].name.clone()),
                nodes: vec![position],
            }));
        }
    }
    groups.order_by(|a, b| order(verdict, a.nodes[0]).cmp(&order(verdict, b.nodes[0])));
    groups
}

fn order(verdict: &Verdict, position: usize) -> (usize, std::cmp::Reverse<Option<i64>>, &str) {
    let node = &verdict.nodes[position];
    (node.refusals.len(), std::cmp::Reverse(verdict.total(node)), &node.name)
}

/// Returns all reasons against a node, in one line.
pub(crate) fn reasons(node: &NodeVerdict) -> String {
    let all: Vec<&str> =
        node.refusals.iter().flat_map(|refusal| &refusal.reasons).map(String::as_str).collect();
    if all.is_empty() { "takes the pod".to_owned() } else { all.join(", ") }
}

/// Returns the visible rows: expanded groups with their nodes; with a filter, only the nodes and reasons that match.
pub(crate) fn rows<'g>(
    verdict: &Verdict,
    groups: &'g [Group],
    open: &BTreeSet<Name>,
    filter: &Filter,
) -> Vec<Row<'g>> {
    let mut rows = Vec::new();
    for group in groups {
        let reason_found = filter.is_empty() || filter.matches(&reasons(&verdict.nodes[group.nodes[0]]));
        let found = |position: &&usize| reason_found || filter.matches(&verdict.nodes[**position].name);
        if let Name::Node(_) = group.name {
            rows.extend(
                group.nodes.iter().filter(found).map(|position| Row::Node(*position, RowNesting::No)),
            );
            continue;
        }
        // A group that matches only by node names is expanded, so that these nodes are visible.
        let opened = open.contains(&group.name) || !reason_found;
        let nodes: Vec<usize> = group.nodes.iter().filter(found).copied().collect();
        if nodes.is_empty() {
            continue;
        }
        rows.push(Row::Group(group, if opened { GroupExpansion::Yes } else { GroupExpansion::No }));
        if opened {
            rows.extend(nodes.into_iter().map(|position| Row::Node(position, RowNesting::Yes)));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::pending::verdict::Scorer;

    fn verdict(nodes: impl Iterator<Item = (String, Vec<&'static str>, i64)>) -> Verdict {
        let node = |(name, reasons, score): (String, Vec<&str>, i64)| NodeVerdict {
            name,
            refusals: reasons
                .iter()
                .map(|reason| PluginRefusal { plugin: "P".into(), reasons: vec![(*reason).to_owned()] })
                .collect(),
            scores: vec![score],
        };
        Verdict {
            attempted_at: Time(jiff::Timestamp::UNIX_EPOCH),
            message: String::new(),
            hints: Vec::new(),
            filters: vec!["P".into()],
            scored_by: vec![Scorer { plugin: "S".into(), weight: 1 }],
            nodes: nodes.map(node).collect(),
        }
    }

    fn row_texts(verdict: &Verdict, groups: &[Group], open: &BTreeSet<Name>, search: &str) -> Vec<String> {
        rows(verdict, groups, open, &Filter::new(search).expect("a pattern"))
            .iter()
            .map(|row| match row {
                Row::Group(group, _) => format!("{}× {}", group.nodes.len(), reasons(row.example(verdict))),
                Row::Node(position, nested) => {
                    format!(
                        "{}{}",
                        if *nested == RowNesting::Yes { "  " } else { "" },
                        verdict.nodes[*position].name
                    )
                }
            })
            .collect()
    }

    #[test]
    fn five_thousand_nodes_are_a_few_rows_that_open_con_9() {
        let verdict = verdict((0..5000).map(|n| match n {
            0 => ("lonely".to_owned(), vec!["unschedulable"], 10),
            n if n % 2 == 0 => (format!("n{n}"), vec!["cpu"], 10),
            n => (format!("n{n}"), vec!["taint", "cpu"], n),
        }));
        let groups = groups(&verdict);
        let mut open = BTreeSet::new();
        // One reason refuses the nodes of the first two groups, which are of equal score and sorted by name; two refuse
        // those of the last.
        assert_eq!(row_texts(&verdict, &groups, &open, ""), ["lonely", "2499× cpu", "2500× taint, cpu"]);
        open.insert(groups[2].name.clone());
        let rows = row_texts(&verdict, &groups, &open, "");
        assert_eq!((rows.len(), rows[3].as_str()), (2503, "  n4999"), "the best score first");
        assert_eq!(row_texts(&verdict, &groups, &BTreeSet::new(), "n123$"), ["2500× taint, cpu", "  n123"]);
        assert_eq!(row_texts(&verdict, &groups, &BTreeSet::new(), "taint"), ["2500× taint, cpu"]);
        assert!(row_texts(&verdict, &groups, &BTreeSet::new(), "nothing").is_empty());
    }

    #[test]
    fn a_few_nodes_are_a_row_each_con_9() {
        let verdict = verdict(["b", "a"].into_iter().map(|name| (name.to_owned(), vec!["cpu"], 1)));
        assert_eq!(row_texts(&verdict, &groups(&verdict), &BTreeSet::new(), ""), ["a", "b"]);
    }
}
