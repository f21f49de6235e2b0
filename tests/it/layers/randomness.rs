//! FAULT-3: code in the simulator draws random numbers only from `base::random`, or the same seed would not run the
//! same.

use super::files_with;

/// The code that runs in a simulation.
const SIMULATED: [&str; 11] = [
    "base/", "object/", "store/", "api/", "apimachinery/", "kinds/", "apiserver/", "reconcile/",
    "controllers/", "scheduler/", "lab/simulate/",
];

/// Files that may use the machine's randomness: for keys of one process that no object shows.
const KEYS: [&str; 2] = ["api/managed_fields/digest.rs", "reconcile/correlator.rs"];

fn simulated(pattern: &str) -> Vec<String> {
    let of_ours = |file: &String| {
        SIMULATED.iter().any(|layer| file.starts_with(layer))
            || file.starts_with("kubelet/") && !file.starts_with("kubelet/runtime/process/")
    };
    let tests = |file: &String| file.contains("/tests/") || file.ends_with("tests.rs");
    let mut files: Vec<_> =
        files_with(pattern).into_iter().filter(|file| of_ours(file) && !tests(file)).collect();
    files.sort();
    files
}

#[test]
fn chance_is_drawn_in_one_place_fault_3() {
    let drawing = simulated(
        r"\brand::(rng|random|thread_rng|make_rng)\b|OsRng|SysRng|from_os_rng|from_entropy|Uuid::new_v|fastrand::",
    );
    assert_eq!(drawing, ["base/random.rs"]);
}

/// The keys of maps come from the C library, which `src/lab/entropy.rs` replaces; other uses would be a source of
/// randomness of their own.
#[test]
fn only_the_listed_files_use_random_hash_keys_fault_3() {
    assert_eq!(simulated(r"\bRandomState\b"), KEYS);
}

/// The machine decides when threads run. A new thread in simulated code must be one that no simulation starts, or one
/// that is joined at once.
#[test]
fn simulated_code_starts_no_threads_fault_3() {
    let known = [
        "api/webhook_client/caller.rs",          // no simulation has webhooks
        "apiserver/audit/log.rs",                // no simulation has an audit log
        "apiserver/profile.rs",                  // no client requests it over HTTP
        "base/task.rs",                          // starts what the others give it
        "controllers/volume/provisioner/mod.rs", // no simulation has a directory of volumes
        "kubelet/access/images.rs",              // hollow nodes have no images
        "kubelet/eviction/disk.rs",              // nor a disk
        "kubelet/logs/mod.rs",                   // nor logs
        "kubelet/logs/termination_message.rs",   // nor logs
        "kubelet/sync_pod/start.rs",             // nor mounts
        "kubelet/volumes/env_files.rs",          // nor volumes
        "kubelet/volumes/mod.rs",                // nor volumes
        "kubelet/volumes/usage.rs",              // nor room in them
        "lab/simulate/campaign.rs",              // runs simulations, each in a process of its own
        "store/disk.rs",                         // in its place is store/simulated.rs
        "store/inspect.rs",                      // a simulated disk is compared at once
    ];
    let starting = simulated(r"spawn_blocking|\bblocking\(|thread::(Builder|spawn|scope)\b");
    let in_tests = [
        "api/admission/configurations.rs", "base/removal.rs", "kubelet/logs/open_files.rs",
        "kubelet/volumes/ownership.rs", "store/watch.rs",
    ];
    let starting: Vec<_> = starting.iter().filter(|file| !in_tests.contains(&file.as_str())).collect();
    assert_eq!(starting, known);
}
