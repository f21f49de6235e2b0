//! A set of paths, as a tree.

use std::mem::take;

use super::path::PathElement;

/// A set of paths into an object. The empty path is in no set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// In order; no node is empty.
    nodes: Vec<(PathElement, Node)>,
}

/// The contents of a set at and below one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The path itself is in the set.
    pub member: bool,
    /// The paths below.
    pub below: FieldSet,
}

impl Node {
    /// Creates a node with the path itself and nothing below.
    pub fn leaf() -> Self {
        Self { member: true, below: FieldSet::default() }
    }

    /// Returns true if the set has no path here.
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Returns the set of these paths.
    pub fn of<P: AsRef<[PathElement]>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.as_ref());
        }
        set
    }

    /// Returns the set of these nodes, of which none is empty, in any order; merges duplicates.
    fn of_nodes(mut nodes: Vec<(PathElement, Node)>) -> Self {
        if !nodes.is_sorted_by(|(a, _), (b, _)| a < b) {
            nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
            nodes.dedup_by(|(step, node), (before, there)| {
                let is_same = step == before;
                if is_same {
                    there.member |= node.member;
                    there.below = take(&mut there.below).union(take(&mut node.below));
                }
                is_same
            });
        }
        nodes.shrink_to_fit();
        Self { nodes }
    }

    /// Returns true if the set has no path.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the path elements at the top level, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.nodes.iter().map(|(step, node)| (step, node))
    }

    fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.position_of(first) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, (first.clone(), Node::default()));
                at
            }
        };
        let node = &mut self.nodes[at].1;
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    fn position_of(&self, step: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|(there, _)| there.cmp(step))
    }

    /// Returns the contents at and below a path element.
    pub fn at(&self, step: &PathElement) -> Option<&Node> {
        self.position_of(step).ok().map(|at| &self.nodes[at].1)
    }

    /// Returns true if the path itself is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.at(first).is_some_and(|node| if rest.is_empty() { node.member } else { node.below.has(rest) })
    }

    /// Returns the paths in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        self.nodes.into_iter().chain(other.nodes).collect()
    }

    /// Returns the paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (few, many) = if self.nodes.len() <= other.nodes.len() { (self, other) } else { (other, self) };
        let both = few.nodes.iter().filter_map(|(step, a)| {
            let b = many.at(step)?;
            let node = Node { member: a.member && b.member, below: a.below.intersection(&b.below) };
            (!node.is_empty()).then(|| (step.clone(), node))
        });
        Self { nodes: both.collect() }
    }

    /// Returns true if every path in it is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.nodes.iter().all(|(step, a)| {
            other.at(step).is_some_and(|b| (b.member || !a.member) && a.below.is_subset(&b.below))
        })
    }

    /// Returns the paths in this set and not in the other.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        self.subtract(other, false);
        self
    }

    /// Returns the paths in this set that are neither in the other nor below a path of it.
    #[must_use]
    pub fn recursive_difference(mut self, other: &Self) -> Self {
        self.subtract(other, true);
        self
    }

    /// Removes the paths of another set, and with `with_below` also those below them. Visits only nodes in both.
    fn subtract(&mut self, other: &Self, with_below: bool) {
        let less = |node: &mut Node, other: &Node| {
            if with_below && other.member {
                *node = Node::default();
            } else {
                node.member &= !other.member;
                node.below.subtract(&other.below, with_below);
            }
            node.is_empty()
        };
        let mut is_less = false;
        if self.nodes.len() <= other.nodes.len() {
            for (step, node) in &mut self.nodes {
                is_less |= other.at(step).is_some_and(|other| less(node, other));
            }
        } else {
            for (step, other) in &other.nodes {
                is_less |= self.position_of(step).is_ok_and(|at| less(&mut self.nodes[at].1, other));
            }
        }
        if is_less {
            self.nodes.retain(|(_, node)| !node.is_empty());
        }
    }

    /// Returns all paths: those of one level first, then those below each.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, above: &mut Vec<PathElement>, found: &mut Vec<Vec<PathElement>>) {
        for (step, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            let mut path = above.clone();
            path.push(step.clone());
            found.push(path);
        }
        for (step, node) in &self.nodes {
            above.push(step.clone());
            node.below.collect(above, found);
            above.pop();
        }
    }
}

impl FromIterator<(PathElement, Node)> for FieldSet {
    /// Accepts any order; merges duplicates.
    fn from_iter<I: IntoIterator<Item = (PathElement, Node)>>(nodes: I) -> Self {
        Self::of_nodes(nodes.into_iter().filter(|(_, node)| !node.is_empty()).collect())
    }
}
