//! Dispatches the model's jobs, including files and the user's editor.

use std::path::PathBuf;

use tokio::sync::mpsc;

use super::{LoopControl, Shell};
use crate::console_state::ConsoleState;
use crate::display::Display;
use crate::model::{DiskJob, Job};
use crate::terminal;
use console_data::context::ScreenId;
use console_data::message::{Data, FileEdited, Message};
use console_data::resource::Uid;
use console_data::saved_tabs::SavedTabs;
use console_data::screen_dumps;
use console_operations::effect::Task;
use console_screens::edit;
use console_screens::forwards::LISTENING;
use console_screens::terminal::SESSION;
use console_toolkit::toast::Toast;

impl Shell {
    pub(super) async fn job(&mut self, job: Job) -> anyhow::Result<LoopControl> {
        match job {
            Job::On(cluster, job) => {
                match (&self.recorder, &*job) {
                    (Some(recorder), Job::Join(name)) => recorder.joins(cluster, name.as_deref()),
                    (_, Job::Start(task)) => self.note_the_start(task),
                    _ => {}
                }
                self.joined.job(cluster, *job);
            }
            // These concern other clusters only.
            Job::Join(_) | Job::Attach(_) | Job::Need(_) | Job::Release => {}
            Job::Start(task) => {
                self.note_the_start(&task);
                self.runner.start(task);
            }
            Job::Cancel(screen, slot) => self.runner.cancel(screen, slot),
            Job::Close(screen) => {
                self.runner.close(screen);
                self.joined.close(screen);
            }
            Job::Act(action) => self.runner.act(*action),
            Job::Run(run) => self.runner.run(*run),
            Job::Copy(text) => terminal::copy(&text)?,
            Job::Save(name, text) => self.save(&name, &text).await,
            Job::Editor(screen, text) => self.editor(screen, text).await?,
            Job::EditFile(screen, path) => self.edit_file(screen, path).await?,
            Job::SaveState(memory) => self.remember(memory).await,
            Job::Watch(kind, namespace, include) => {
                if let Some(feed) = &mut self.feed {
                    feed.watch(kind, namespace, include);
                }
            }
            Job::Disk(_, DiskJob::ReadTabs) if self.fresh => {
                let message = Message::SavedTabs(SavedTabs::default());
                self.model.update(message, self.clock.now());
            }
            Job::Disk(cluster, job) => self.enqueue(cluster, job),
            Job::ReadContexts => self.read_contexts(),
            Job::MeasurePods(is_enabled) => {
                if let Some(feed) = &mut self.feed {
                    feed.measure_pods(is_enabled);
                }
            }
            Job::Unwatch(resource) => {
                if let Some(feed) = &mut self.feed {
                    feed.unwatch(&resource);
                }
            }
            Job::ListContexts(screen) => self.list_contexts(screen),
            Job::Connect(None) => Box::pin(self.adopt(self.home.clone())).await?,
            Job::Connect(Some(name)) => self.connect(name),
            Job::SwitchCluster(connected) => Box::pin(self.adopt(*connected)).await?,
            Job::Redraw => {
                self.stale = true;
                if let Display::Read(reader, _) = &mut self.display {
                    reader.read_whole_view();
                }
                self.model.dirty = true;
                if let Some(feed) = &mut self.feed {
                    feed.retry();
                }
                self.joined.retry();
            }
            Job::Quit => {
                self.leaving = true;
                // Objects created for screens must be removed while the clusters can still be reached.
                self.runner.end_detached_tasks();
                self.joined.end_lasting();
                let Some(quit_requests) = &self.quit_requested else { return Ok(LoopControl::Exit) };
                // A full channel means that the caller has not handled the last request yet.
                if let Err(mpsc::error::TrySendError::Closed(())) = quit_requests.try_send(()) {
                    return Ok(LoopControl::Exit);
                }
                self.model.stopping.get_or_insert_with(|| "stopping all pods…".into());
                self.model.dirty = true;
            }
        }
        Ok(LoopControl::Continue)
    }

