//! Accepts a definition's names, unless another definition of its group has them.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames,
};

use base::quote::quote;

/// The annotation of definitions in Kubernetes' own groups.
const APPROVED: &str = "api-approved.kubernetes.io";

/// The names accepted for definitions of a group.
#[derive(Debug, Default)]
pub(super) struct AcceptedNames {
    /// Plurals, singulars and short names.
    resources: BTreeSet<String>,
    /// Kinds and kinds of lists.
    kinds: BTreeSet<String>,
}

impl AcceptedNames {
    /// Collects the names of these definitions.
    pub(super) fn of<'a>(definitions: impl Iterator<Item = &'a CustomResourceDefinition>) -> Self {
        let mut taken = Self::default();
        for names in definitions.filter_map(|d| d.status.as_ref()?.accepted_names.as_ref()) {
            taken.resources.insert(names.plural.clone());
            taken.resources.extend(names.singular.clone());
            taken.resources.extend(names.short_names.iter().flatten().cloned());
            taken.kinds.insert(names.kind.clone());
            taken.kinds.extend(names.list_kind.clone());
        }
        for names in [&mut taken.resources, &mut taken.kinds] {
            names.remove("");
        }
        taken
    }
}

/// The reason why a name is not accepted: reason and message.
pub(super) type Conflict = (&'static str, String);

/// Returns the names that the definition has from now on, and the last conflict, if any. A new name replaces the old
/// one only if it is free.
pub(super) fn accept(
    definition: &CustomResourceDefinition,
    accepted: &AcceptedNames,
) -> (CustomResourceDefinitionNames, Result<(), Conflict>) {
    let requested = &definition.spec.names;
    let had = definition.status.as_ref().and_then(|status| status.accepted_names.clone()).unwrap_or_default();
    let mut names = had.clone();
    let mut verdict = Ok(());
    let free = |requested: &str, had: &str, taken: &BTreeSet<String>| {
        if requested == had || !taken.contains(requested) {
            Ok(())
        } else {
            Err(format!("{} is already in use", quote(requested)))
        }
    };
    let text = |name: &Option<String>| name.clone().unwrap_or_default();
    match free(&requested.plural, &had.plural, &accepted.resources) {
        Ok(()) => names.plural.clone_from(&requested.plural),
        Err(message) => verdict = Err(("PluralConflict", message)),
    }
    match free(&text(&requested.singular), &text(&had.singular), &accepted.resources) {
        Ok(()) => names.singular.clone_from(&requested.singular),
        Err(message) => verdict = Err(("SingularConflict", message)),
    }
    let own = had.short_names.unwrap_or_default();
    let new = requested.short_names.iter().flatten().filter(|name| !own.contains(name));
    let conflicts: Vec<String> = new.filter_map(|name| free(name, "", &accepted.resources).err()).collect();
    match conflicts.as_slice() {
        [] => names.short_names.clone_from(&requested.short_names),
        [one] => verdict = Err(("ShortNamesConflict", one.clone())),
        many => verdict = Err(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
    match free(&requested.kind, &had.kind, &accepted.kinds) {
        Ok(()) => names.kind.clone_from(&requested.kind),
        Err(message) => verdict = Err(("KindConflict", message)),
    }
    match free(&text(&requested.list_kind), &text(&had.list_kind), &accepted.kinds) {
        Ok(()) => names.list_kind.clone_from(&requested.list_kind),
        Err(message) => verdict = Err(("ListKindConflict", message)),
    }
    names.categories.clone_from(&requested.categories);
    (names, verdict)
}

/// Returns the approval of a definition in one of Kubernetes' own groups: whether it is approved, a reason and a
/// message.
pub(super) fn approval(definition: &CustomResourceDefinition) -> Option<(bool, &'static str, String)> {
    let group = &definition.spec.group;
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|own| group.strip_suffix(own).is_some_and(|before| before.is_empty() || before.ends_with('.')));
    let annotations = definition.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(APPROVED)).map(String::as_str).unwrap_or_default();
    is_protected.then(|| {
        if value.is_empty() {
            let message = format!(
                "protected groups must have approval annotation \"{APPROVED}\", see \
                 https://github.com/kubernetes/enhancements/pull/1111"
            );
            (false, "MissingAnnotation", message)
        } else if value.starts_with("unapproved") {
            (false, "UnapprovedAnnotation", format!("not approved: {}", quote(value)))
        } else {
            (true, "ApprovedAnnotation", format!("approved in {value}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn definition(names: &Value, accepted: &Value) -> CustomResourceDefinition {
        serde_json::from_value(json!({"metadata": {},
            "spec": {"group": "a.test", "scope": "Cluster", "names": names, "versions": []},
            "status": {"acceptedNames": accepted}}))
        .unwrap()
    }

    fn widget(short: &[&str]) -> Value {
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
            "shortNames": short})
    }

    #[test]
    fn names_that_another_one_has_are_refused_in_kubernetes_words_api_14() {
        let other = |field: &str, name: &str| {
            let mut names = json!({"plural": "others", "singular": "other", "kind": "Other",
                "listKind": "OtherList", "shortNames": ["ot"]});
            names[field] = if field == "shortNames" { json!([name]) } else { json!(name) };
            definition(&names, &names)
        };
        for (field, name, expected) in [
            ("kind", "Else", Ok(())),
            ("plural", "widgets", Err(("PluralConflict", "\"widgets\" is already in use"))),
            ("shortNames", "widget", Err(("SingularConflict", "\"widget\" is already in use"))),
            ("singular", "wd", Err(("ShortNamesConflict", "\"wd\" is already in use"))),
            ("listKind", "Widget", Err(("KindConflict", "\"Widget\" is already in use"))),
            ("kind", "WidgetList", Err(("ListKindConflict", "\"WidgetList\" is already in use"))),
        ] {
            let other = other(field, name);
            let new = definition(&widget(&["wd", "wg"]), &json!({"plural": "", "kind": ""}));
            let (_, verdict) = accept(&new, &AcceptedNames::of([&other, &new].into_iter()));
            assert_eq!(
                verdict,
                expected.map_err(|(r, m): (&str, &str)| (r, m.to_string())),
                "{field} {name}"
            );
        }
    }

    #[test]
    fn a_definition_keeps_its_accepted_names_and_gets_free_ones_api_14() {
        let names = json!({"plural": "others", "kind": "Other", "shortNames": ["ot"]});
        let other = definition(&names, &names);
        let own = definition(&widget(&["wd", "ot"]), &widget(&["wd"]));
        let taken = AcceptedNames::of([&other, &own].into_iter());
        let (names, verdict) = accept(&own, &taken);
        assert_eq!(verdict, Err(("ShortNamesConflict", "\"ot\" is already in use".to_string())));
        assert_eq!(names.short_names, Some(vec!["wd".to_string()]), "not the one of another");
        let (names, verdict) = accept(&definition(&widget(&["wd", "wg"]), &widget(&["wd"])), &taken);
        assert_eq!((verdict, names.short_names), (Ok(()), Some(vec!["wd".to_string(), "wg".to_string()])));
    }
}
