package packaging

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

const kubernetes = "deploy/kubernetes"

// A manifest is what the tests look at.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ClusterIP string `yaml:"clusterIP"`
		Template  struct {
			Spec struct {
				EnableServiceLinks *bool `yaml:"enableServiceLinks"`
				Grace              int   `yaml:"terminationGracePeriodSeconds"`
				Containers         []struct {
					ReadinessProbe  probe `yaml:"readinessProbe"`
					LivenessProbe   probe `yaml:"livenessProbe"`
					SecurityContext struct {
						ReadOnly bool `yaml:"readOnlyRootFilesystem"`
					} `yaml:"securityContext"`
				}
			}
		}
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	text := readFile(t, filepath.Join(root, kubernetes, "manifests/penstock.yaml"))
	all := map[string]manifest{}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var m manifest
		if err := yaml.Unmarshal([]byte(part), &m); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		all[m.Kind+" "+m.Metadata.Name] = m
	}
	return all
}

// The plain manifests run Penstock as it should be run, with a configuration that it accepts.
func TestManifests(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	pod := all["Deployment penstock"].Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.EnableServiceLinks == nil || *pod.EnableServiceLinks || !pod.Containers[0].SecurityContext.ReadOnly {
		t.Errorf("got %+v", pod)
	}
	if c := pod.Containers[0]; c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Port != "health" {
		t.Errorf("got probes %+v", c)
	}
	if all["Service penstock-grpc"].Spec.ClusterIP != "None" {
		t.Error("the Service of gRPC has an address: its clients would use one node")
	}
	text := all["ConfigMap penstock"].Data["penstock.yaml"]
	var config struct {
		Gateway struct {
			Timeouts struct {
				Delay time.Duration `yaml:"drain_delay"`
				Drain time.Duration
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if stop := config.Gateway.Timeouts.Delay + config.Gateway.Timeouts.Drain; config.Gateway.Timeouts.Delay == 0 || stop >= time.Duration(pod.Grace)*time.Second {
		t.Errorf("a node takes up to %v to stop, and is killed after %d s", stop, pod.Grace)
	}
	dir := t.TempDir()
	rules := writeFile(t, filepath.Join(dir, "rules", "rules.yaml"), all["ConfigMap penstock-rules"].Data["rules.yaml"])
	out := run(t, dir, []string{"PENSTOCK_RULES_FILE=" + filepath.Dir(rules), "PENSTOCK_DATA_DIR=" + dir}, program, "serve", "--check", "--config", writeFile(t, filepath.Join(dir, "penstock.yaml"), text))
	if !strings.Contains(out, "ok: configuration and 1 rule") {
		t.Errorf("got %s", out)
	}
	run(t, root, nil, program, "rules", "validate", filepath.Join(kubernetes, "kustomize/rules.yaml"))
}

// helm finds Helm, or builds it if there is time.
func helm(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("helm")
	if err == nil {
		return path
	}
	if !long() {
		t.Skip("helm is not installed, and building it takes minutes: set PENSTOCK_TEST_LONG")
	}
	dir := t.TempDir()
	if out, err := tryRun(t, dir, []string{"GOBIN=" + dir, "GOFLAGS="}, "go", "install", "helm.sh/helm/v3/cmd/helm@v3.22.0"); err != nil {
		t.Skipf("helm cannot be built here: %v\n%s", err, out)
	}
	return filepath.Join(dir, "helm")
}

// Helm accepts the chart with each of its values files, the plain manifests equal the chart's, and errors are
// rejected.
func TestChart(t *testing.T) {
	t.Parallel()
	helm, chart := helm(t), filepath.Join(root, kubernetes, "chart")
	again := filepath.Join(t.TempDir(), "penstock.yaml")
	run(t, root, []string{"HELM=" + helm}, filepath.Join(root, "scripts", "manifests"), again)
	if readFile(t, again) != readFile(t, filepath.Join(root, kubernetes, "manifests/penstock.yaml")) {
		t.Error("the plain manifests are not those of the chart: run scripts/manifests")
	}
	files, err := filepath.Glob(filepath.Join(chart, "ci", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", files, err)
	}
	rendered := readFile(t, again)
	for _, file := range files {
		run(t, root, nil, helm, "lint", "--strict", chart, "--values", file)
		rendered += "\n---\n" + run(t, root, nil, helm, "template", "penstock", chart, "--kube-version", "1.31.0", "--values", file)
	}
	for name, set := range map[string]string{
		"a short secret": "keySecret=short", "an unknown value": "replicas=3", "Redis without a secret": "redis.addresses={valkey:6379}",
		"admin without TLS": "admin.enabled=true", "metrics without admin": "serviceMonitor.enabled=true",
	} {
		if out, err := tryRun(t, root, nil, helm, "template", "penstock", chart, "--kube-version", "1.31.0", "--set", set); err == nil {
			t.Errorf("%s is accepted:\n%s", name, out)
		}
	}
	validate(t, writeFile(t, filepath.Join(t.TempDir(), "all.yaml"), rendered))
}

// validate checks manifests, and the kustomization, against the types of Kubernetes.
func validate(t *testing.T, file string) {
	t.Helper()
	if !long() {
		t.Log("not checked against the types of Kubernetes: set PENSTOCK_TEST_LONG")
		return
	}
	tool := filepath.Join(t.TempDir(), "validate")
	run(t, filepath.Join(root, kubernetes, "validate"), nil, "go", "build", "-o", tool, ".")
	t.Log(run(t, root, nil, "sh", "-c", `"$0" <"$1"`, tool, file))
	out := run(t, root, nil, tool, filepath.Join(kubernetes, "kustomize"))
	for _, want := range []string{"apps/v1/Deployment penstock", "v1/ConfigMap penstock-rules", "v1/Secret penstock"} {
		if !strings.Contains(out, want) {
			t.Errorf("the kustomization has no %s:\n%s", want, out)
		}
	}
	wrong := writeFile(t, filepath.Join(t.TempDir(), "wrong.yaml"), strings.Replace(readFile(t, file), "terminationGracePeriodSeconds", "terminationGraceSeconds", 1))
	if out, err := tryRun(t, root, nil, "sh", "-c", `"$0" <"$1"`, tool, wrong); err == nil || !strings.Contains(out, "terminationGraceSeconds") {
		t.Errorf("an unknown field is accepted: %v\n%s", err, out)
	}
}
