"""Planted bugs in what a node says to those who install and start it."""

from typing import Final

from tests.mutations.mutation import Mutation

SYSTEMD: Final = "tests/live/test_service_manager.py::"
HANGUP: Final = "test_a_hangup_before_and_after_it_serves_does_not_end_a_node_without_tls"
NODE: Final = "crdtstream/node/node.py"
MANAGER: Final = "crdtstream/node/service_manager.py"
ARROW: Final = "tests/query/test_without_arrow.py::"

HELM: Final = "tests/test_deploy_helm.py::"
CHART: Final = "deploy/helm/crdtstream/templates/"
OPENING: Final = "tests/store/test_opening.py::"

PACKAGES: Final = (
    Mutation(
        "a-clone-of-a-volume-is-the-folder",
        "crdtstream/store/sqlite.py",
        'in ("", self._volume_id)',
        'in ("", self._volume_id, "claim-1")',
        (OPENING + "test_a_clone_of_a_volume_is_not_the_folder",),
        "a region goes on in a snapshot of its volume, and uses dots twice",
    ),
    Mutation(
        "a-node-is-ready-before-it-starts",
        "crdtstream/node/node.py",
        "        settings, engine, log = self.settings, recovered.engine, recovered.folder.log\n",
        '        self._manager.tell("READY=1", f"STATUS=region {self.region} serves clients")\n'
        "        settings, engine, log = self.settings, recovered.engine, recovered.folder.log\n",
        (SYSTEMD + "test_a_node_that_does_not_start_says_nothing",),
        "systemd starts applications whose region is not there yet",
    ),
    Mutation(
        "a-hangup-before-it-serves-ends-a-node",
        NODE,
        "        loop.add_signal_handler(signal.SIGHUP, self._reload.set)\n",
        "",
        (SYSTEMD + HANGUP,),
        "`systemctl reload` ends a region, which stays down: for systemd that was no failure",
    ),
    Mutation(
        "a-hangup-reads-no-certificates",
        "crdtstream/certificates/watching.py",
        "            await self.reload()\n",
        "            pass\n",
        ("tests/certificates/test_watching.py::test_a_wish_to_reload_that_came_early_is_granted",),
        "`systemctl reload` says that it is done, and the former certificate stays in use",
    ),
    Mutation(
        "a-full-queue-swallows-the-word-that-a-node-is-ready",
        MANAGER,
        "                if time.monotonic() >= deadline:\n",
        "                if True:\n",
        (SYSTEMD + "test_words_that_are_said_once_wait_for_room_in_the_queue",),
        "systemd waits for good for a node that serves, and what comes after it is not started",
    ),
    Mutation(
        "signs-of-life-in-the-place-of-another-process",
        MANAGER,
        'if not text or variables.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):',
        "if not text:",
        (SYSTEMD + "test_the_watchdog_of_this_process_alone_is_heeded",),
        "a process that hangs is thought to live, as a child of it gives signs",
    ),
    Mutation(
        "a-port-for-spark-without-arrow-is-opened",
        "crdtstream/node/node.py",
        "    if settings.query.port and not is_arrow_installed():\n",
        "    if False:\n",
        (ARROW + "test_a_port_for_spark_without_arrow_stops_the_start",),
        "the first query of Spark finds out that the node was installed without pyarrow",
    ),
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
