//! Decides the next step for the attachment of one disk: pure.

use std::collections::BTreeSet;

/// A disk, the nodes that need it, and its attachment.
#[derive(Debug, Default)]
pub(super) struct View<'a> {
    /// The present attachment.
    pub(super) attachment: Option<Attachment<'a>>,
    /// The nodes of the pods that need it, in the order of the pods' age. A pod needs it from its binding until it
    /// has ended.
    pub(super) desired: Vec<&'a str>,
    /// Nodes with processes that may use it: they report so, and are not declared dead.
    pub(super) in_use: BTreeSet<String>,
    /// Nodes to which nothing is attached: out of service, or deleted.
    pub(super) dead: BTreeSet<String>,
}

/// The relevant parts of a VolumeAttachment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment<'a> {
    pub(super) node: &'a str,
    pub(super) attached: bool,
    /// It has a deletion timestamp.
    pub(super) terminating: bool,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AttachAction {
    /// Do nothing until something changes.
    Nothing,
    /// Create the attachment.
    Attach(String),
    /// Report that it is attached.
    Confirm,
    /// Delete the attachment: from then on its node may not start to use the disk.
    Detach,
    /// Remove the attachment's finalizer: its node does not use the disk.
    Release,
}

/// Returns the next step.
///
/// A node reports the use of a disk before it mounts, and mounts only if it then still sees an attachment that is not
/// being deleted. Here the attachment is deleted first and the report read afterwards. In any interleaving one of the
/// two sees the other, so no disk is released that a node is about to use.
pub(super) fn next(view: &View<'_>) -> AttachAction {
    let Some(attachment) = view.attachment else {
        let mut candidates = view.desired.iter().filter(|node| !view.dead.contains(**node));
        // If a node uses the disk, a user deleted its attachment. The disk may then be attached only to such a node.
        let chosen = match view.in_use.first() {
            None => candidates.next(),
            Some(_) => candidates.find(|node| view.in_use.contains(**node)),
        };
        return chosen.map_or(AttachAction::Nothing, |node| AttachAction::Attach((*node).to_owned()));
    };
    let in_use = view.in_use.contains(attachment.node);
    let is_desired = view.desired.contains(&attachment.node);
    match (attachment.terminating, in_use, is_desired) {
        (true, false, _) => AttachAction::Release,
        (false, _, true) => {
            if attachment.attached {
                AttachAction::Nothing
            } else {
                AttachAction::Confirm
            }
        }
        (false, false, false) => AttachAction::Detach,
        // The disk is in use, so pods on other nodes wait.
        (true, true, _) | (false, true, false) => AttachAction::Nothing,
    }
}

/// Returns the node that holds the disk against pods on all others; `None` if there is none.
pub(super) fn holder<'a>(view: &'a View<'_>) -> Option<&'a str> {
    view.attachment.map(|attachment| attachment.node).or_else(|| view.in_use.first().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `node`, with the suffix `?` for one that is not attached yet and `-` for a terminating one.
    fn attachment(text: &str) -> Option<Attachment<'_>> {
        let node = text.trim_end_matches(['?', '-']);
        let (attached, terminating) = (!text.contains('?'), text.contains('-'));
        (!node.is_empty()).then_some(Attachment { node, attached, terminating })
    }

    fn view<'a>(at: &'a str, desired: &'a str, in_use: &str, dead: &str) -> View<'a> {
        let set = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        View {
            attachment: attachment(at),
            desired: desired.split_whitespace().collect(),
            in_use: set(in_use),
            dead: set(dead),
        }
    }

    #[test]
    fn a_disk_goes_to_one_node_at_a_time_vol_3() {
        let attach = |node: &str| AttachAction::Attach(node.into());
        for (rule, at, desired, in_use, dead, expected) in [
            ("no node wants it", "", "", "", "", AttachAction::Nothing),
            ("one node does", "", "a", "", "", attach("a")),
            ("the oldest comes first", "", "b a", "", "", attach("b")),
            ("nothing is attached to the dead", "", "a b", "", "a", attach("b")),
            ("it is used where nothing says that it is attached", "", "b", "a", "", AttachAction::Nothing),
            ("there it may be attached", "", "b a", "a", "", attach("a")),
            ("created, not confirmed", "a?", "a", "", "", AttachAction::Confirm),
            ("as it should be", "a", "a", "a", "", AttachAction::Nothing),
            ("wanted elsewhere too", "a", "a b", "a", "", AttachAction::Nothing),
            ("wanted elsewhere only, and used", "a", "b", "a", "", AttachAction::Nothing),
            ("no more wanted, and used", "a", "", "a", "", AttachAction::Nothing),
            ("neither wanted nor used", "a", "", "", "", AttachAction::Detach),
            ("wanted elsewhere only", "a", "b", "", "", AttachAction::Detach),
            ("never confirmed, and not wanted", "a?", "b", "", "", AttachAction::Detach),
            ("its node is dead, its pod's object is there", "a", "a b", "", "a", AttachAction::Nothing),
            ("its node is dead, its pod is gone", "a", "b", "", "a", AttachAction::Detach),
            ("goes, and is used", "a-", "a b", "a", "", AttachAction::Nothing),
            ("goes, and is not used", "a-", "b", "", "", AttachAction::Release),
            ("goes, and is wanted anew", "a-", "a", "", "", AttachAction::Release),
            ("goes, and its node is dead", "a-", "a b", "", "a", AttachAction::Release),
        ] {
            assert_eq!(next(&view(at, desired, in_use, dead)), expected, "{rule}");
        }
    }

    /// For every view of two nodes: a disk used by a living node stays there after any step, and no step attaches it
    /// to two.
    #[test]
    fn no_view_takes_a_used_disk_away_vol_3() {
        let nodes = ["", "a", "b", "a b"];
        let attachments = ["", "a", "a?", "a-", "a?-", "b", "b-"];
        for number in 0..attachments.len() * 64 {
            let (at, desired) = (attachments[number / 64], nodes[number / 16 % 4]);
            let view = view(at, desired, nodes[number / 4 % 4], nodes[number % 4]);
            match next(&view) {
                AttachAction::Attach(node) => {
                    assert!(at.is_empty() && !view.dead.contains(&node), "{view:?}");
                    assert!(view.in_use.is_empty() || view.in_use.contains(&node), "{view:?}");
                }
                AttachAction::Detach | AttachAction::Release => {
                    assert!(!view.in_use.contains(view.attachment.unwrap().node), "{view:?}");
                }
                AttachAction::Confirm | AttachAction::Nothing => {}
            }
        }
    }
}
