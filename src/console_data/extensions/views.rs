//! `views.yaml`: the user's columns of a kind, in k9s' format.
//!
//! ```yaml
//! views:
//!   v1/pods:                    # group/version/plural, or any word that names the kind
//!     sortColumn: AGE:desc
//!     columns: [NAME, "APP:.metadata.labels.app", "SINCE:.status.startTime|TR", IP|W]
//!   v1/pods@kube-.*:            # in namespaces that match
//!     columns: [NAME, AGE]
//! ```
//!
//! A column is `NAME`, a JSONPath to its text (see [`object::json_path`]) or, as in k9s since 0.50, a jq expression (see
//! [`crate::jq`]; recognized by a bar), and attributes behind a bar: `T` a time, `N` a number, `W` in wide mode only,
//! `S` always, `H` never (but it can be the sort column), `L` and `R` the alignment.

use manifest::{ConfigText, ManifestError};
use object::json_path::{Dialect, JsonPath};
use regex::Regex;
use serde::Deserialize;

use crate::catalogue::Catalogue;
use crate::jq::Jq;
use crate::resource::Kind;

/// The maximum number of columns in a view.
const COLUMNS: usize = 64;
/// The maximum number of views in a file.
const VIEWS: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Setting {
    #[serde(default)]
    columns: Vec<String>,
    sort_column: Option<String>,
}

/// The columns of a kind, in all or some namespaces.
#[derive(Clone, Debug)]
pub struct CustomView {
    /// The key in the file.
    key: String,
    pub(super) kind_name: String,
    /// The namespaces; `None` for all.
    namespaces: Option<Regex>,
    /// The columns in order.
    pub(crate) columns: Vec<CustomColumn>,
    /// The initial sort column and direction.
    pub(crate) sort: Option<(String, Order)>,
}

/// The direction of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The smallest first.
    Ascending,
    /// The largest first.
    Descending,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CustomColumn {
    /// The heading; without a path, the name of one of the kind's own columns.
    pub(crate) name: String,
    /// Extracts the text.
    pub(crate) path: Option<ColumnSource>,
    pub(crate) attributes: Attributes,
    /// `FILE:LINE`.
    pub(crate) location: String,
}

/// Extracts the text of a column from an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnSource {
    /// A JSONPath.
    Path(JsonPath),
    /// A jq expression.
    Jq(Jq),
}

impl ColumnSource {
    /// Reports whether the column reads only the object's metadata.
    pub(crate) fn is_of_metadata(&self) -> bool {
        matches!(self, Self::Path(path) if path.is_of_metadata())
    }
}

/// The attributes of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// `T`: a time, shown as an age.
    pub(crate) time: bool,
    /// `N`: a number or a quantity, and sorted as one.
    pub(crate) number: bool,
    /// `W`, `S` or `H`; `None` for the visibility of the kind's own column.
    pub(crate) visibility: Option<CustomVisibility>,
    /// `L` or `R`; `None` for the alignment of the kind's own column.
    pub(crate) side: Option<ColumnAlignment>,
}

/// The visibility of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CustomVisibility {
    Always,
    /// In wide mode.
    Wide,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnAlignment {
    Left,
    Right,
}

impl CustomView {
    /// Reports whether another view has the same key.
    pub(super) fn has_same_key(&self, other: &Self) -> bool {
        self.key == other.key
    }

    /// Reports whether the view applies to this kind.
    fn is_of(&self, kind: &Kind, catalogue: &Catalogue) -> bool {
        let found = catalogue.find_resource(&self.kind_name);
        found.is_some_and(|found| found.resource == kind.resource)
    }

    /// Reports whether the view applies to this namespace; `None` stands for all namespaces.
    fn is_for(&self, namespace: Option<&str>) -> bool {
        self.namespaces.as_ref().is_none_or(|regex| regex.is_match(namespace.unwrap_or_default()))
    }

    /// Reports whether one of the view's columns needs more than an object's metadata.
    pub(crate) fn reads_whole_objects(&self) -> bool {
        self.columns.iter().filter_map(|column| column.path.as_ref()).any(|path| !path.is_of_metadata())
    }
}

/// Finds the view of a kind in a namespace, or in all namespaces. As in k9s, a view for the namespace takes precedence
/// over a view for all.
pub(super) fn find<'a>(
    views: &'a [CustomView],
    catalogue: &Catalogue,
    kind: &Kind,
    namespace: Option<&str>,
) -> Option<&'a CustomView> {
    let fits = |view: &&CustomView| view.is_for(namespace) && view.is_of(kind, catalogue);
    views.iter().filter(fits).max_by_key(|view| (view.namespaces.is_some(), &view.key))
}

/// Reports whether some view of a kind, for any namespace, needs more than an object's metadata.
pub(super) fn reads_whole_objects(views: &[CustomView], catalogue: &Catalogue, kind: &Kind) -> bool {
    views.iter().any(|view| view.reads_whole_objects() && view.is_of(kind, catalogue))
}

