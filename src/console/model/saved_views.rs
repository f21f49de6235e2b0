//! The restoration of screens: each is created from its saved state.
//!
//! The view of an object opens at once while the object is looked up: if it was deleted, or another has its name, a
//! message says so.

use std::time::Duration;

use jiff::Timestamp;

use super::{Job, Model};
use console_data::access::AccessQuery;
use console_data::context::ScreenId;
use console_data::message::{Message, ScreenMessage};
use console_data::resource::{ClusterId, Kind, ObjectRef, Uid};
use console_data::saved_tabs::{HOME, ObjectFate, SavedQuery, SavedScope, SavedScreen, SavedView};
use console_data::screen_dumps;
use console_operations::effect::{ConnectionRoute, Effect, FilesRoute, ImageScope, Route};
use console_screens::Screen;
use console_screens::connection::Connection;
use console_screens::contexts::Contexts;
use console_screens::drills::Drills;
use console_screens::edit::Edit;
use console_screens::journal::JournalScreen;
use console_screens::kinds::Kinds;
use console_screens::logs::Logs;
use console_screens::table::Table;
use console_screens::terminal::Terminal;
use console_toolkit::toast::Toast;

/// The timeout for the lookup of a view's object; the view itself reports data that it cannot get.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

impl Model {
    /// Returns the saved state of a screen; an error says why it is not restored.
    pub(super) fn view_of(&self, (id, screen): &(ScreenId, Screen)) -> Result<SavedView, &'static str> {
        let name = |cluster| self.saved_context(cluster).unwrap_or_else(|| HOME.to_owned());
        let view = screen.saved_view(name)?;
        Ok(SavedView { context: self.saved_context(id.cluster()), ..view })
    }

    /// Returns the saved state of a drain or terminal in the background, active or with a result; other background work
    /// ends with the console and reports that itself.
    pub(super) fn background_view(&self, screen: &(ScreenId, Screen)) -> Option<SavedView> {
        matches!(screen.1, Screen::Drain(_) | Screen::Terminal(_))
            .then(|| self.view_of(screen).ok())
            .flatten()
    }

    /// Opens a saved view. The view itself detects and reports an absent object; its identity is checked by a request.
    pub(super) fn open_saved(
        &mut self,
        view: SavedView,
        missing: &mut Vec<String>,
        now: Timestamp,
    ) -> Vec<Job> {
        let Some(cluster) = self.saved_cluster(&view, missing) else { return Vec::new() };
        let Some(screen) = self.restore_screen(&view, cluster, missing) else { return Vec::new() };
        self.in_cluster(cluster, |model| {
            let is_table = matches!(screen, Screen::Table(_));
            let mut jobs = model.open(screen, now);
            if !is_table {
                // An invalid search text is dropped.
                let _ = model.query(&view.filter, now);
            }
            let id = model.top().0;
            jobs.extend(model.verify_object_identity(id, view, now));
            jobs
        })
    }

    /// Creates the screen of a saved view, and reports missing parts.
    fn restore_screen(
        &mut self,
        view: &SavedView,
        cluster: ClusterId,
        missing: &mut Vec<String>,
    ) -> Option<Screen> {
        let needs = view.is_of_a_kind() || !view.plural.is_empty();
        let kind = if needs { Some(self.saved_kind(&view.group, &view.plural, missing)?) } else { None };
        let uid = view.uid.as_deref().map(Uid::from);
        if let SavedScreen::Table = view.screen {
            let kind = kind?;
            let (over, left_out) = self.clusters_of(&view.contexts);
            if over.is_empty() && !view.contexts.is_empty() {
                missing.push(format!("a table over {left_out} contexts"));
                return None;
            }
            let selected_in = view.selected_in.iter().cloned().collect::<Vec<_>>();
            let selected_in = self.clusters_of(&selected_in).0.first().copied();
            let selected_in = selected_in.filter(|cluster| over.contains(cluster));
            let of = match &view.only {
                SavedScope::Belonging(_, object) => {
                    let kind = self.saved_kind(&object.group, &object.plural, missing)?;
                    Some(named(kind, object.namespace.clone(), object.name.clone(), uid))
                }
                _ => None,
            };
            return Some(Table::restored(kind, of, over, selected_in, view.clone()).into());
        }
        if let SavedScreen::Drain(saved) = &view.screen {
            return self.restore_drain(&kind?, cluster, saved.clone(), missing).map(Into::into);
        }
        if view.is_of_an_object() {
            let (namespace, name) = view.object.clone()?;
            return object_screen(&view.screen, named(kind?, namespace, name, uid));
        }
        Some(match &view.screen {
            SavedScreen::Connection { source, destination } => {
                let connection = ConnectionRoute { source: source.clone(), destination: destination.clone() };
                Connection::restored(connection).into()
            }
            SavedScreen::Access(question) => Route::Access(restore_query(question.clone())).into(),
            SavedScreen::Tree => Route::Tree(kind).into(),
            SavedScreen::Topology => Route::Topology.into(),
            SavedScreen::Drills => Drills::default().into(),
            SavedScreen::Kinds => Kinds::default().into(),
            SavedScreen::Journal => JournalScreen::default().into(),
            SavedScreen::Contexts => {
                Contexts::new(self.setup.home.clone(), self.setup.context.clone()).into()
            }
            SavedScreen::Files(path) => Route::Files(FilesRoute { path: path.clone(), apply: false }).into(),
            SavedScreen::Images(node) => {
                Route::Images(node.clone().map_or(ImageScope::All, ImageScope::Node)).into()
            }
            SavedScreen::Dumps => {
                Route::Dumps(screen_dumps::directory(self.setup.config_dir.as_ref()?)).into()
            }
            _ => return None,
        })
    }

    /// Requests the object of a view to check its identity, if the stores do not have it.
    fn verify_object_identity(&mut self, id: ScreenId, view: SavedView, now: Timestamp) -> Vec<Job> {
        let Some(target) = self.object_of_view(&view) else { return Vec::new() };
        let stores = &self.shared.cluster.stores;
        if target.uid.as_ref().is_some_and(|uid| stores.object(&target.kind.resource, uid).is_some()) {
            return Vec::new();
        }
        let lookup = Effect::task("kept", move |out| async move {
            let api = target.api(out.client());
            let since = match tokio::time::timeout(LOOKUP_TIMEOUT, api.get_opt(&target.name)).await {
                Ok(Ok(Some(object))) => match object.metadata.uid.as_deref().map(Uid::from) {
                    Some(uid) if target.uid.as_ref() != Some(&uid) => ObjectFate::Is(uid),
                    _ => return,
                },
                Ok(Ok(None)) => ObjectFate::Deleted,
                // The view cannot read it either, and reports why.
                Ok(Err(_)) | Err(_) => return,
            };
            out.send(Message::SavedObject(id, Box::new((view, since)))).await;
        });
        self.apply(id, vec![lookup], now)
    }

    fn object_of_view(&self, view: &SavedView) -> Option<ObjectRef> {
        if matches!(view.screen, SavedScreen::Drain(_) | SavedScreen::Controller) {
            // A drain finds its nodes itself, and a controller is identified by its name.
            return None;
        }
        let mut unknown = Vec::new();
        let uid = view.uid.as_deref().map(Uid::from);
        match (&view.only, &view.object) {
            (SavedScope::Belonging(_, of), _) => {
                let kind = self.saved_kind(&of.group, &of.plural, &mut unknown)?;
                Some(named(kind, of.namespace.clone(), of.name.clone(), uid))
            }
            (_, Some((namespace, name))) if view.is_of_an_object() => {
                let kind = self.saved_kind(&view.group, &view.plural, &mut unknown)?;
                Some(named(kind, namespace.clone(), name.clone(), uid))
            }
            _ => None,
        }
    }

    /// Reports the fate of a restored view's object; the view shows the object that has its name now.
    pub(super) fn saved_object_resolved(
        &mut self,
        id: ScreenId,
        view: SavedView,
        since: ObjectFate,
        now: Timestamp,
    ) -> Vec<Job> {
        self.in_cluster(id.cluster(), |model| {
            let Some(object) = model.object_of_view(&view) else { return Vec::new() };
            let description = object.describe();
            let ObjectFate::Is(uid) = since else {
                model.toast(Toast::warning(format!("{description} was deleted since the last run")), now);
                return Vec::new();
            };
            if view.uid.is_some() {
                let text = format!("{description} was deleted and recreated since the last run");
                model.toast(Toast::warning(text), now);
            }
            let view = SavedView { uid: Some(uid.as_str().to_owned()), ..view };
            // An editor with input and a session that ended stay as they are.
            if matches!(view.screen, SavedScreen::Edit { .. } | SavedScreen::Terminal { .. }) {
                return Vec::new();
            }
            let Some(mut screen) = model.restore_screen(&view, id.cluster(), &mut Vec::new()) else {
                return Vec::new();
            };
            if !view.filter.is_empty() && !matches!(screen, Screen::Table(_)) {
                let cx = model.shared.context_of(id, now);
                // An invalid search text is dropped.
                let _ = screen.set_query(&cx, &view.filter);
            }
            let Some(place) = model.screen_mut(id) else { return Vec::new() };
            *place = screen;
            let mut jobs = vec![Job::Close(id)];
            jobs.extend(model.deliver(id, now, ScreenMessage::Opened));
            jobs
        })
    }
}

