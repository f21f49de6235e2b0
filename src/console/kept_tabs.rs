//! The tabs of the last run, on disk: one JSON document in a file of its own for each cluster, for its owner alone,
//! beside the journal (CON-17).
//!
//! What is read is somebody's file, not ours: it is bounded, and what makes no sense in it is left out. A kind is found
//! again by its resource, an object by its name.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::query::Query;
use super::resource::Uid;

/// Bytes of a file at most; a longer one was not written by us.
const LONGEST: u64 = 256 << 10;
/// Clusters whose tabs are kept; those that were left long ago are forgotten.
const CLUSTERS: usize = 32;
/// Tabs, and views in each, that are taken from a file.
const TABS: usize = 9;
const VIEWS: usize = 8;
/// Bytes of a name or a filter.
const TEXT: usize = 1_024;

/// All tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTabs {
    /// The one in front, counted from nought.
    pub(crate) front: usize,
    /// In their order.
    pub(crate) tabs: Vec<KeptTab>,
}

/// One tab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptTab {
    /// The namespace; none is all.
    pub(crate) namespace: Option<String>,
    /// The tables above its overview, the top one last.
    pub(crate) views: Vec<KeptView>,
}

/// One table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptView {
    /// API group of its kind, empty for the core group.
    pub(crate) group: String,
    /// Its plural name in paths.
    pub(crate) plural: String,
    /// Which of them.
    #[serde(default)]
    pub(crate) only: KeptOnly,
    /// The filter.
    #[serde(default)]
    pub(crate) filter: String,
    /// The name of the column that it is sorted by; none is the object's name.
    #[serde(default)]
    pub(crate) sort: Option<String>,
    /// Whether the greatest comes first.
    #[serde(default)]
    pub(crate) descending: bool,
    /// Whether all columns are shown.
    #[serde(default)]
    pub(crate) wide: bool,
    /// Whether only what is not well is.
    #[serde(default)]
    pub(crate) faults: bool,
    /// Namespace and name of what is selected.
    #[serde(default)]
    pub(crate) selected: Option<(Option<String>, String)>,
}

/// Which objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeptOnly {
    /// All in scope.
    #[default]
    All,
    /// Pods on a node.
    OnNode(String),
    /// In one namespace, whatever the scope.
    In(String),
}

impl KeptTabs {
    /// Whether it is what every console begins with.
    fn is_nothing(&self) -> bool {
        self.tabs.len() < 2 && self.tabs.iter().all(|tab| tab.views.is_empty())
    }

    /// Without what makes no sense.
    fn bounded(mut self) -> Self {
        let short = |text: &str| text.len() <= TEXT;
        let sound = |view: &KeptView| {
            let only = match &view.only {
                KeptOnly::All => true,
                KeptOnly::OnNode(name) | KeptOnly::In(name) => short(name),
            };
            let selected = view
                .selected
                .as_ref()
                .is_none_or(|(namespace, name)| short(name) && namespace.as_deref().is_none_or(short));
            let named = short(&view.group) && short(&view.plural) && view.sort.as_deref().is_none_or(short);
            only && selected && named && short(&view.filter) && Query::parse(&view.filter).is_ok()
        };
        self.tabs.truncate(TABS);
        for tab in &mut self.tabs {
            tab.namespace = tab.namespace.take().filter(|name| short(name));
            tab.views.retain(sound);
            tab.views.truncate(VIEWS);
        }
        self.front = self.front.min(self.tabs.len().saturating_sub(1));
        self
    }
}

/// Where the tabs of a cluster are; the cluster is named by what no other has.
fn path(dir: &Path, cluster: &Uid) -> PathBuf {
    let name: String =
        cluster.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
    dir.join("tabs").join(format!("{name}.json"))
}

/// What was kept of a cluster; nothing where there is no file, or none that can be read: it is only comfort.
pub(crate) fn read(dir: &Path, cluster: &Uid) -> KeptTabs {
    let path = path(dir, cluster);
    // A pipe of that name must not hold the console.
    if !std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= LONGEST) {
        return KeptTabs::default();
    }
    let mut text = String::new();
    let read = std::fs::File::open(&path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    if read.is_err() {
        return KeptTabs::default();
    }
    match serde_json::from_str::<KeptTabs>(&text) {
        Ok(tabs) => tabs.bounded(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the tabs of the last run cannot be read");
            KeptTabs::default()
        }
    }
}