/// Parses a file; an invalid view does not hide the others.
pub(super) fn parse(text: &str, file: &str) -> (Vec<CustomView>, Vec<ManifestError>) {
    let text = match ConfigText::parse(text, file) {
        Ok(text) => text,
        Err(error) => return (Vec::new(), vec![error]),
    };
    let (settings, mut errors) = text.decode_entries::<Setting>(Some("views"));
    if settings.len() > VIEWS {
        return (Vec::new(), vec![text.fault("views", format!("more than {VIEWS} views"))]);
    }
    let mut views = Vec::new();
    for (key, setting) in settings {
        match view(&text, file, key, &setting) {
            Ok(view) => views.push(view),
            Err(error) => errors.push(error),
        }
    }
    (views, errors)
}

fn view(text: &ConfigText, file: &str, key: String, setting: &Setting) -> Result<CustomView, ManifestError> {
    let place = format!("views.{key}");
    let (word, namespaces) = match key.split_once('@') {
        Some((word, regex)) => {
            let regex = Regex::new(regex).map_err(|_| {
                text.fault(&place, format!("invalid regular expression for namespaces: {regex:?}"))
            })?;
            (word.to_owned(), Some(regex))
        }
        None => (key.clone(), None),
    };
    if setting.columns.len() > COLUMNS {
        return Err(text.fault(&format!("{place}.columns"), format!("more than {COLUMNS} columns")));
    }
    let mut columns = Vec::new();
    for (index, spec) in setting.columns.iter().enumerate() {
        let field = format!("{place}.columns[{index}]");
        let fault = |reason: String| text.fault(&field, reason);
        let line = fault(String::new()).position.map_or(1, |position| position.line);
        columns.push(column(spec, format!("{file}:{line}")).map_err(fault)?);
    }
    let sort = setting.sort_column.as_deref().map(|sort| {
        let order = match sort.rsplit_once(':') {
            Some((name, "asc")) => Some((name, Order::Ascending)),
            Some((name, "desc")) => Some((name, Order::Descending)),
            _ => None,
        };
        order.map(|(name, order)| (name.to_owned(), order)).ok_or_else(|| {
            text.fault(&format!("{place}.sortColumn"), format!("{sort:?} is not NAME:asc or NAME:desc"))
        })
    });
    Ok(CustomView { key, kind_name: word, namespaces, columns, sort: sort.transpose()? })
}

/// Parses `NAME`, `NAME:PATH`, `NAME:EXPRESSION`, each with optional `|ATTRIBUTES`.
fn column(spec: &str, place: String) -> Result<CustomColumn, String> {
    let (front, attributes) = match spec.rsplit_once('|') {
        Some((front, last)) if last.chars().all(|c| c.is_ascii_uppercase()) => (front, attributes(last)?),
        _ => (spec, Attributes::default()),
    };
    let (name, path) = match front.split_once(':') {
        Some((name, path)) => (name, Some(path.trim()).filter(|path| !path.is_empty())),
        None => (front, None),
    };
    let known = |c: char| c.is_alphanumeric() || matches!(c, '_' | ' ' | '%' | '/' | '-');
    if name.trim().is_empty() || !name.chars().all(known) {
        return Err(format!("{spec:?} is not NAME, NAME:.path or NAME:.path|ATTRIBUTES"));
    }
    let path = path.map(|path| {
        if path.contains('|') {
            let jq = Jq::parse(path).map_err(|why| format!("invalid jq expression {path:?}: {why}"));
            return jq.map(ColumnSource::Jq);
        }
        JsonPath::parse(path, Dialect::Columns)
            .map(ColumnSource::Path)
            .map_err(|why| format!("invalid path {path:?}: {why}"))
    });
    Ok(CustomColumn { name: name.trim().to_owned(), path: path.transpose()?, attributes, location: place })
}

