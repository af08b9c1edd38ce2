"""Planted bugs in what a node says to those who install and start it."""

from typing import Final

from tests.mutations.mutation import Mutation

HELM: Final = "tests/test_deploy_helm.py::"
CHART: Final = "deploy/helm/crdtstream/templates/"

PACKAGES: Final = (
    Mutation(
        "a-region-in-kubernetes-may-have-two-pods",
        CHART + "checks.yaml",
        "(ne (int .replicas) 1)",
        "false",
        (HELM + "test_values_that_make_no_sense_render_nothing",),
        "the second pod of a region has an empty folder and takes the number of the first",
    ),
    Mutation(
        "a-setting-that-the-chart-writes-is-taken-from-the-operator",
        CHART + "checks.yaml",
        ' "tls_replication" "tls_http"',
        ' "tls_http"',
        (HELM + "test_settings_that_the_chart_writes_are_refused_from_the_operator",),
        "a file names a setting twice, and its node does not start",
    ),
    Mutation(
        "grafana-reaches-ports-that-trust-every-peer",
        "deploy/docker/compose.watch.yaml",
        "    networks: [watching]\n",
        "    networks: [watching, clients]\n",
        ("tests/test_deploy_docker.py::test_only_regions_and_prometheus_reach_ports_without_tls",),
        "a program that breaks into Grafana poses as a region, and writes what it likes",
    ),
    Mutation(
        "settings-of-one-region-restart-all",
        CHART + "statefulset.yaml",
        'include "crdtstream.regionToml" (list $root $region) | sha256sum',
        'include (print $root.Template.BasePath "/configmap.yaml") $root | sha256sum',
        (HELM + "test_a_region_gets_another_pod_for_its_own_settings_alone",),
        "a change of one region's volume takes all regions away together",
    ),
    Mutation(
        "a-region-in-kubernetes-does-not-know-its-bound-of-memory",
        CHART + "_helpers.tpl",
        '{{- if and $limit (not (hasKey $settings "maxmemory")) -}}',
        "{{- if false -}}",
        (HELM + "test_a_region_takes_a_part_of_its_memory",),
        "the kernel kills a region that grows, and it is killed again after each restart",
    ),
    Mutation(
        "regions-in-kubernetes-do-not-find-peers-that-wait",
        CHART + "service.yaml",
        "publishNotReadyAddresses: true",
        "publishNotReadyAddresses: false",
        (HELM + "test_each_region_is_one_pod_with_its_own_volume",),
        "the regions of a new database wait for each other for good",
    ),
    Mutation(
        "every-container-has-the-token",
        CHART + "statefulset.yaml",
        "            - {name: tmp, mountPath: /tmp}\n",
        "            - {name: api-token, mountPath: /token}\n"
        "            - {name: tmp, mountPath: /tmp}\n",
        (HELM + "test_only_the_init_container_has_a_token_and_may_read_only_these_claims",),
        "a program that breaks into a node speaks to the API server of the cluster",
    ),
)