    /// Records the start of the tasks whose data does not come from API requests: terminals and port-forwards.
    fn note_the_start(&self, task: &Task) {
        match (&self.recorder, task.slot()) {
            (Some(recorder), SESSION) => recorder.terminal_begins(task.screen),
            (Some(recorder), LISTENING) => recorder.forwards_begin(task.screen),
            _ => {}
        }
    }

    /// Saves the tabs and unsaved texts when their cluster is left.
    pub(super) fn keep_tabs(&mut self) {
        self.model.is_leaving = true;
        for (cluster, draft) in self.model.unsaved_drafts() {
            self.enqueue(cluster, DiskJob::SaveDraft(Box::new(draft)));
        }
        if let Some((cluster, tabs)) = self.model.saved_tabs() {
            self.enqueue(cluster, DiskJob::SaveTabs(tabs));
        }
    }

    fn enqueue(&mut self, cluster: Uid, job: DiskJob) {
        if let Some(Err(toast)) = self.disk_writer.as_ref().map(|writer| writer.enqueue(cluster, job)) {
            self.model.update(Message::Toast(toast), self.clock.now());
        }
    }

    async fn save(&mut self, name: &str, text: &str) {
        let name: String = name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
        let saved_dir = self.model.setup.config_dir.as_deref().map(screen_dumps::directory);
        // A file without a directory is below the current directory too.
        let dir = saved_dir.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
        let made = match saved_dir {
            Some(saved_dir) => screen_dumps::make_directory(&saved_dir).await,
            None => Ok(()),
        };
        let saved = match made {
            Ok(()) => screen_dumps::write_new(&dir, &name, text).await,
            Err(error) => Err(error),
        };
        let toast = match saved {
            Ok(path) => Toast::done(format!("saved {}", path.display())),
            Err(error) => Toast::failed(format!("{}: {error}", dir.join(name).display())),
        };
        let now = self.clock.now();
        self.model.update(Message::Toast(toast), now);
    }

    async fn remember(&mut self, memory: ConsoleState) {
        let Some(dir) = self.model.setup.config_dir.clone() else { return };
        let place = dir.display().to_string();
        let written = base::task::blocking(move || memory.write(&dir)).await;
        if let Ok(Err(error)) = written {
            let toast =
                Toast::info(format!("cannot save the selected theme for the next run: {place}: {error}"));
            self.model.update(Message::Toast(toast), self.clock.now());
        }
    }

    /// Lends the terminal to an editor on a file; the screen is informed when it exits, with any status.
    async fn edit_file(&mut self, screen: ScreenId, path: PathBuf) -> anyhow::Result<()> {
        let edited = self.guard.lend(self.job_control.during(edit::external::open(&path))).await?;
        self.stale = true;
        self.model.dirty = true;
        let now = self.clock.now();
        if let Err(error) = edited {
            self.model.update(Message::Toast(Toast::failed(error)), now);
        }
        let jobs = self.model.update(Message::Data(screen, Data::new(FileEdited(path))), now);
        for job in jobs {
            if !matches!(job, Job::Editor(..) | Job::EditFile(..)) {
                // An edited text does not quit the console.
                let _ = Box::pin(self.job(job)).await?;
            }
        }
        Ok(())
    }

    async fn editor(&mut self, screen: ScreenId, text: String) -> anyhow::Result<()> {
        let edited = self.guard.lend(self.job_control.during(edit::external::run(text))).await?;
        self.stale = true;
        self.model.dirty = true;
        let message = match edited {
            Ok(text) => Message::Data(screen, Data::new(edit::EditData::External(text))),
            Err(error) => Message::Toast(Toast::failed(error)),
        };
        let now = self.clock.now();
        let jobs = self.model.update(message, now);
        for job in jobs {
            if !matches!(job, Job::Editor(..)) {
                // An edited text does not quit the console.
                let _ = Box::pin(self.job(job)).await?;
            }
        }
        Ok(())
    }
}
