// Command validate reads manifests from stdin and fails unless each has a known kind and only fields of that
// kind. The types are those of the Kubernetes and prometheus-operator modules. With an argument it first builds
// the kustomization in that directory.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// kinds are those that the chart creates.
var kinds = map[string]func() any{
	"v1/ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1/Secret":                               func() any { return new(core.Secret) },
	"v1/Service":                              func() any { return new(core.Service) },
	"v1/ServiceAccount":                       func() any { return new(core.ServiceAccount) },
	"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"autoscaling/v2/HorizontalPodAutoscaler":  func() any { return new(autoscaling.HorizontalPodAutoscaler) },
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "validate:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 1 {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), args[0])
		if err != nil {
			return err
		}
		text, err := built.AsYaml()
		if err != nil {
			return err
		}
		in = bytes.NewReader(text)
	}
	reader := kubeyaml.NewYAMLReader(bufio.NewReader(in))
	valid := 0
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		name, err := check(document)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if name != "" {
			valid++
			fmt.Fprintln(out, name)
		}
	}
	if valid == 0 {
		return errors.New("there are no manifests")
	}
	return nil
}

// check returns the kind and name of a document, or "" if it is empty.
func check(document []byte) (string, error) {
	var head struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return "", err
	}
	if head.Kind == "" {
		if values := map[string]any{}; yaml.Unmarshal(document, &values) == nil && len(values) == 0 {
			return "", nil
		}
	}
	name := head.APIVersion + "/" + head.Kind + " " + head.Name
	make, ok := kinds[head.APIVersion+"/"+head.Kind]
	if !ok {
		return name, errors.New("unknown kind")
	}
	return name, yaml.UnmarshalStrict(document, make())
}
