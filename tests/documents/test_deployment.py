"""What is shipped for containers, clusters and releases fits the package: names, versions, paths and settings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import kubernetes_validate
import prometheus_client
import pytest
from services.processes import free_port, serving

import metastore
from metastore.config import load_text
from metastore.daemon.decide import LastRun
from metastore.daemon.metrics import PrometheusMetrics
from metastore.daemon.state import Pass, State
from metastore.ground.distribution import DISTRIBUTION, VERSION
from metastore.model.run_unit import RunUnit

ROOT = Path(metastore.__file__).parents[1]
YAML = sorted((*ROOT.glob("deploy/**/*.yaml"), *ROOT.glob(".github/**/*.yml"), ROOT / "CITATION.cff"))
KUBERNETES, MONITORING = ROOT / "deploy/kubernetes", ROOT / "deploy/monitoring"
ENVIRONMENT = {"ACCESS_KEY": "key-of-this-test", "SECRET_KEY": "secret-of-this-test", "DAEMON_TOKEN": "t" * 40}


def documents(path: Path) -> list[Any]:
    """What a YAML file holds."""
    yaml: Any = import_module("yaml")
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_yaml_is_well_formed(path: Path) -> None:
    """Each file parses to something."""
    assert all(documents(path))


def settings(text: str) -> list[str]:
    """The warnings of a configuration with the variables that a deployment has."""
    for name, value in ENVIRONMENT.items():
        text = re.sub(rf"\$\{{\??{name}\}}", f'"{value}"', text)
    return [str(each) for each in load_text(text).warnings]


def test_configurations_load_without_a_warning() -> None:
    """That of the Compose file, and that of the Kubernetes manifests."""
    assert settings((ROOT / "deploy/compose.conf").read_text()) == []
    assert settings((KUBERNETES / "drill-metastore-override.conf").read_text()) == []


def test_the_manifests_fit_together() -> None:
    """Selectors find pods, volumes exist, nothing runs as root, and the image has this version."""
    deployment, service, cron = documents(KUBERNETES / "daemon.yaml")
    [kustomization] = documents(KUBERNETES / "kustomization.yaml")
    [configuration], [image] = kustomization["configMapGenerator"], kustomization["images"]
    pods = deployment["spec"]["template"]
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == pods["metadata"]["labels"]
    for pod in (pods["spec"], cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]):
        [container] = pod["containers"]
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
        assert pod["volumes"][0]["configMap"]["name"] == configuration["name"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["image"] == f"{image['name']}:{VERSION}"
    assert image["newTag"] == VERSION


@pytest.mark.parametrize("folder", [KUBERNETES, MONITORING], ids=lambda path: path.name)
def test_every_file_of_a_folder_has_its_use(folder: Path) -> None:
    """A kustomization names only what is there. Of its folder it leaves out the rules for a Prometheus alone."""
    [kustomization] = documents(folder / "kustomization.yaml")
    assert (kustomization["apiVersion"], kustomization["kind"]) == ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    generated = [name for each in kustomization["configMapGenerator"] for name in each["files"]]
    named = {(folder / name).resolve() for name in (*kustomization["resources"], *generated)}
    assert all(path.is_file() or (path / "kustomization.yaml").is_file() for path in named)
    left = {path.name for path in folder.iterdir() if path.resolve() not in named} - {"kustomization.yaml"}
    assert left == ({"alerts.yaml"} if folder == MONITORING else set())


def test_prometheus_finds_the_daemons_and_may_ask_them() -> None:
    """The ServiceMonitor selects the Service and its port, which leads to the pod's, and sends the required token."""
    deployment, service, _ = documents(KUBERNETES / "daemon.yaml")
    monitor, rules = documents(MONITORING / "operator.yaml")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    [port], [inside], [endpoint] = service["spec"]["ports"], container["ports"], monitor["spec"]["endpoints"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert (endpoint["port"], port["targetPort"]) == (port["name"], inside["name"])
    assert port["port"] == inside["containerPort"] == load_text("").daemon.endpoint.port
    credentials = endpoint["authorization"]["credentials"]
    assert {"secretRef": {"name": credentials["name"]}} in container["envFrom"]
    assert f"token = ${{{credentials['key']}}}" in (KUBERNETES / "drill-metastore-override.conf").read_text()
    assert rules["spec"] == documents(MONITORING / "alerts.yaml")[0]


@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_kubernetes_takes_the_manifests(version: str) -> None:
    """Each object fits the schema of its kind, in an old and the newest version; no field is unknown there."""
    for manifest in documents(KUBERNETES / "daemon.yaml"):
        kubernetes_validate.validate(manifest, version, strict=True)
        with pytest.raises(kubernetes_validate.ValidationError, match="no-such-field"):
            kubernetes_validate.validate({**manifest, "no-such-field": 1}, version, strict=True)


def test_the_image_installs_this_distribution_with_extras_that_exist() -> None:
    """And runs as a user of its own."""
    text = (ROOT / "deploy/Dockerfile").read_text()
    [(wheel, extras)] = re.findall(r"/wheels/(\w+)-\*\.whl\)\[([a-z,]+)\]", text)
    assert wheel == DISTRIBUTION.replace("-", "_")
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras.split(","))
    assert re.search(r"^USER 10001$", text, re.MULTILINE)