/// Keeps them; the file is whole at every moment, whoever else starts or stops a console.
pub(crate) fn write(dir: &Path, cluster: &Uid, tabs: &KeptTabs) -> std::io::Result<()> {
    let path = path(dir, cluster);
    if tabs.is_nothing() {
        return match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let place = dir.join("tabs");
    std::fs::create_dir_all(&place)?;
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    let written = file
        .write_all(&serde_json::to_vec(tabs)?)
        .and_then(|()| std::fs::rename(&beside, &path))
        .inspect_err(|_| drop(std::fs::remove_file(&beside)));
    forget_the_oldest(&place);
    written
}

/// A cluster that is made anew with each run must not fill the disk.
fn forget_the_oldest(place: &Path) {
    let Ok(all) = std::fs::read_dir(place) else { return };
    let mut all: Vec<_> = all
        .filter_map(Result::ok)
        .filter(|file| file.path().extension().is_some_and(|ending| ending == "json"))
        .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path())))
        .collect();
    all.sort_by(|(a, _), (b, _)| b.cmp(a));
    for (_, path) in all.into_iter().skip(CLUSTERS) {
        // Who cannot forget one keeps one more.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn view(plural: &str) -> KeptView {
        KeptView { plural: plural.to_owned(), filter: "web".to_owned(), ..KeptView::default() }
    }

    fn two() -> KeptTabs {
        let tab = |plural| KeptTab { namespace: Some("shop".into()), views: vec![view(plural)] };
        KeptTabs { front: 1, tabs: vec![tab("pods"), tab("nodes")] }
    }

    #[test]
    fn tabs_are_read_as_they_were_kept_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("../0c/ff-1");
        assert_eq!(read(dir.path(), &cluster), KeptTabs::default());
        write(dir.path(), &cluster, &two()).unwrap();
        assert_eq!(read(dir.path(), &cluster), two());
        let file = dir.path().join("tabs/0cff-1.json");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(dir.path(), &Uid::from("other")), KeptTabs::default(), "another cluster has its own");
        // What every console begins with needs no file.
        write(dir.path(), &cluster, &KeptTabs { front: 0, tabs: vec![KeptTab::default()] }).unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("tabs")).unwrap().count(), 0, "nothing is left");
        for n in 0..CLUSTERS + 5 {
            write(dir.path(), &Uid::from(format!("c{n}").as_str()), &two()).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path().join("tabs")).unwrap().count(), CLUSTERS);
    }

    #[test]
    fn what_is_not_ours_is_left_out_con_17() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Uid::from("c");
        let place = dir.path().join("tabs");
        std::fs::create_dir_all(&place).unwrap();
        let file = place.join("c.json");
        for text in ["", "{ half", "[]", "{\"front\": -1, \"tabs\": []}", "\u{0}", &"[".repeat(100_000)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read(dir.path(), &cluster), KeptTabs::default(), "{text:.20}");
        }
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(read(dir.path(), &cluster), KeptTabs::default());
        std::fs::write(&file, " ".repeat(LONGEST as usize + 1)).unwrap();
        assert_eq!(read(dir.path(), &cluster), KeptTabs::default());
        let mut many = two();
        many.front = 700;
        many.tabs[0].views = vec![view("pods"); 50];
        many.tabs[0].views[0].filter = "web(".to_owned();
        many.tabs[0].views[1].plural = "x".repeat(TEXT + 1);
        many.tabs[1].namespace = Some("n".repeat(TEXT + 1));
        many.tabs.resize(40, KeptTab::default());
        std::fs::write(&file, serde_json::to_vec(&many).unwrap()).unwrap();
        let read = read(dir.path(), &cluster);
        assert_eq!((read.tabs.len(), read.front), (TABS, TABS - 1));
        assert_eq!(read.tabs[0].views, vec![view("pods"); VIEWS]);
        assert_eq!(read.tabs[1].namespace, None);
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(write(dir.path(), &cluster, &two()).is_err());
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1, "nothing else is left behind");
    }
}
