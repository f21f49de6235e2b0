//! A set of paths, as a tree.

use std::cmp::Ordering;

use super::path::Step;

/// A set of paths into an object. The empty path is in no set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// In order; none of them is empty.
    nodes: Vec<(Step, Node)>,
}

/// What a set has at and below one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The path itself is in the set.
    pub member: bool,
    /// What is in it below.
    pub below: FieldSet,
}

impl Node {
    /// The path itself and nothing below.
    pub fn leaf() -> Self {
        Self { member: true, below: FieldSet::default() }
    }

    /// Whether nothing is in the set here.
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// The set of these paths.
    pub fn of<P: AsRef<[Step]>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path.as_ref());
        }
        set
    }

    /// Whether it has no path.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The steps at its top, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (&Step, &Node)> {
        self.nodes.iter().map(|(step, node)| (step, node))
    }

    /// Puts a path into it.
    pub fn insert(&mut self, path: &[Step]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.place(first) {
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

    /// Puts in what was found at and below a step; what was there is added to.
    pub fn put(&mut self, step: Step, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.place(&step) {
            Ok(at) => {
                let there = &mut self.nodes[at].1;
                there.member |= node.member;
                there.below = there.below.union(&node.below);
            }
            Err(at) => self.nodes.insert(at, (step, node)),
        }
    }

    fn place(&self, step: &Step) -> Result<usize, usize> {
        // What is put in is mostly in order.
        match self.nodes.last() {
            Some((last, _)) if last < step => Err(self.nodes.len()),
            _ => self.nodes.binary_search_by(|(there, _)| there.cmp(step)),
        }
    }

    /// What it has at and below a step.
    pub fn at(&self, step: &Step) -> Option<&Node> {
        self.place(step).ok().map(|at| &self.nodes[at].1)
    }

    /// Whether the path itself is in it.
    pub fn has(&self, path: &[Step]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.at(first).is_some_and(|node| if rest.is_empty() { node.member } else { node.below.has(rest) })
    }

    /// The paths in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Node { member: a.member || b.member, below: a.below.union(&b.below) },
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => Node::default(),
        })
    }

    /// The paths in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => {
                Node { member: a.member && b.member, below: a.below.intersection(&b.below) }
            }
            _ => Node::default(),
        })
    }

    /// The paths in this one and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => Node { member: a.member && !b.member, below: a.below.difference(&b.below) },
            (Some(a), None) => a.clone(),
            _ => Node::default(),
        })
    }

    /// The paths in this one that are neither in the other nor below one that is.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.zip(other, |a, b| match (a, b) {
            (Some(a), Some(b)) if !b.member => {
                Node { member: a.member, below: a.below.recursive_difference(&b.below) }
            }
            (Some(a), None) => a.clone(),
            _ => Node::default(),
        })
    }

    fn zip(&self, other: &Self, join: impl Fn(Option<&Node>, Option<&Node>) -> Node) -> Self {
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let (mut a, mut b) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Self { nodes },
            };
            let left = if order.is_le() { a.next() } else { None };
            let right = if order.is_ge() { b.next() } else { None };
            let joined = join(left.map(|(_, node)| node), right.map(|(_, node)| node));
            if let Some((step, _)) = left.or(right).filter(|_| !joined.is_empty()) {
                nodes.push((step.clone(), joined));
            }
        }
    }

    /// Its paths: those at one level first, then those below each.
    pub fn paths(&self) -> Vec<Vec<Step>> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, above: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
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

impl FromIterator<(Step, Node)> for FieldSet {
    fn from_iter<I: IntoIterator<Item = (Step, Node)>>(nodes: I) -> Self {
        let mut set = Self::default();
        for (step, node) in nodes {
            set.put(step, node);
        }
        set
    }
}
