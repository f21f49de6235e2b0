//! Rules of projected volumes: several sources with files in one directory.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, PodCertificateProjection, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::field::{FieldErrors, Path};
use super::{files, metadata, paths, selector, signer};

const KEY_TYPES: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

const TWICE: &str = "conflicting duplicate paths";

/// The domain of Kubernetes' own signers.
const KUBERNETES_SIGNERS: &str = "kubernetes.io/";

/// Validates a projected volume.
pub(crate) fn projected(errors: &mut FieldErrors, path: &Path<'_>, source: &ProjectedVolumeSource) {
    files::mode(errors, &path.child("defaultMode"), source.default_mode);
    let list = path.child("sources");
    let mut seen = Files { volume: path, used_paths: HashSet::new() };
    for (i, projection) in source.sources.iter().flatten().enumerate() {
        one(errors, &list.index(i), projection, &mut seen);
    }
}

/// The files of a projected volume so far.
struct Files<'a> {
    volume: &'a Path<'a>,
    used_paths: HashSet<&'a str>,
}

impl<'a> Files<'a> {
    /// Adds a file, and reports an error if the path is taken. The error shows `of` as the value.
    fn add(&mut self, errors: &mut FieldErrors, file: &'a str, of: &str) {
        if !file.is_empty() && !self.used_paths.insert(file) {
            errors.invalid(self.volume, of, TWICE);
        }
    }
}

fn one<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    projection: &'a VolumeProjection,
    used_files: &mut Files<'a>,
) {
    let mut count = 0;
    for (field, source) in [
        ("secret", projection.secret.as_ref().map(|s| (&s.name, &s.items))),
        ("configMap", projection.config_map.as_ref().map(|s| (&s.name, &s.items))),
    ] {
        let Some((name, items)) = source else { continue };
        count += 1;
        let path = path.child(field);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        files::items(errors, &path.child("items"), items.as_deref());
        for item in items.iter().flatten() {
            used_files.add(errors, &item.path, name);
        }
    }
    if let Some(source) = &projection.downward_api {
        count += 1;
        files::downward_files(errors, &path.child("downwardAPI"), source.items.as_deref());
        for file in source.items.iter().flatten() {
            used_files.add(errors, &file.path, &file.path);
        }
    }
    if let Some(source) = &projection.service_account_token {
        count += 1;
        token(errors, &path.child("serviceAccountToken"), source);
    }
    if let Some(source) = &projection.cluster_trust_bundle {
        count += 1;
        let path = path.child("clusterTrustBundle");
        trust_bundle(errors, &path, source);
        local_file(errors, &path.child("path"), &source.path);
        used_files.add(errors, &source.path, &source.path);
    }
    if let Some(source) = &projection.pod_certificate {
        count += 1;
        pod_certificate(errors, &path.child("podCertificate"), source, used_files);
    }
    match count {
        0 => errors.required(path, "must specify a volume type per source"),
        1 => {}
        _ => errors.forbidden(path, "may not specify more than 1 volume type per source"),
    }
}

/// Validates the path of a file, which is required.
fn local_file(errors: &mut FieldErrors, path: &Path<'_>, file: &str) {
    if file.is_empty() {
        errors.required(path, "");
    } else {
        paths::local_file(errors, path, file);
    }
}

fn token(errors: &mut FieldErrors, path: &Path<'_>, token: &ServiceAccountTokenProjection) {
    let seconds = token.expiration_seconds.unwrap_or(0);
    if seconds < 600 {
        let detail = "may not specify a duration less than 10 minutes";
        errors.invalid(&path.child("expirationSeconds"), &seconds, detail);
    }
    if seconds > 1 << 32 {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(&path.child("expirationSeconds"), &seconds, detail);
    }
    local_file(errors, &path.child("path"), &token.path);
}

fn trust_bundle(errors: &mut FieldErrors, path: &Path<'_>, bundle: &ClusterTrustBundleProjection) {
    match (&bundle.name, &bundle.signer_name) {
        (Some(_), Some(_)) => {
            let shown = object::json_of(bundle);
            errors.invalid(path, &shown, "only one of name and signerName may be used");
        }
        (Some(name), None) => {
            let at = path.child("name");
            if name.is_empty() {
                errors.required(&at, "must be a valid object name");
            }
            for wrong in signer::trust_bundle_name(name) {
                errors.invalid(&at, name, format!("not a valid clustertrustbundlename: {wrong}"));
            }
            if let Some(labels) = &bundle.label_selector {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid(&path.child("labelSelector"), labels, detail);
            }
        }
        (None, Some(name)) => {
            let at = path.child("signerName");
            if name.is_empty() {
                errors.required(&at, "must be a valid signer name");
            } else {
                signer::signer_name(errors, &at, name);
            }
            if let Some(labels) = &bundle.label_selector {
                selector::label_selector(errors, &path.child("labelSelector"), labels);
            }
        }
        (None, None) => errors.required(path, "either name or signerName must be specified"),
    }
}

fn pod_certificate<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    certificate: &'a PodCertificateProjection,
    used_files: &mut Files<'a>,
) {
    const HOUR: i32 = 60 * 60;
    signer::signer_name(errors, &path.child("signerName"), &certificate.signer_name);
    errors.one_of(&path.child("keyType"), &certificate.key_type, KEY_TYPES);
    if let Some(seconds) = certificate.max_expiration_seconds {
        let path = path.child("maxExpirationSeconds");
        let most = if certificate.signer_name.starts_with(KUBERNETES_SIGNERS) { 24 } else { 91 * 24 } * HOUR;
        if seconds < HOUR {
            errors.invalid(&path, &seconds, "if provided, maxExpirationSeconds must be >= 3600");
        }
        if seconds > most {
            let detail = format!("if provided, maxExpirationSeconds must be <= {most}");
            errors.invalid(&path, &seconds, detail);
        }
    }
    let paths = [
        ("credentialBundlePath", &certificate.credential_bundle_path),
        ("keyPath", &certificate.key_path),
        ("certificateChainPath", &certificate.certificate_chain_path),
    ];
    let mut count = 0;
    for (field, file) in paths {
        let Some(file) = file.as_deref().filter(|file| !file.is_empty()) else { continue };
        count += 1;
        paths::local_file(errors, &path.child(field), file);
        used_files.add(errors, file, file);
    }
    if count == 0 {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(path, detail);
    }
    if let Some(annotations) = &certificate.user_annotations {
        metadata::annotations(errors, &path.child("userAnnotations"), Some(annotations));
    }
}
