//! The commands' names in earlier versions, which the user's `console.toml`, hotkeys and habits may still have.

use super::{Command, KeyContext};

/// Names of commands that have another name now.
const RENAMED: &[(&str, Command)] = &[
    ("clash-mine", Command::ConflictMine),
    ("clash-theirs", Command::ConflictTheirs),
    ("editor-leave", Command::EditorBack),
    ("leave", Command::BackOrQuit),
    ("versions-base", Command::VersionsCompare),
    ("past-at", Command::PastAt),
];

/// Names of one view's command that is the same in several views now. As a name in `[keys]`, it sets the keys in that
/// view only, as it did before.
const MERGED: &[(&str, Command, KeyContext)] = &[
    ("clash-back", Command::EditOn, KeyContext::Conflict),
    ("conflict-back", Command::EditOn, KeyContext::Conflict),
    ("connection-again", Command::Retry, KeyContext::Connection),
    ("connection-copy", Command::Copy, KeyContext::Connection),
    ("connection-retry", Command::Retry, KeyContext::Connection),
    ("container-attach", Command::Attach, KeyContext::Containers),
    ("container-copy", Command::Copy, KeyContext::Containers),
    ("container-debug", Command::Debug, KeyContext::Containers),
    ("container-describe", Command::Describe, KeyContext::Containers),
    ("container-forward", Command::PortForward, KeyContext::Containers),
    ("container-logs", Command::Logs, KeyContext::Containers),
    ("container-previous", Command::PreviousLogs, KeyContext::Containers),
    ("container-shell", Command::Shell, KeyContext::Containers),
    ("container-transfer", Command::Transfer, KeyContext::Containers),
    ("container-yaml", Command::Yaml, KeyContext::Containers),
    ("controller-copy", Command::Copy, KeyContext::ControllerKeys),
    ("controller-describe", Command::Describe, KeyContext::ControllerKeys),
    ("controller-pause", Command::Pause, KeyContext::Controllers),
    ("copy-name", Command::Copy, KeyContext::Objects),
    ("describe-logs", Command::Logs, KeyContext::Describe),
    ("describe-yaml", Command::Yaml, KeyContext::Describe),
    ("drain-stop", Command::Stop, KeyContext::Drain),
    ("drain-toggle", Command::Toggle, KeyContext::Drain),
    ("drain-uncordon", Command::Uncordon, KeyContext::Drain),
    ("drill-stop", Command::Stop, KeyContext::Drills),
    ("dump-edit", Command::Edit, KeyContext::Dumps),
    ("dump-remove", Command::Delete, KeyContext::Dumps),
    ("dump-text-edit", Command::Edit, KeyContext::DumpText),
    ("event-object", Command::GoToObject, KeyContext::Events),
    ("events-pause", Command::Pause, KeyContext::Events),
    ("explain-copy", Command::Copy, KeyContext::Explain),
    ("explain-describe", Command::Describe, KeyContext::Explain),
    ("explain-logs", Command::Logs, KeyContext::Explain),
    ("explain-timeline", Command::OpenTimeline, KeyContext::Explain),
    ("explain-yaml", Command::Yaml, KeyContext::Explain),
    ("files-delete", Command::Delete, KeyContext::Files),
    ("files-edit", Command::Edit, KeyContext::Files),
    ("files-show", Command::Yaml, KeyContext::Files),
    ("forward-copy", Command::Copy, KeyContext::Forwards),
    ("forward-stop", Command::Stop, KeyContext::Forwards),
    ("journal-copy", Command::Copy, KeyContext::Journal),
    ("journal-undo", Command::Undo, KeyContext::Journal),
    ("logs-all-containers", Command::ShowAll, KeyContext::Logs),
    ("logs-container", Command::NextPart, KeyContext::Logs),
    ("logs-previous", Command::PreviousLogs, KeyContext::Logs),
    ("node-shell", Command::Shell, KeyContext::Nodes),
    ("owner-rollback", Command::Rollback, KeyContext::ReplicaSets),
    ("pending-copy", Command::Copy, KeyContext::Pending),
    ("pending-describe", Command::Describe, KeyContext::Pending),
    ("pending-open", Command::Toggle, KeyContext::Pending),
    ("pending-yaml", Command::Yaml, KeyContext::Pending),
    ("pod-image", Command::SetImage, KeyContext::Pods),
    ("review-back", Command::EditOn, KeyContext::Review),
    ("rollout-explain", Command::Explain, KeyContext::Rollout),
    ("rollout-pause", Command::Pause, KeyContext::Rollout),
    ("rollout-pods", Command::ShowPods, KeyContext::Rollout),
    ("rollout-restart", Command::Restart, KeyContext::Rollout),
    ("rollout-scale", Command::Scale, KeyContext::Rollout),
    ("rollout-set-image", Command::SetImage, KeyContext::Rollout),
    ("rollout-timeline", Command::OpenTimeline, KeyContext::Rollout),
    ("rollout-undo", Command::Undo, KeyContext::Rollout),
    ("save-csv", Command::Save, KeyContext::Objects),
    ("screen-dump-edit", Command::Edit, KeyContext::Dumps),
    ("screen-dump-remove", Command::Delete, KeyContext::Dumps),
    ("screen-dump-text-edit", Command::Edit, KeyContext::DumpText),
    ("service-logs", Command::Logs, KeyContext::Services),
    ("timeline-copy", Command::Copy, KeyContext::Timeline),
    ("timeline-describe", Command::Describe, KeyContext::Timeline),
    ("timeline-object", Command::GoToObject, KeyContext::Timeline),
    ("timeline-order", Command::SortColumn, KeyContext::Timeline),
    ("timeline-then", Command::Yaml, KeyContext::Timeline),
    ("timeline-yaml", Command::Yaml, KeyContext::Timeline),
    ("topology-describe", Command::Describe, KeyContext::Topology),
    ("topology-drain", Command::OpenDrain, KeyContext::Topology),
    ("transfer-again", Command::Retry, KeyContext::Transfer),
    ("transfer-copy", Command::Copy, KeyContext::Transfer),
    ("transfer-retry", Command::Retry, KeyContext::Transfer),
    ("transfer-stop", Command::Stop, KeyContext::Transfer),
    ("tree-describe", Command::Describe, KeyContext::Tree),
    ("tree-explain", Command::Explain, KeyContext::Tree),
    ("tree-faults", Command::Faults, KeyContext::Tree),
    ("tree-logs", Command::Logs, KeyContext::Tree),
    ("tree-timeline", Command::OpenTimeline, KeyContext::Tree),
    ("tree-yaml", Command::Yaml, KeyContext::Tree),
    ("versions-all", Command::ShowAll, KeyContext::Versions),
    ("versions-copy", Command::Copy, KeyContext::Versions),
    ("versions-describe", Command::Describe, KeyContext::Versions),
    ("versions-yaml", Command::Yaml, KeyContext::Versions),
    ("why-pending", Command::Explain, KeyContext::Unscheduled),
    ("workload-logs", Command::Logs, KeyContext::Workloads),
    ("yaml-decode", Command::Decode, KeyContext::Yaml),
    ("yaml-edit", Command::Edit, KeyContext::Yaml),
];