/// Creates the screen of a saved object view.
fn object_screen(saved: &SavedScreen, object: ObjectRef) -> Option<Screen> {
    Some(match saved.clone() {
        SavedScreen::Describe => Route::Describe(object).into(),
        SavedScreen::Yaml => Route::Yaml(object).into(),
        SavedScreen::Logs { previous, which } => Logs::restored(object, previous, which).into(),
        SavedScreen::Edit { unsaved } => Edit::restored(object, unsaved).into(),
        SavedScreen::Terminal { what, container } => Terminal::restored(object, what, container).into(),
        SavedScreen::Containers => Route::Containers(object).into(),
        SavedScreen::Rollout => Route::Rollout(object).into(),
        SavedScreen::Explain => Route::Explain(object).into(),
        SavedScreen::Pending => Route::Pending(object).into(),
        SavedScreen::Controller => Route::Controller(object).into(),
        SavedScreen::Versions => Route::Versions(object).into(),
        SavedScreen::Timeline => Route::Timeline(object).into(),
        _ => return None,
    })
}

fn named(kind: Kind, namespace: Option<String>, name: String, uid: Option<Uid>) -> ObjectRef {
    ObjectRef { namespace: namespace.filter(|_| kind.namespaced), kind, name, uid }
}

fn restore_query(saved: Option<SavedQuery>) -> AccessQuery {
    saved.map_or(AccessQuery::OwnRules, |SavedQuery { attributes, notes }| {
        AccessQuery::SubjectsWith(attributes, notes)
    })
}
