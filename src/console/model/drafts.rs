//! Drafts of unsaved edits: when they are saved, offered and removed. No draft is saved before the cluster's identity
//! is known.

use jiff::Timestamp;

use super::{DiskJob, Job, Model};
use console_data::context::ScreenId;
use console_data::drafts::{Draft, DraftKey};
use console_data::message::{Data, ScreenMessage};
use console_data::resource::{ClusterId, ObjectRef, Uid};
use console_operations::dialog::{Field, Fields};
use console_operations::effect::{Dialog, Effect};
use console_screens::Screen;
use console_screens::edit::EditData;
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;

/// The maximum number of objects named in one toast.
const NAMED: usize = 3;

impl Model {
    /// Returns the front cluster's uid, if its drafts are saved.
    fn cluster_of_drafts(&self) -> Option<Uid> {
        self.setup.config_dir.as_ref()?;
        self.cluster_uid.clone()
    }

    pub(super) fn read_draft(&self, id: ScreenId, target: &ObjectRef) -> Option<Job> {
        Some(Job::Disk(self.cluster_of_drafts()?, DiskJob::ReadDraft(id, DraftKey::of(target))))
    }

    pub(super) fn keep_draft(&self, draft: Box<Draft>) -> Option<Job> {
        Some(Job::Disk(self.cluster_of_drafts()?, DiskJob::SaveDraft(draft)))
    }

    pub(super) fn forget_draft(&mut self, key: DraftKey) -> Option<Job> {
        self.earlier_drafts.retain(|earlier| *earlier != key);
        Some(Job::Disk(self.cluster_of_drafts()?, DiskJob::RemoveDraft(key)))
    }

    pub(super) fn draft_was_read(&mut self, id: ScreenId, draft: Draft, now: Timestamp) -> Vec<Job> {
        let is_there =
            self.all_screens().any(|(known, screen)| *known == id && matches!(screen, Screen::Edit(_)));
        if !is_there {
            return Vec::new();
        }
        self.dirty = true;
        self.deliver(id, now, ScreenMessage::Data(Data::new(EditData::Draft(Box::new(draft)))))
    }

    /// Reports the unsaved edits of earlier runs.
    pub(super) fn announce_drafts(&mut self, drafts: Vec<(DraftKey, Timestamp)>, now: Timestamp) {
        let mut named: Vec<String> =
            drafts.iter().rev().take(NAMED).map(|(key, _)| clean(&key.describe()).into_owned()).collect();
        if drafts.len() > NAMED {
            named.push(format!("{} more", drafts.len() - NAMED));
        }
        self.earlier_drafts = drafts.into_iter().map(|(key, _)| key).collect();
        let text = format!(
            "unsaved edits: {}; edit an object again to restore its edit, or :discard-edits",
            named.join(", ")
        );
        self.toast(Toast::warning(text), now);
    }

    /// Returns the dialog that discards the unsaved edits of earlier runs, all of them or those of one object.
    pub(crate) fn discard_drafts_dialog(&self) -> Result<Dialog, String> {
        let drafts = self.earlier_drafts.clone();
        if drafts.is_empty() {
            return Err("there are no unsaved edits of earlier runs".to_owned());
        }
        let names: Vec<String> = drafts.iter().map(|key| clean(&key.describe()).into_owned()).collect();
        let mut fields = Fields::default();
        let choices = std::iter::once("all".to_owned()).chain(names.iter().cloned()).collect();
        let picked = fields.add(Field::choice("edit of", choices).hint("← → to pick"));
        let mut dialog = Dialog::new("Discard unsaved edits", "Discard", move |dialog, _| {
            let picked = dialog.choice(picked);
            let discarded = drafts.iter().filter(|key| picked == "all" || clean(&key.describe()) == picked);
            Ok(discarded.cloned().map(Effect::RemoveDraft).collect())
        });
        for name in &names {
            dialog = dialog.line(name.clone());
        }
        Ok(dialog.fields(fields))
    }

    /// Returns the unsaved texts of open editors, with their clusters.
    pub(crate) fn unsaved_drafts(&self) -> Vec<(Uid, Draft)> {
        if self.setup.config_dir.is_none() {
            return Vec::new();
        }
        let of = |cluster: ClusterId| match cluster {
            front if front == self.shared.front => self.cluster_uid.clone(),
            other => self.background_clusters.get(&other)?.cluster_uid.clone(),
        };
        let editors = self.all_screens().filter_map(|(id, screen)| match screen {
            Screen::Edit(edit) => Some((of(id.cluster())?, edit.draft()?)),
            _ => None,
        });
        editors.collect()
    }
}