/// Finds the command that had this name, and its context if it was one view's.
pub(super) fn find(name: &str) -> Option<(Command, Option<KeyContext>)> {
    let renamed = RENAMED.iter().find(|(old, _)| *old == name).map(|&(_, command)| (command, None));
    let merged = MERGED.iter().find(|(old, ..)| *old == name);
    renamed.or_else(|| merged.map(|&(_, command, context)| (command, Some(context))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Bindings, UserKeys};
    use crate::keys::Key;

    #[test]
    fn every_former_name_sets_the_keys_of_its_view_con_3() {
        let key = Key::parse("f5").expect("a key");
        for (old, command, context) in MERGED {
            assert_eq!(Command::named_with_context(old), Some((*command, Some(*context))), "{old}");
            let own = UserKeys::from([((*command, Some(*context)), vec![key])]);
            let bindings = Bindings::with(&own).expect("a free key");
            assert_eq!(bindings.command(&[*context], key), Some(*command), "{old}");
            for other in command.entries().filter(|entry| entry.context != *context) {
                assert_eq!(
                    bindings.command(&[other.context], key),
                    None,
                    "{old} in {}",
                    other.context.title()
                );
            }
        }
        for (old, command) in RENAMED {
            assert_eq!(Command::named_with_context(old), Some((*command, None)), "{old}");
        }
    }
}
