//! The effect of each message on the model.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};

use super::{Job, Model};
use console_data::clusters::ConnectionState;
use console_data::message::{Message, ScreenMessage};
use console_data::resource::{ClusterId, ResourceKey};
use console_data::store::{BatchResult, TouchedObjects};
use console_operations::operations::node_shell::leftover_notice;
use console_toolkit::text::clean;
use console_toolkit::toast::Toast;

/// Events older than this are not announced: the first list has the events of earlier drills.
const MAX_EVENT_AGE: SignedDuration = SignedDuration::from_secs(30);
/// The number of announced drill ends that are remembered.
const ANNOUNCED: usize = 32;

impl Model {
    /// Handles a message.
    pub fn update(&mut self, message: Message, now: Timestamp) -> Vec<Job> {
        self.last_message_at = now;
        self.shared.cluster.stores.tidy();
        // Updating the selection after each of thousands of changes would cost more than the changes; a moment later is
        // soon enough.
        let selects = match &message {
            Message::Feed(_) => false,
            Message::On(_, message) => !matches!(**message, Message::Feed(_)),
            _ => true,
        };
        let mut jobs = self.execute_answer(now);
        jobs.extend(self.take(message, now));
        self.advance_tour();
        if selects {
            jobs.extend(self.follow_the_selection(now));
        }
        jobs.extend(self.sync_table_watches());
        jobs.extend(self.poll_metrics());
        if selects {
            jobs.extend(self.join_visible_clusters());
            jobs.extend(self.keep_changed_tabs());
        }
        jobs.into_iter()
            .map(|job| match job {
                Job::On(ClusterId::HOME, job) => *job,
                job => job,
            })
            .collect()
    }

