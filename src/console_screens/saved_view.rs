//! The saved state of each screen, from which the next run restores it, or the reason why it is not restored (CON-17).
//!
//! Each new screen type must be listed here; the compiler enforces it.

use super::Screen;
use console_data::access::AccessQuery;
use console_data::resource::{ClusterId, ObjectRef};
use console_data::saved_tabs::{SavedQuery, SavedScreen, SavedView};
use console_operations::effect::ConnectionRoute;

impl Screen {
    /// Returns the saved state of the screen; an error says why it is not restored. `context_of` returns the context
    /// by which a cluster is found again.
    pub fn saved_view(&self, context_of: impl Fn(ClusterId) -> String) -> Result<SavedView, &'static str> {
        let of = |target: &ObjectRef, saved: SavedScreen| SavedView {
            screen: saved,
            filter: self.query().unwrap_or_default().to_owned(),
            ..SavedView::of_object(target)
        };
        let plain = |saved: SavedScreen| SavedView {
            screen: saved,
            filter: self.query().unwrap_or_default().to_owned(),
            ..SavedView::default()
        };
        Ok(match self {
            Self::Table(table) => {
                let contexts = table.over().unwrap_or_default().iter().copied().map(&context_of).collect();
                let selected_in = table.cluster_to_keep().map(&context_of);
                SavedView { contexts, selected_in, ..table.keep() }
            }
            Self::Describe(describe) => of(describe.target(), SavedScreen::Describe),
            Self::Yaml(yaml) => of(yaml.target(), SavedScreen::Yaml),
            Self::Logs(logs) => of(logs.target(), logs.keep()?),
            Self::Edit(edit) => of(edit.target(), edit.keep()),
            Self::Terminal(terminal) => of(
                terminal.target(),
                terminal
                    .keep()
                    .ok_or("its session has ended, or its pod is removed when the console ends")?,
            ),
            Self::Drain(drain) => {
                // A drain finds its nodes by name, so it needs no uid.
                let target = drain.target().ok_or("it has no node")?;
                SavedView { uid: None, ..of(target, SavedScreen::Drain(drain.keep())) }
            }
            Self::Containers(containers) => of(containers.target(), SavedScreen::Containers),
            Self::Rollout(rollout) => of(rollout.target(), SavedScreen::Rollout),
            Self::Explain(explain) => of(explain.target(), SavedScreen::Explain),
            Self::Pending(pending) => of(pending.target(), SavedScreen::Pending),
            // A controller is identified by its name; its object is new after each start of the control plane.
            Self::Controller(controller) => {
                SavedView { uid: None, ..of(controller.target(), SavedScreen::Controller) }
            }
            Self::Versions(versions) => of(versions.target(), SavedScreen::Versions),
            Self::Timeline(timeline) => of(timeline.target(), SavedScreen::Timeline),
            Self::Connection(connection) => {
                let ConnectionRoute { source, destination } = connection.connection().clone();
                plain(SavedScreen::Connection { source, destination })
            }
            Self::Access(access) => plain(SavedScreen::Access(keep_question(access.question()))),
            Self::Tree(tree) => {
                let resource = tree.kind().map(|kind| &kind.resource);
                SavedView {
                    group: resource.map(|resource| resource.group.to_string()).unwrap_or_default(),
                    plural: resource.map(|resource| resource.plural.to_string()).unwrap_or_default(),
                    ..plain(SavedScreen::Tree)
                }
            }
            Self::Images(images) => plain(SavedScreen::Images(images.keep()?)),
            Self::ImageText(_) => {
                return Err("its image may be removed by then; the list of images is restored");
            }
            Self::Topology(_) => plain(SavedScreen::Topology),
            Self::Drills(_) => plain(SavedScreen::Drills),
            Self::Kinds(_) => plain(SavedScreen::Kinds),
            Self::Journal(_) => plain(SavedScreen::Journal),
            Self::Contexts(_) => plain(SavedScreen::Contexts),
            Self::Files(files) => plain(SavedScreen::Files(files.directory().to_owned())),
            Self::Dumps(_) => plain(SavedScreen::Dumps),
            Self::DumpText(_) => {
                return Err("its file may be removed by then; the list of files is restored");
            }
            Self::Transfer(_) => return Err("a copy ends with the console and is not started again"),
            Self::Overview(_) => return Err("every tab starts with an overview"),
            Self::Help(_) => return Err("it lists the keys of the screen below it"),
            Self::Forwards(_) => {
                return Err("port-forwards end with the console and are not opened again");
            }
            #[cfg(any(test, feature = "fixtures"))]
            Self::Faulty(_) => return Err("it panics"),
        })
    }
}

fn keep_question(question: &AccessQuery) -> Option<SavedQuery> {
    let AccessQuery::SubjectsWith(attributes, notes) = question else { return None };
    Some(SavedQuery { attributes: attributes.clone(), notes: notes.clone() })
}
