//! Manifests that earlier builds handled wrongly, applied exactly as they were reported. The first lines of each file
//! state the correct result; its test is in the module named for the subject.

mod external_addresses;
mod file_key_ref;
mod logs;
mod mirror_pod;
mod preserve_on_array;
mod sub_paths;
mod taints;
mod unserved_projections;