@pytest.mark.integration
def test_the_image_runs_a_daemon_whose_health_its_check_asks(tmp_path: Path) -> None:
    """ENTRYPOINT, CMD and HEALTHCHECK as they stand, with the image's variables alone; a daemon that ended is ill."""
    text = (ROOT / "deploy/Dockerfile").read_text()

    def argued(word: str) -> list[str]:
        [found] = re.findall(rf"^{word}(?: --\S+)*(?: CMD)? (\[.+\])$", text, re.MULTILINE)
        words: list[str] = json.loads(found)
        return words

    names = [name for name, _ in re.findall(r"^ENV (\w+)=(\S+)$", text, re.MULTILINE)]
    assert names == ["HOME", "METASTORE_CONF_DIR"]
    for name in names:
        (tmp_path / name).mkdir()
    port = free_port()
    (tmp_path / "METASTORE_CONF_DIR" / "drill-metastore-override.conf").write_text(
        f'drill.metastore {{ iceberg.location.base_path = "{tmp_path}/m", daemon.http.port = {port} }}'
    )
    programs = [f"PATH={Path(sys.executable).parent}", f"PYTHONPATH={ROOT}"]
    image = ["env", "-i", *programs, *(f"{name}={tmp_path / name}" for name in names)]
    check = [*image, *argued("HEALTHCHECK")]
    with serving([*image, *argued("ENTRYPOINT"), *argued("CMD")], port, tmp_path):
        well = subprocess.run(check, check=False, capture_output=True, text=True)
        assert well.returncode == 0, well.stderr
    ill = subprocess.run(check, check=False, capture_output=True, text=True)
    assert (ill.returncode, "no daemon answers" in ill.stderr) == (1, True)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines
    assert all(json.loads(line) for line in lines)


def test_the_version_stands_in_one_place_and_its_copies_agree() -> None:
    """The release refuses a tag that is not the version; the citation names the version."""
    assert f'VERSION: Final = "{VERSION}"' in (ROOT / "metastore/ground/distribution.py").read_text().splitlines()
    assert r"VERSION: Final = \"${GITHUB_REF_NAME#v}\"" in (ROOT / ".github/workflows/release.yml").read_text()
    assert documents(ROOT / "CITATION.cff")[0]["version"] == VERSION


def test_the_board_and_the_alerts_ask_for_metrics_that_exist() -> None:
    """Each expression names only metrics that the daemon has, and brackets in pairs; there are three alerts."""
    state = State(token=1, current=Pass(0, 0, 2, 1), last_runs={("t", "a"): LastRun(1, 1, 1)}, passed_over={"x": "y"})
    state.count(RunUnit(action="expire_snapshots", status="done", milliseconds=1))
    text = PrometheusMetrics(prometheus_client, state, lambda: 1.0).text()[2].decode()
    known = set(re.findall(r"^(metastore_daemon_\w+)", text, re.MULTILINE))
    board = json.loads((MONITORING / "grafana.json").read_text())
    [alerts] = documents(MONITORING / "alerts.yaml")
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(rules) == 3
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) == 8
    for rule in rules:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+m", rule["for"])
        asked.append(rule["expr"])
    for expression in asked:
        assert all(expression.count(left) == expression.count(right) for left, right in ("()", "[]", "{}"))
        named = set(re.findall(r"metastore_daemon_\w+", expression))
        assert named, expression
        assert named <= known, expression


def test_lines_of_cron_fit_their_file() -> None:
    """A file in /etc/cron.d names the user after the times, a user's own table does not; both set PATH."""
    croniter: Any = import_module("croniter").croniter
    page = (ROOT / "docs/how-to/nightly-job.md").read_text()
    tables = dict(re.findall(r"^```crontab\n# (.+)\nPATH=\S+\n(.+)\n```$", page, re.MULTILINE))
    assert tables.keys() == {"/etc/cron.d/metastore", "crontab -e"}
    for line in tables.values():
        assert croniter.is_valid(" ".join(line.split()[:5]))
    assert tables["/etc/cron.d/metastore"].split()[5:7] == ["metastore", "/opt/metastore/nightly.sh"]
    assert tables["crontab -e"].split()[5] == "/opt/metastore/nightly.sh"
