//! Module cycles: modules of one parent that reference each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Id, Modules, Reference};

/// References among the children of one module, with their evidence.
type Siblings = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Children of one module that all reach each other.
pub(crate) struct ModuleCycle {
    /// The parent module of the members.
    pub(crate) parent: String,
    pub(crate) members: BTreeSet<String>,
    /// The references between them: `a → b: module names path`, one per line.
    pub(crate) ties: Vec<String>,
}

/// Returns every module cycle of a crate.
///
/// A child A references a child B if any module at or below A uses an item that any module at or below B defines,
/// through any re-export. References between a module and its own ancestors do not count: a child may use the items of
/// its parent's file, and the parent's file uses its children.
pub(crate) fn module_cycles(modules: &Modules) -> Vec<ModuleCycle> {
    let mut levels: BTreeMap<String, Siblings> = BTreeMap::new();
    for reference in modules.references() {
        if let Some((parent, from, to)) = siblings(modules, reference.from, reference.origin) {
            let line = evidence(modules, &reference);
            levels.entry(parent).or_default().entry(from).or_default().entry(to).or_default().insert(line);
        }
    }
    levels.iter().flat_map(|(parent, siblings)| cycles_among(parent, siblings)).collect()
}

fn evidence(modules: &Modules, reference: &Reference) -> String {
    format!("{} names {}", modules.name(reference.from), reference.path)
}

/// The children of the nearest common ancestor below which two modules are; `None` if one is below the other.
fn siblings(modules: &Modules, from: Id, to: Id) -> Option<(String, String, String)> {
    let (from, to) = (modules.path(from), modules.path(to));
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let parent = if common == 0 { "crate".to_owned() } else { from[..common].join("::") };
    Some((parent, from.get(common)?.clone(), to.get(common)?.clone()))
}

fn cycles_among(parent: &str, siblings: &Siblings) -> Vec<ModuleCycle> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        siblings.keys().map(|from| (from, reachable(from, siblings))).collect();
    let mut found: Vec<ModuleCycle> = Vec::new();
    for from in reach.keys() {
        let members: BTreeSet<String> = reach[from]
            .iter()
            .filter(|to| reach.get(*to).is_some_and(|back| back.contains(from)))
            .map(|member| (*member).clone())
            .collect();
        if members.contains(*from) && !found.iter().any(|knot| knot.members == members) {
            let ties = references(&members, siblings);
            found.push(ModuleCycle { parent: parent.to_owned(), members, ties });
        }
    }
    found
}

fn reachable<'a>(from: &'a String, siblings: &'a Siblings) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(next) = waiting.pop() {
        for to in siblings.get(next).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(to) {
                waiting.push(to);
            }
        }
    }
    seen
}

fn references(members: &BTreeSet<String>, siblings: &Siblings) -> Vec<String> {
    let mut lines = Vec::new();
    for (from, targets) in siblings.iter().filter(|(from, _)| members.contains(*from)) {
        for (to, evidence) in targets.iter().filter(|(to, _)| members.contains(*to)) {
            lines.extend(evidence.iter().map(|line| format!("{from} → {to}: {line}")));
        }
    }
    lines
}