    pub(super) fn take(&mut self, message: Message, now: Timestamp) -> Vec<Job> {
        match message {
            Message::Feed(delta) => {
                // A watch that was just stopped may have sent a change before.
                if !self.is_subscribed(&delta.resource) {
                    return Vec::new();
                }
                let BatchResult { resource, touched, shows } = self.shared.cluster.stores.apply(delta);
                self.dirty |= self.shared.cluster.links.mark_up(&resource);
                let mut jobs = Vec::new();
                if resource == ResourceKey::of::<Namespace>() {
                    self.learn_namespaces();
                    jobs.extend(self.learn_cluster());
                }
                // Heartbeats of hundreds of nodes change nothing on the screen.
                self.dirty |= shows;
                // Leftover pods are known only after the last page.
                if resource == ResourceKey::of::<Pod>()
                    && self.shared.front == ClusterId::HOME
                    && self.shared.cluster.stores.pods().synced()
                    && !std::mem::replace(&mut self.looked_for_leftovers, true)
                    && let Some(word) = leftover_notice(&self.shared.cluster.stores)
                {
                    self.toast(Toast::warning(word), now);
                }
                if resource == ResourceKey::of::<Event>() {
                    let changed = || ScreenMessage::Changed(resource.clone(), touched.clone());
                    jobs.extend(self.deliver_to_hidden_roots(now, changed));
                    self.announce_drills(&touched, now);
                }
                jobs.extend(self.deliver_changes(&resource, &touched, now));
                return jobs;
            }
            Message::Key(key) => return self.key(key, now),
            Message::Paste(text) => return self.paste(&text, now),
            Message::Mouse(event) => {
                if self.dialog.is_none() && self.prompt.is_none() && !self.shared.cramped.get() {
                    self.dirty = true;
                    return self.mouse(event, now);
                }
            }
            Message::Resize(..) | Message::Tick => self.dirty = true,
            Message::Work => {
                let jobs = self.deliver_to_visible(now, || ScreenMessage::Work);
                self.dirty |= !self.works();
                return jobs;
            }
            // A released watch may have sent a message before.
            Message::Link(_) | Message::Catalogue(_)
                if self.shared.cluster.connection == ConnectionState::Idle => {}
            Message::Link(link) => {
                let resource = link.resource().clone();
                if self.shared.cluster.links.take(link, now) {
                    self.dirty = true;
                    // A table of several kinds waits for each kind that can be listed.
                    return self.deliver_changes(&resource, &TouchedObjects::Some(Vec::new()), now);
                }
            }
            Message::Usage(used) => {
                if self.shared.cluster.stores.set_node_usage(used) {
                    self.dirty = true;
                    return self.deliver_changes(&ResourceKey::of::<Node>(), &TouchedObjects::Usage, now);
                }
            }
            Message::PodUsage(used) => {
                if self.shared.cluster.stores.measure_pods(used) {
                    self.dirty = true;
                    return self.deliver_changes(&ResourceKey::of::<Pod>(), &TouchedObjects::Usage, now);
                }
            }
            Message::Catalogue(catalogue) => {
                self.shared.cluster.catalogue = catalogue;
                self.dirty = true;
                let mut jobs = self.notify_multi_cluster_tables(now);
                jobs.extend(self.in_cluster(ClusterId::HOME, |model| {
                    let mut jobs = model.restore_when_ready(now);
                    jobs.extend(model.run_pending(now));
                    jobs
                }));
                return jobs;
            }
            Message::Data(id, data) => {
                self.dirty = true;
                return self.deliver(id, now, ScreenMessage::Data(data));
            }
            Message::DialogData(id, data) => self.deliver_to_dialog(id, data),
            Message::ActionEnded(outcome) => {
                let toast = match &outcome.error {
                    None if outcome.action.quiet => None,
                    None => Some(Toast::done(self.title_with_cluster(&outcome.action.title))),
                    Some(error) => Some(Toast::failed(format!(
                        "{}: {error}",
                        self.title_with_cluster(&outcome.action.title)
                    ))),
                };
                let mut outcome = *outcome;
                self.name_context(&mut outcome.action);
                let line = self.shared.cluster.journal.record(now, outcome);
                let journal_job = self.keep_journal(line);
                if let Some(toast) = toast {
                    self.toast(toast, now);
                }
                self.dirty = true;
                return journal_job.into_iter().collect();
            }
            Message::Journal(earlier) => {
                self.shared.cluster.journal.recall(earlier);
                self.dirty = true;
            }
            Message::Extensions(extensions) => {
                for error in extensions.errors() {
                    self.toast(Toast::failed(clean(error).into_owned()), now);
                }
                self.shared.extensions = extensions;
                self.dirty = true;
                return self.deliver_to_visible(now, || ScreenMessage::ColumnsChanged);
            }
            Message::Identity(identity) => self.identity = *identity,
            Message::SavedTabs(saved) => return self.tabs_were_read(saved, now),
            Message::TabsInUse => self.tabs_are_in_use(now),
            Message::Draft(id, draft) => return self.draft_was_read(id, *draft, now),
            Message::Drafts(drafts) => self.announce_drafts(drafts, now),
            Message::SavedObject(id, saved) => {
                let (view, since) = *saved;
                return self.saved_object_resolved(id, view, since, now);
            }
            Message::Connected(connected) => return vec![Job::SwitchCluster(connected)],
            Message::On(cluster, message) => {
                return self.in_cluster(cluster, |model| model.take(*message, now));
            }
            Message::Joined(joined) => {
                let (connected, identity) = *joined;
                return self.handle_joined(connected, identity, now);
            }
            Message::Unreachable { reason: why, retry_at } => {
                self.handle_join_failure(why, retry_at, now);
                return self.in_cluster(ClusterId::HOME, |model| model.run_pending(now));
            }
            Message::Contexts(contexts) => {
                self.contexts = Some(contexts);
                self.refresh_suggestions();
            }
            Message::Toast(toast) => self.toast(toast, now),
            Message::Stopping(text) => {
                self.stopping = Some(text);
                self.dirty = true;
            }
        }
        Vec::new()
    }

    /// Announces the end of a drill, regardless of the present view.
    fn announce_drills(&mut self, touched: &TouchedObjects, now: Timestamp) {
        let TouchedObjects::Some(uids) = touched else { return };
        let mut news = Vec::new();
        for uid in uids {
            let Some(event) = self.shared.cluster.stores.events().entry(uid) else { continue };
            let seen = &event.open().summary;
            let is_news = seen.last_seen.is_some_and(|at| now.duration_since(at) < MAX_EVENT_AGE);
            let is_drill = seen.about_kind.as_deref() == Some("Scenario");
            if is_news && is_drill && !self.announced.contains(uid) {
                let toast = match &*seen.reason {
                    "ScenarioPassed" => Toast::done(format!("drill passed: {}", clean(&seen.message))),
                    "ScenarioFailed" => Toast::failed(format!("drill failed: {}", clean(&seen.message))),
                    _ => continue,
                };
                news.push((uid.clone(), toast));
            }
        }
        for (uid, toast) in news {
            self.announced.push_back(uid);
            if self.announced.len() > ANNOUNCED {
                self.announced.pop_front();
            }
            self.toast(toast, now);
        }
    }
}