fn attributes(letters: &str) -> Result<Attributes, String> {
    let mut attributes = Attributes::default();
    for letter in letters.chars() {
        match letter {
            'T' => attributes.time = true,
            'N' => attributes.number = true,
            'W' => attributes.visibility = Some(CustomVisibility::Wide),
            'S' => attributes.visibility = Some(CustomVisibility::Always),
            'H' => attributes.visibility = Some(CustomVisibility::Never),
            'L' => attributes.side = Some(ColumnAlignment::Left),
            'R' => attributes.side = Some(ColumnAlignment::Right),
            other => return Err(format!("no attribute {other:?}; attributes are T, N, W, S, H, L, R")),
        }
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_read_as_k9s_reads_them_con_16() {
        for (spec, name, has_path, expected) in [
            ("NAME", "NAME", false, Attributes::default()),
            (
                "NAMESPACE|WR",
                "NAMESPACE",
                false,
                Attributes {
                    visibility: Some(CustomVisibility::Wide),
                    side: Some(ColumnAlignment::Right),
                    ..Attributes::default()
                },
            ),
            (r"ZORG:.metadata.labels.fred\.io\.kubernetes\.blee", "ZORG", true, Attributes::default()),
            (
                "BLEE:.metadata.annotations.blee|R",
                "BLEE",
                true,
                Attributes { side: Some(ColumnAlignment::Right), ..Attributes::default() },
            ),
            (
                "MEM/RL|S",
                "MEM/RL",
                false,
                Attributes { visibility: Some(CustomVisibility::Always), ..Attributes::default() },
            ),
            ("%MEM/R|", "%MEM/R", false, Attributes::default()),
            ("NOMINATED NODE", "NOMINATED NODE", false, Attributes::default()),
            (
                "IMG-VERSION:.spec.containers[0].image|split(\":\")|.[-1]|R",
                "IMG-VERSION",
                true,
                Attributes { side: Some(ColumnAlignment::Right), ..Attributes::default() },
            ),
            (
                "SINCE:{.status.startTime}|T",
                "SINCE",
                true,
                Attributes { time: true, ..Attributes::default() },
            ),
        ] {
            let column = column(spec, String::new()).expect(spec);
            assert_eq!((column.name.as_str(), column.path.is_some()), (name, has_path), "{spec}");
            assert_eq!(column.attributes, expected, "{spec}");
        }
    }

    #[test]
    fn errors_in_plugins_name_file_line_and_key_con_16() {
        for (text, error) in [
            (
                "views:\n  pods:\n    colums: []\n",
                "v.yaml:3:5: views.pods.colums: unknown field \"colums\", did you mean columns?",
            ),
            ("view: {}\n", "v.yaml:1:1: view: unknown field \"view\", did you mean views?"),
            (
                "views:\n  pods:\n    columns: NAME\n",
                "v.yaml:3:5: views.pods.columns: invalid type: string \"NAME\", expected a sequence",
            ),
            (
                "views:\n  pods:\n    columns:\n    - NAME\n    - X|Q\n",
                "v.yaml:5:7: views.pods.columns[1]: no attribute 'Q'; attributes are T, N, W, S, H, L, R",
            ),
            (
                "views:\n  pods:\n    columns:\n    - X:.a[\n",
                "v.yaml:4:7: views.pods.columns[0]: invalid path \".a[\": character 4: expected a number, a key in quotes, * or ?( in the bracket",
            ),
            (
                "views:\n  pods:\n    columns:\n    - X:.a | frob | .c\n",
                "v.yaml:4:7: views.pods.columns[0]: invalid jq expression \".a | frob | .c\": no function frob with 0 arguments",
            ),
            (
                "views:\n  pods:\n    sortColumn: AGE\n    columns: [AGE]\n",
                "v.yaml:3:5: views.pods.sortColumn: \"AGE\" is not NAME:asc or NAME:desc",
            ),
            (
                "views:\n  pods@(:\n    columns: [AGE]\n",
                "v.yaml:2:3: views.pods@(: invalid regular expression for namespaces: \"(\"",
            ),
            ("views: [\n", "v.yaml:1:8: unclosed bracket"),
        ] {
            let (views, errors) = parse(text, "v.yaml");
            assert!(views.is_empty(), "{text}");
            assert!(errors[0].to_string().starts_with(error), "{}\n{error}", errors[0]);
        }
        let (views, errors) = parse("views:\n  a:\n    columns: [NAME]\n  b:\n    columns: ['']\n", "v.yaml");
        assert_eq!((views.len(), errors.len()), (1, 1), "one that is wrong hides no other");
        let (views, errors) = parse("views:\n  a:\n    columns: [NAME]\n  b:\n    columns: NAME\n", "v.yaml");
        assert_eq!((views.len(), errors.len()), (1, 1), "nor one of another type");
        assert!(parse("", "v.yaml").1.is_empty());
    }

    #[test]
    fn the_view_of_a_namespace_goes_before_that_of_all_con_16() {
        let text = "views:
  v1/pods: {columns: [ANY]}
  pods@shop: {columns: [SHOP]}
  v1/pods@kube*: {columns: [KUBE]}
  deploy: {columns: [DEPLOY]}
  apps/v1/replicasets: {columns: [RS]}
";
        let (views, errors) = parse(text, "v.yaml");
        assert!(errors.is_empty(), "{errors:?}");
        let catalogue = Catalogue::default();
        for (kind, namespace, expected) in [
            ("pods", None, Some("ANY")),
            ("pods", Some("default"), Some("ANY")),
            ("pods", Some("shop"), Some("SHOP")),
            ("pods", Some("kube-system"), Some("KUBE")),
            ("deployments", None, Some("DEPLOY")),
            ("replicasets", Some("shop"), Some("RS")),
            ("services", None, None),
        ] {
            let kind = catalogue.find(kind).expect("a kind");
            let found = find(&views, &catalogue, kind, namespace);
            assert_eq!(found.map(|view| view.columns[0].name.as_str()), expected, "{kind:?} {namespace:?}");
        }
    }
}
