//! The fields of the main kinds that have an effect, each with the test that shows it.
//!
//! Types have their names in the table of types. The walk in `apiserver::tests::fields` fails if a field is
//! neither here nor in the table of fields without effect nor refused: decide how to treat a new field before
//! you add it. It also fails for a row that names a test of validation, defaults or display, since such a
//! test shows no effect.

/// A test, and the fields of one type with the effect that it shows.
pub(crate) type TestedFields = (&'static str, &'static [&'static str]);

/// Fields with an effect, by type.
pub(crate) const ACTED: &[(&str, &[TestedFields])] = &[
    ("api.core.v1.Pod", &[("a_manifest_becomes_a_pod_of_the_node_pod_15", &["metadata", "spec"])]),
    (
        "apimachinery.pkg.apis.meta.v1.ObjectMeta",
        &[
            ("values_come_from_everywhere_pod_13", &["annotations"]),
            (
                "fields_of_the_system_are_the_servers_to_write_api_5",
                &[
                    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
                    "managedFields", "resourceVersion", "selfLink", "uid",
                ],
            ),
            ("an_object_goes_with_its_last_finalizer_in_one_write_safe_6", &["finalizers"]),
            ("metadata_names_and_finds_objects_api_2", &["generateName", "labels", "name", "namespace"]),
            ("dependents_follow_their_owner_according_to_the_propagation_policy_gc_1", &["ownerReferences"]),
        ],
    ),
    (
        "apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
        &[
            (
                "owners_are_written_with_the_metadata_alone_api_13",
                &["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "time"],
            ),
            ("owners_stand_in_the_order_of_kubernetes_identifiers_api_13", &["subresource"]),
        ],
    ),
    (
        "apimachinery.pkg.apis.meta.v1.OwnerReference",
        &[
            (
                "an_absent_owner_takes_its_dependents_and_no_owner_reaches_across_namespaces_gc_1",
                &["apiVersion", "kind", "name", "uid"],
            ),
            ("only_dependents_that_say_so_hold_their_owner_up_gc_1", &["blockOwnerDeletion"]),
            ("an_owner_controls_exactly_what_its_selector_matches_rs_1", &["controller"]),
        ],
    ),
    (
        "api.core.v1.PodSpec",
        &[
            ("a_deadline_fails_the_pod_pod_9", &["activeDeadlineSeconds"]),
            ("pull_secrets_reach_the_registry_and_missing_ones_are_reported_img_8", &["imagePullSecrets"]),
            ("required_filters_and_preferred_scores_sch_3_sch_4", &["affinity", "nodeSelector"]),
            (
                "accounts_and_pods_may_decline_and_unknown_accounts_are_refused_sa_1",
                &["automountServiceAccountToken", "serviceAccountName"],
            ),
            ("a_sidecar_restarts_always_init_3", &["containers", "initContainers", "restartPolicy"]),
            ("policies_and_config_merge_as_the_kubelet_merges_them_net_3", &["dnsConfig", "dnsPolicy"]),
            ("variables_of_services_follow_enable_service_links_pod_13", &["enableServiceLinks"]),
            ("ephemeral_containers_run_once_beside_anything_eph_1", &["ephemeralContainers"]),
            ("the_file_is_the_kubelets_pod_14", &["hostAliases"]),
            (
                "a_sandbox_shares_what_its_pod_says_pod_14",
                &["hostIPC", "hostNetwork", "hostPID", "shareProcessNamespace"],
            ),
            ("a_pod_has_users_of_its_own_pod_18", &["hostUsers"]),
            (
                "a_pod_is_called_as_kubernetes_calls_it_pod_14",
                &["hostname", "hostnameOverride", "setHostnameAsFQDN", "subdomain"],
            ),
            ("a_manifest_becomes_a_pod_of_the_node_pod_15", &["nodeName"]),
            ("the_larger_of_running_and_starting_plus_overhead_sch_3", &["overhead"]),
            ("equals_are_never_evicted_and_never_means_never_sch_7_sch_8", &["preemptionPolicy"]),
            ("a_resize_is_given_refused_or_waits", &["priority"]),
            ("each_class_has_a_quota_of_its_own_quo_1", &["priorityClassName"]),
            ("conditions_through_a_life_pod_2", &["readinessGates"]),
            ("quality_of_service_follows_the_resources_of_the_whole_pod_pod_11", &["resources"]),
            ("a_pod_of_a_runtime_class_that_is_not_there_is_refused_api_17", &["runtimeClassName"]),
            (
                "pods_are_bound_or_get_the_reason_for_not_being_bound_sch_1_sch_9",
                &["schedulerName", "schedulingGates"],
            ),
            ("a_containers_context_goes_before_its_pods", &["securityContext"]),
            ("the_old_name_of_the_account_counts_where_the_new_one_is_not_given_sa_1", &["serviceAccount"]),
            ("termination_is_ordered_and_bounded_pod_7", &["terminationGracePeriodSeconds"]),
            ("the_first_untolerated_taint_is_named_and_preferences_are_scored_sch_3_sch_4", &["tolerations"]),
            ("the_pictures_of_the_kubernetes_page_sch_5", &["topologySpreadConstraints"]),
            ("volumes_follow_the_api_under_a_running_process", &["volumes"]),
        ],
    ),
    (
        "api.core.v1.Affinity",
        &[
            ("required_filters_and_preferred_scores_sch_3_sch_4", &["nodeAffinity"]),
            ("wishes_of_both_sides_add_up_sch_4", &["podAffinity", "podAntiAffinity"]),
        ],
    ),
    (
        "api.core.v1.NodeAffinity",
        &[
            (
                "required_filters_and_preferred_scores_sch_3_sch_4",
                &["preferredDuringSchedulingIgnoredDuringExecution"],
            ),
            (
                "the_pictures_of_the_kubernetes_page_sch_5",
                &["requiredDuringSchedulingIgnoredDuringExecution"],
            ),
        ],
    ),
    (
        "api.core.v1.PreferredSchedulingTerm",
        &[("required_filters_and_preferred_scores_sch_3_sch_4", &["preference", "weight"])],
    ),
    (
        "api.core.v1.NodeSelectorTerm",
        &[
            ("required_filters_and_preferred_scores_sch_3_sch_4", &["matchExpressions"]),
            ("selectors_terms_and_fields_sch_3", &["matchFields"]),
        ],
    ),
    (
        "api.core.v1.NodeSelectorRequirement",
        &[("selectors_terms_and_fields_sch_3", &["key", "operator", "values"])],
    ),
    ("api.core.v1.NodeSelector", &[("the_pictures_of_the_kubernetes_page_sch_5", &["nodeSelectorTerms"])]),
    (
        "api.core.v1.PodAffinity",
        &[
            ("wishes_of_both_sides_add_up_sch_4", &["preferredDuringSchedulingIgnoredDuringExecution"]),
            (
                "pods_seek_and_shun_within_a_domain_both_ways_sch_3",
                &["requiredDuringSchedulingIgnoredDuringExecution"],
            ),
        ],
    ),
    (
        "api.core.v1.WeightedPodAffinityTerm",
        &[("wishes_of_both_sides_add_up_sch_4", &["podAffinityTerm", "weight"])],
    ),
    (
        "api.core.v1.PodAffinityTerm",
        &[
            (
                "pods_seek_and_shun_within_a_domain_both_ways_sch_3",
                &["labelSelector", "matchLabelKeys", "mismatchLabelKeys", "topologyKey"],
            ),
            (
                "terms_look_at_their_own_at_named_and_at_selected_namespaces_sch_3",
                &["namespaceSelector", "namespaces"],
            ),
        ],
    ),
    (
        "apimachinery.pkg.apis.meta.v1.LabelSelector",
        &[(
            "label_selectors_of_objects_match_by_labels_and_expressions_api_2",
            &["matchExpressions", "matchLabels"],
        )],
    ),
    (
        "apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement",
        &[(
            "label_selectors_of_objects_match_by_labels_and_expressions_api_2",
            &["key", "operator", "values"],
        )],
    ),
    (
        "api.core.v1.PodAntiAffinity",
        &[
            ("wishes_of_both_sides_add_up_sch_4", &["preferredDuringSchedulingIgnoredDuringExecution"]),
            (
                "pods_seek_and_shun_within_a_domain_both_ways_sch_3",
                &["requiredDuringSchedulingIgnoredDuringExecution"],
            ),
        ],
    ),
    (
        "api.core.v1.Container",
        &[
            (
                "a_container_is_started_as_its_spec_says_pod_13",
                &[
                    "args", "command", "resources", "stdin", "stdinOnce", "terminationMessagePath", "tty",
                    "workingDir",
                ],
            ),
            ("values_come_from_everywhere_pod_13", &["env", "envFrom"]),
            (
                "images_of_the_catalog_are_present_under_every_pull_policy_img_1",
                &["image", "imagePullPolicy"],
            ),
            ("a_stubborn_pod_ends_by_deadline_and_hooks_share_the_grace_pod_6_pod_7", &["lifecycle"]),
            ("a_failed_liveness_probe_restarts_pod_5", &["livenessProbe"]),
            ("started_and_ready_follow_the_probes_pod_5", &["name", "readinessProbe", "startupProbe"]),
            ("named_ports_are_the_pods_own_svc_1", &["ports"]),
            ("a_resize_is_a_change_of_amounts_pod_12", &["resizePolicy"]),
            ("a_containers_own_restart_policy_decides_pod_4", &["restartPolicy", "restartPolicyRules"]),
            ("a_containers_context_goes_before_its_pods", &["securityContext"]),
            ("the_edges_of_pods_are_as_on_any_cluster", &["terminationMessagePolicy"]),
            ("volumes_follow_the_api_under_a_running_process", &["volumeMounts"]),
        ],
    ),
    ("api.core.v1.EnvVar", &[("values_come_from_everywhere_pod_13", &["name", "value", "valueFrom"])]),
    (
        "api.core.v1.EnvVarSource",
        &[(
            "values_come_from_everywhere_pod_13",
            &["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"],
        )],
    ),
    (
        "api.core.v1.ConfigMapKeySelector",
        &[("missing_sources_are_config_errors_pod_13", &["key", "name", "optional"])],
    ),
    (
        "api.core.v1.ObjectFieldSelector",
        &[("volumes_follow_the_api_under_a_running_process", &["fieldPath"])],
    ),
    (
        "api.core.v1.FileKeySelector",
        &[("missing_sources_are_config_errors_pod_13", &["key", "optional", "path", "volumeName"])],
    ),
    (
        "api.core.v1.ResourceFieldSelector",
        &[
            ("volumes_hold_what_kubernetes_puts_there_vol_1", &["containerName"]),
            ("values_come_from_everywhere_pod_13", &["divisor", "resource"]),
        ],
    ),
    (
        "api.core.v1.SecretKeySelector",
        &[("missing_sources_are_config_errors_pod_13", &["key", "name", "optional"])],
    ),
    (
        "api.core.v1.EnvFromSource",
        &[("values_come_from_everywhere_pod_13", &["configMapRef", "prefix", "secretRef"])],
    ),
    ("api.core.v1.ConfigMapEnvSource", &[("values_come_from_everywhere_pod_13", &["name", "optional"])]),
    ("api.core.v1.SecretEnvSource", &[("missing_sources_are_config_errors_pod_13", &["name", "optional"])]),
    (
        "api.core.v1.Lifecycle",
        &[
            ("pods_that_hang_or_exceed_their_space_end", &["postStart"]),
            ("a_hook_that_never_ends_gets_two_seconds_more_pod_6", &["preStop"]),
            ("a_container_is_started_as_its_spec_says_pod_13", &["stopSignal"]),
        ],
    ),
    (
        "api.core.v1.LifecycleHandler",
        &[
            ("a_hook_that_never_ends_gets_two_seconds_more_pod_6", &["exec", "sleep"]),
            ("hooks_ask_over_the_network_pod_6", &["httpGet", "tcpSocket"]),
        ],
    ),
    ("api.core.v1.ExecAction", &[("a_hook_that_never_ends_gets_two_seconds_more_pod_6", &["command"])]),
    (
        "api.core.v1.HTTPGetAction",
        &[
            ("a_low_port_is_probed_at_its_mapped_port_and_other_hosts_unmapped_net_1", &["host", "port"]),
            ("the_status_counts_and_nothing_can_be_smuggled_in_pod_5", &["httpHeaders", "path"]),
            ("each_kind_of_probe_asks_its_server_pod_5", &["scheme"]),
        ],
    ),
    (
        "api.core.v1.HTTPHeader",
        &[("the_status_counts_and_nothing_can_be_smuggled_in_pod_5", &["name", "value"])],
    ),
    (
        "api.core.v1.SleepAction",
        &[("a_stubborn_pod_ends_by_deadline_and_hooks_share_the_grace_pod_6_pod_7", &["seconds"])],
    ),
    (
        "api.core.v1.TCPSocketAction",
        &[("a_tcp_probe_connects_to_its_pod_or_to_the_host_it_names_pod_5", &["host", "port"])],
    ),
    (
        "api.core.v1.Probe",
        &[
            ("pods_that_hang_or_exceed_their_space_end", &["exec", "timeoutSeconds"]),
            (
                "readiness_follows_its_numbers_pod_5",
                &["failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold"],
            ),
            ("each_kind_of_probe_asks_its_server_pod_5", &["grpc", "httpGet", "tcpSocket"]),
            ("a_probes_own_grace_counts_pod_5", &["terminationGracePeriodSeconds"]),
        ],
    ),
    ("api.core.v1.GRPCAction", &[("each_kind_of_probe_asks_its_server_pod_5", &["port", "service"])]),
    (
        "api.core.v1.ContainerPort",
        &[
            ("a_tcp_probe_connects_to_its_pod_or_to_the_host_it_names_pod_5", &["containerPort", "name"]),
            ("a_pod_is_refused_where_another_holds_its_host_port", &["hostIP", "hostPort"]),
            ("same_port_same_protocol_and_an_address_in_common_conflict_sch_3", &["protocol"]),
        ],
    ),
    (
        "api.core.v1.ContainerResizePolicy",
        &[("a_resize_is_a_change_of_amounts_pod_12", &["resourceName", "restartPolicy"])],
    ),
    (
        "api.core.v1.ResourceRequirements",
        &[("a_container_is_started_as_its_spec_says_pod_13", &["limits", "requests"])],
    ),
    (
        "api.core.v1.ContainerRestartRule",
        &[("one_exit_restarts_all_containers_in_place_pod_4", &["action", "exitCodes"])],
    ),
    (
        "api.core.v1.ContainerRestartRuleOnExitCodes",
        &[("a_containers_own_restart_policy_decides_pod_4", &["operator", "values"])],
    ),
    (
        "api.core.v1.SecurityContext",
        &[
            (
                "a_containers_context_goes_before_its_pods",
                &[
                    "allowPrivilegeEscalation", "capabilities", "privileged", "readOnlyRootFilesystem",
                    "runAsGroup", "runAsNonRoot", "runAsUser",
                ],
            ),
            ("a_pod_has_users_of_its_own_pod_18", &["procMount"]),
            ("a_containers_profile_goes_before_its_pods_and_none_is_unconfined_pod_17", &["seccompProfile"]),
        ],
    ),
    (
        "api.core.v1.SeccompProfile",
        &[
            ("a_containers_profile_goes_before_its_pods_and_none_is_unconfined_pod_17", &["type"]),
            ("a_profile_is_read_below_its_directory_alone_pod_17", &["localhostProfile"]),
        ],
    ),
    ("api.core.v1.Capabilities", &[("a_containers_context_goes_before_its_pods", &["add", "drop"])]),
    (
        "api.core.v1.VolumeMount",
        &[
            (
                "volumes_follow_the_api_under_a_running_process",
                &["mountPath", "name", "subPath", "subPathExpr"],
            ),
            ("mounts_are_as_writable_as_they_say_vol_1", &["readOnly", "recursiveReadOnly"]),
        ],
    ),
    (
        "api.core.v1.PodDNSConfig",
        &[(
            "policies_and_config_merge_as_the_kubelet_merges_them_net_3",
            &["nameservers", "options", "searches"],
        )],
    ),
    (
        "api.core.v1.PodDNSConfigOption",
        &[("policies_and_config_merge_as_the_kubelet_merges_them_net_3", &["name", "value"])],
    ),
    (
        "api.core.v1.EphemeralContainer",
        &[
            (
                "an_ephemeral_container_is_run_like_any_other_eph_1",
                &[
                    "args", "command", "env", "envFrom", "image", "imagePullPolicy", "name",
                    "securityContext", "stdin", "stdinOnce", "terminationMessagePath",
                    "terminationMessagePolicy", "tty", "volumeMounts", "workingDir",
                ],
            ),
            ("a_container_is_started_as_its_spec_says_pod_13", &["targetContainerName"]),
        ],
    ),
    (
        "api.core.v1.LocalObjectReference",
        &[("pull_secrets_reach_the_registry_and_missing_ones_are_reported_img_8", &["name"])],
    ),
    ("api.core.v1.HostAlias", &[("the_file_is_the_kubelets_pod_14", &["hostnames", "ip"])]),
    ("api.core.v1.PodReadinessGate", &[("readiness_gates_hold_back_ready_pod_2", &["conditionType"])]),
    ("api.core.v1.PodSchedulingGate", &[("thousands_of_gated_pods_are_in_nobodys_way_sch_1", &["name"])]),
    (
        "api.core.v1.PodSecurityContext",
        &[
            ("a_volume_that_lasts_is_its_groups_vol_2_pod_16", &["fsGroupChangePolicy"]),
            (
                "a_containers_context_goes_before_its_pods",
                &[
                    "fsGroup", "runAsGroup", "runAsNonRoot", "runAsUser", "supplementalGroups",
                    "supplementalGroupsPolicy",
                ],
            ),
            ("a_containers_profile_goes_before_its_pods_and_none_is_unconfined_pod_17", &["seccompProfile"]),
            ("safe_settings_are_set_in_the_pods_own_namespaces_pod_16_net_5", &["sysctls"]),
        ],
    ),
    (
        "api.core.v1.Sysctl",
        &[("safe_settings_are_set_in_the_pods_own_namespaces_pod_16_net_5", &["name", "value"])],
    ),
    (
        "api.core.v1.Toleration",
        &[
            (
                "the_first_untolerated_taint_is_named_and_preferences_are_scored_sch_3_sch_4",
                &["effect", "key", "operator", "value"],
            ),
            ("a_pod_stays_as_long_as_it_tolerates_every_taint_node_2", &["tolerationSeconds"]),
        ],
    ),
    (
        "api.core.v1.TopologySpreadConstraint",
        &[
            (
                "the_pictures_of_the_kubernetes_page_sch_5",
                &["labelSelector", "maxSkew", "nodeAffinityPolicy", "topologyKey"],
            ),
            ("min_domains_selectors_and_other_pods_sch_5", &["matchLabelKeys", "minDomains"]),
            ("tainted_nodes_are_domains_unless_taints_are_honored_sch_5", &["nodeTaintsPolicy"]),
            ("wishes_are_scored_by_domain_sizes_sch_5", &["whenUnsatisfiable"]),
        ],
    ),
    (
        "api.core.v1.Volume",
        &[
            (
                "volumes_hold_what_kubernetes_puts_there_vol_1",
                &["configMap", "downwardAPI", "emptyDir", "name", "projected", "secret"],
            ),
            ("a_pods_own_claim_comes_and_goes_with_it_vol_2", &["ephemeral"]),
            ("a_web_server_shows_a_volume_made_by_hand_vol_2", &["hostPath", "persistentVolumeClaim"]),
            ("a_volumes_image_is_pulled_once_for_all_containers_img_11", &["image"]),
        ],
    ),
    (
        "api.core.v1.ImageVolumeSource",
        &[
            ("a_volumes_image_is_pulled_once_for_all_containers_img_11", &["reference"]),
            ("a_volumes_pull_policy_counts_and_a_deleted_pod_cancels_its_pull_img_11", &["pullPolicy"]),
        ],
    ),
    (
        "api.core.v1.ConfigMapVolumeSource",
        &[("volumes_hold_what_kubernetes_puts_there_vol_1", &["defaultMode", "items", "name", "optional"])],
    ),
    ("api.core.v1.KeyToPath", &[("volumes_hold_what_kubernetes_puts_there_vol_1", &["key", "mode", "path"])]),
    (
        "api.core.v1.DownwardAPIVolumeSource",
        &[("volumes_hold_what_kubernetes_puts_there_vol_1", &["defaultMode", "items"])],
    ),
    (
        "api.core.v1.DownwardAPIVolumeFile",
        &[(
            "volumes_hold_what_kubernetes_puts_there_vol_1",
            &["fieldRef", "mode", "path", "resourceFieldRef"],
        )],
    ),
    (
        "api.core.v1.EmptyDirVolumeSource",
        &[
            ("the_smallest_bound_counts_vol_1", &["medium"]),
            ("an_empty_dir_is_its_groups_vol_1", &["mode"]),
            ("the_first_exceeded_storage_limit_is_reported_vol_1", &["sizeLimit"]),
        ],
    ),
    (
        "api.core.v1.EphemeralVolumeSource",
        &[("a_pods_own_claim_comes_and_goes_with_it_vol_2", &["volumeClaimTemplate"])],
    ),
    (
        "api.core.v1.PersistentVolumeClaimTemplate",
        &[("a_pods_own_claim_comes_and_goes_with_it_vol_2", &["metadata", "spec"])],
    ),
    (
        "api.core.v1.PersistentVolumeClaimSpec",
        &[
            ("a_claims_next_step_vol_2", &["accessModes", "resources", "storageClassName", "volumeName"]),
            ("unsupported_claims_for_a_directory_are_refused_with_the_reason_vol_2", &["selector"]),
        ],
    ),
    ("api.core.v1.VolumeResourceRequirements", &[("a_claims_next_step_vol_2", &["requests"])]),
    ("api.core.v1.HostPathVolumeSource", &[("host_paths_are_what_they_say_vol_1", &["path", "type"])]),
    (
        "api.core.v1.PersistentVolumeClaimVolumeSource",
        &[("a_pod_uses_the_claims_it_names_and_those_made_for_it_vol_2", &["claimName", "readOnly"])],
    ),
    (
        "api.core.v1.ProjectedVolumeSource",
        &[("volumes_hold_what_kubernetes_puts_there_vol_1", &["defaultMode", "sources"])],
    ),
    (
        "api.core.v1.VolumeProjection",
        &[(
            "volumes_hold_what_kubernetes_puts_there_vol_1",
            &["configMap", "downwardAPI", "secret", "serviceAccountToken"],
        )],
    ),
    (
        "api.core.v1.ConfigMapProjection",
        &[("volumes_hold_what_kubernetes_puts_there_vol_1", &["items", "name", "optional"])],
    ),
    ("api.core.v1.DownwardAPIProjection", &[("volumes_hold_what_kubernetes_puts_there_vol_1", &["items"])]),
    (
        "api.core.v1.SecretProjection",
        &[("volumes_hold_what_kubernetes_puts_there_vol_1", &["items", "name", "optional"])],
    ),
    (
        "api.core.v1.ServiceAccountTokenProjection",
        &[
            ("a_node_asks_for_tokens_of_audiences_that_its_pods_use_sec_4", &["audience"]),
            ("volumes_hold_what_kubernetes_puts_there_vol_1", &["expirationSeconds", "path"]),
        ],
    ),
    (
        "api.core.v1.SecretVolumeSource",
        &[(
            "volumes_hold_what_kubernetes_puts_there_vol_1",
            &["defaultMode", "items", "optional", "secretName"],
        )],
    ),
    ("api.core.v1.Service", &[("named_ports_are_the_pods_own_svc_1", &["metadata", "spec"])]),
    (
        "api.core.v1.ServiceSpec",
        &[
            ("a_load_balancer_without_node_ports_gets_none_svc_1", &["allocateLoadBalancerNodePorts"]),
            (
                "packets_go_where_kube_proxy_would_send_them_svc_1_net_6",
                &[
                    "clusterIP", "clusterIPs", "externalIPs", "externalTrafficPolicy",
                    "internalTrafficPolicy", "loadBalancerSourceRanges", "ports", "sessionAffinity",
                    "trafficDistribution", "type",
                ],
            ),
            ("other_names_are_forwarded_to_the_resolvers_of_the_machine_net_3", &["externalName"]),
            ("nodes_tell_how_many_endpoints_they_have_net_6", &["healthCheckNodePort"]),
            (
                "pods_and_services_have_both_families_net_5_net_6_net_8_svc_1",
                &["ipFamilies", "ipFamilyPolicy"],
            ),
            (
                "load_balancers_get_the_first_free_or_requested_address_net_6",
                &["loadBalancerClass", "loadBalancerIP"],
            ),
            ("pods_are_published_before_they_are_ready_on_request_svc_1", &["publishNotReadyAddresses"]),
            ("missing_and_empty_lists_mean_what_kubernetes_says_net_8", &["selector"]),
            ("policies_and_affinity_are_read_svc_1", &["sessionAffinityConfig"]),
        ],
    ),
    (
        "api.core.v1.ServicePort",
        &[
            (
                "named_ports_are_the_pods_own_svc_1",
                &["appProtocol", "name", "port", "protocol", "targetPort"],
            ),
            ("services_are_met_at_their_mirrors_net_7", &["nodePort"]),
        ],
    ),
    ("api.core.v1.SessionAffinityConfig", &[("policies_and_affinity_are_read_svc_1", &["clientIP"])]),
    ("api.core.v1.ClientIPConfig", &[("policies_and_affinity_are_read_svc_1", &["timeoutSeconds"])]),
    ("api.batch.v1.Job", &[("an_indexed_pod_knows_its_index_job_1", &["metadata", "spec"])]),
    (
        "api.batch.v1.JobSpec",
        &[
            (
                "a_job_ends_for_a_reason_job_1",
                &[
                    "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode",
                    "maxFailedIndexes", "podFailurePolicy", "suspend",
                ],
            ),
            (
                "a_job_has_as_many_pods_as_it_needs_job_1",
                &["completions", "parallelism", "podReplacementPolicy"],
            ),
            ("a_job_of_another_controller_is_left_alone_job_1", &["managedBy"]),
            ("a_job_with_a_selector_of_its_own_takes_over_pods_job_1", &["manualSelector", "selector"]),
            ("a_success_policy_ends_a_job_early_job_1", &["successPolicy"]),
            ("an_indexed_pod_knows_its_index_job_1", &["template"]),
            ("a_time_to_live_may_be_moved_and_holds_for_failure_too_job_1", &["ttlSecondsAfterFinished"]),
        ],
    ),
    ("api.batch.v1.PodFailurePolicy", &[("a_job_ends_for_a_reason_job_1", &["rules"])]),
    (
        "api.batch.v1.PodFailurePolicyRule",
        &[(
            "a_failure_policy_tells_bugs_from_disruptions_job_1",
            &["action", "onExitCodes", "onPodConditions"],
        )],
    ),
    (
        "api.batch.v1.PodFailurePolicyOnExitCodesRequirement",
        &[("a_failure_policy_tells_bugs_from_disruptions_job_1", &["containerName", "operator", "values"])],
    ),
    (
        "api.batch.v1.PodFailurePolicyOnPodConditionsPattern",
        &[("a_policy_replaces_pods_only_once_they_have_ended_job_1", &["status", "type"])],
    ),
    ("api.batch.v1.SuccessPolicy", &[("a_success_policy_ends_a_job_early_job_1", &["rules"])]),
    (
        "api.batch.v1.SuccessPolicyRule",
        &[(
            "a_success_policy_is_met_by_its_first_fitting_rule_job_1",
            &["succeededCount", "succeededIndexes"],
        )],
    ),
    (
        "api.core.v1.PodTemplateSpec",
        &[("the_two_kinds_do_not_take_each_others_pods_rc_1", &["metadata", "spec"])],
    ),
    ("api.apps.v1.StatefulSet", &[("a_pod_is_made_with_its_identity_sts_1", &["metadata", "spec"])]),
    (
        "api.apps.v1.StatefulSetSpec",
        &[
            ("a_pod_counts_when_it_was_ready_long_enough_sts_1", &["minReadySeconds"]),
            ("ordinals_start_at_the_specified_number_sts_1", &["ordinals", "replicas"]),
            (
                "a_policy_is_about_scaling_and_deleting_the_set_and_nothing_else_sts_1",
                &["persistentVolumeClaimRetentionPolicy"],
            ),
            ("in_parallel_nothing_waits_sts_1", &["podManagementPolicy"]),
            ("unused_revisions_are_removed_beyond_the_history_limit_sts_2", &["revisionHistoryLimit"]),
            (
                "a_pod_is_made_with_its_identity_sts_1",
                &["selector", "serviceName", "template", "volumeClaimTemplates"],
            ),
            ("pods_below_the_partition_come_back_as_they_were_sts_2", &["updateStrategy"]),
        ],
    ),
    ("api.apps.v1.StatefulSetOrdinals", &[("ordinals_start_at_the_specified_number_sts_1", &["start"])]),
    (
        "api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        &[(
            "a_policy_is_about_scaling_and_deleting_the_set_and_nothing_else_sts_1",
            &["whenDeleted", "whenScaled"],
        )],
    ),
    (
        "api.apps.v1.StatefulSetUpdateStrategy",
        &[("pods_below_the_partition_come_back_as_they_were_sts_2", &["rollingUpdate", "type"])],
    ),
    (
        "api.apps.v1.RollingUpdateStatefulSetStrategy",
        &[("an_update_goes_from_the_highest_down_to_the_partition_sts_2", &["maxUnavailable", "partition"])],
    ),
    ("api.core.v1.PersistentVolumeClaim", &[("a_claims_next_step_vol_2", &["metadata", "spec"])]),
    (
        "api.apps.v1.DaemonSet",
        &[("a_daemon_names_its_node_instead_of_what_the_template_requires_ds_1", &["metadata", "spec"])],
    ),
    (
        "api.apps.v1.DaemonSetSpec",
        &[
            ("an_update_waits_for_min_ready_seconds_by_a_timer_ds_1", &["minReadySeconds"]),
            ("revision_history_is_recorded_rolled_back_to_and_limited_ds_1", &["revisionHistoryLimit"]),
            ("orphaned_daemons_and_revisions_are_adopted_ds_1", &["selector"]),
            ("an_update_goes_over_the_nodes_as_fast_as_agreed_ds_1", &["template", "updateStrategy"]),
        ],
    ),
    (
        "api.apps.v1.DaemonSetUpdateStrategy",
        &[("an_update_goes_over_the_nodes_as_fast_as_agreed_ds_1", &["rollingUpdate", "type"])],
    ),
    (
        "api.apps.v1.RollingUpdateDaemonSet",
        &[("an_update_has_bounds_that_round_up_ds_1", &["maxSurge", "maxUnavailable"])],
    ),
    (
        "api.apps.v1.Deployment",
        &[("a_template_that_was_there_before_is_found_again_dep_4", &["metadata", "spec"])],
    ),
    (
        "api.apps.v1.DeploymentSpec",
        &[
            ("min_ready_seconds_hold_a_rollout_without_polling_rs_1", &["minReadySeconds"]),
            ("a_paused_deployment_scales_but_does_not_roll_dep_3", &["paused", "replicas"]),
            ("without_a_deadline_there_is_no_progress_to_tell_of_dep_5", &["progressDeadlineSeconds"]),
            ("old_replica_sets_are_removed_beyond_the_history_limit_dep_4", &["revisionHistoryLimit"]),
            ("overlapping_selectors_take_nothing_from_one_another_dep_1", &["selector", "template"]),
            ("recreate_waits_for_the_last_old_pod_dep_2", &["strategy"]),
        ],
    ),
    (
        "api.apps.v1.DeploymentStrategy",
        &[("surge_and_unavailable_are_never_both_zero_dep_2", &["rollingUpdate", "type"])],
    ),
    (
        "api.apps.v1.RollingUpdateDeployment",
        &[("surge_and_unavailable_are_never_both_zero_dep_2", &["maxSurge", "maxUnavailable"])],
    ),
    (
        "api.networking.v1.NetworkPolicy",
        &[("several_policies_add_up_and_both_ends_must_agree_net_8", &["metadata", "spec"])],
    ),
    (
        "api.networking.v1.NetworkPolicySpec",
        &[(
            "policy_types_default_to_ingress_and_to_egress_where_there_are_such_rules_net_8",
            &["egress", "ingress", "podSelector", "policyTypes"],
        )],
    ),
    (
        "api.networking.v1.NetworkPolicyEgressRule",
        &[("several_policies_add_up_and_both_ends_must_agree_net_8", &["ports", "to"])],
    ),
    (
        "api.networking.v1.NetworkPolicyPort",
        &[("missing_and_empty_lists_mean_what_kubernetes_says_net_8", &["endPort", "port", "protocol"])],
    ),
    (
        "api.networking.v1.NetworkPolicyPeer",
        &[(
            "ports_are_of_their_protocol_and_named_ones_of_who_is_connected_to_net_8",
            &["ipBlock", "namespaceSelector", "podSelector"],
        )],
    ),
    (
        "api.networking.v1.IPBlock",
        &[("blocks_are_addresses_of_either_family_and_pods_have_some_net_8", &["cidr", "except"])],
    ),
    (
        "api.networking.v1.NetworkPolicyIngressRule",
        &[("several_policies_add_up_and_both_ends_must_agree_net_8", &["from", "ports"])],
    ),
    (
        "api.autoscaling.v2.HorizontalPodAutoscaler",
        &[("an_autoscaler_can_size_a_set_rs_1_hpa_1", &["metadata", "spec"])],
    ),
    (
        "api.autoscaling.v2.HorizontalPodAutoscalerSpec",
        &[
            ("each_direction_may_have_its_own_tolerance_and_least_size_hpa_1", &["behavior"]),
            ("an_autoscaler_can_size_a_set_rs_1_hpa_1", &["maxReplicas", "minReplicas", "scaleTargetRef"]),
            ("the_metric_that_asks_for_most_decides_hpa_1", &["metrics"]),
        ],
    ),
    (
        "api.autoscaling.v2.HorizontalPodAutoscalerBehavior",
        &[("each_direction_may_have_its_own_tolerance_and_least_size_hpa_1", &["scaleDown", "scaleUp"])],
    ),
    (
        "api.autoscaling.v2.HPAScalingRules",
        &[
            (
                "a_window_of_growth_waits_for_the_lowest_hpa_1",
                &["policies", "selectPolicy", "stabilizationWindowSeconds"],
            ),
            ("each_direction_may_have_its_own_tolerance_and_least_size_hpa_1", &["tolerance"]),
        ],
    ),
    (
        "api.autoscaling.v2.HPAScalingPolicy",
        &[("a_window_of_growth_waits_for_the_lowest_hpa_1", &["periodSeconds", "type", "value"])],
    ),
    (
        "api.autoscaling.v2.MetricSpec",
        &[
            ("a_container_s_metric_leaves_the_sidecar_out_hpa_1", &["containerResource"]),
            ("the_metric_that_asks_for_most_decides_hpa_1", &["resource", "type"]),
        ],
    ),
    (
        "api.autoscaling.v2.ContainerResourceMetricSource",
        &[("memory_by_value_of_one_container_and_rules_of_speed_hpa_1", &["container", "name", "target"])],
    ),
    (
        "api.autoscaling.v2.MetricTarget",
        &[
            ("the_metric_that_asks_for_most_decides_hpa_1", &["averageUtilization"]),
            ("memory_by_value_of_one_container_and_rules_of_speed_hpa_1", &["averageValue"]),
        ],
    ),
    (
        "api.autoscaling.v2.CrossVersionObjectReference",
        &[("an_autoscaler_can_size_a_set_rs_1_hpa_1", &["apiVersion", "kind", "name"])],
    ),
    (
        "api.autoscaling.v2.ResourceMetricSource",
        &[("the_metric_that_asks_for_most_decides_hpa_1", &["name", "target"])],
    ),
];

/// Fields without an effect of their own, in Kubernetes as in Podium, each with the test of its validation or
/// defaults.
pub(crate) const RULES_ALONE: &[(&str, &[TestedFields])] = &[
    ("api.core.v1.ObjectFieldSelector", &[("a_pod_gets_kubernetes_defaults_api_8", &["apiVersion"])]),
    ("api.autoscaling.v2.MetricTarget", &[("autoscalers_have_rules_and_defaults_hpa_1", &["type"])]),
];
