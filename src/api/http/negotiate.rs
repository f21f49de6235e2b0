//! Which form of answer a client takes.

/// The forms an object or list is answered in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The object itself.
    Object,
    /// A table for printing.
    Table,
    /// Only its metadata.
    Metadata,
}

/// The first form of an `Accept` header that is served; plain JSON when there is none (protobuf is asked for
/// and answered in JSON, which every client reads).
pub(super) fn preferred_form(accept: &str) -> Form {
    for media in accept.split(',') {
        let mut parts = media.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or("");
        let parameters: Vec<(&str, &str)> = parts.filter_map(|p| p.split_once('=')).collect();
        let parameter = |name: &str| parameters.iter().find(|(k, _)| *k == name).map(|(_, v)| *v);
        if !matches!(media_type, "application/json" | "*/*" | "application/*") {
            continue;
        }
        match parameter("as") {
            None => return Form::Object,
            Some("Table") if parameter("v") == Some("v1") => return Form::Table,
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if parameter("v") == Some("v1") => {
                return Form::Metadata;
            }
            Some(_) => {}
        }
    }
    Form::Object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_first_form_we_serve_api_6() {
        for (accept, expected) in [
            ("", Form::Object),
            ("application/json", Form::Object),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form::Table),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form::Object),
            ("application/vnd.kubernetes.protobuf,application/json", Form::Object),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Form::Metadata,
            ),
            ("text/html", Form::Object),
        ] {
            assert_eq!(preferred_form(accept), expected, "{accept}");
        }
    }
}
